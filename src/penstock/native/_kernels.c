/* The inner loops of ticks of some hundred rows, compiled.

   Every function here does what a function in numpy and Arrow does elsewhere in the package, to the
   bit, and is called in its place where this file could be compiled (penstock/native/__init__.py). What is
   gained is not arithmetic: numpy and Arrow cost microseconds a call and a column, and they visit
   stored rows one column after the other, waiting for memory each time. Here one call takes all columns,
   and asks for the memory of the next rows while it looks at these.

   A column comes as a penstock.zset.column.Column: numbers are numpy arrays of 1, 2, 4 or 8 bytes, text is an
   Arrow array of 64-bit offsets whose buffers Column.text_buffers() tells. A column of another kind raises
   TypeError, as do arrays that swap bytes or lie across words: whoever calls goes the plain way then.

   What changes what a function takes or gives changes VERSION, here and in penstock/native/__init__.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words of text are hashed as little-endian machines have them"
#endif

#define VERSION 1
#define BLOCK 16            /* rows that are asked for ahead */
#define GIL_ROWS 8192       /* from here on other threads may run meanwhile */

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch((const void *)(p))
#else
#define PREFETCH(p) ((void)(p))
#endif

/* Between these two only memory is touched that the call holds: no object, no error. */
static PyThreadState *others_may_run(npy_intp rows)
{
    return rows >= GIL_ROWS ? PyEval_SaveThread() : NULL;
}

static void only_this_runs(PyThreadState *state)
{
    if (state != NULL)
        PyEval_RestoreThread(state);
}

static PyObject *s_values, *s_valid, *s_text, *s_text_buffers;

typedef struct {
    int text;               /* 1: offsets, data and a bitmap; 0: numbers of `width` bytes */
    int kind;               /* numbers: 'b', 'i', 'u' or 'f', as numpy has it */
    int width;
    npy_intp count;
    npy_intp stride;        /* between numbers */
    const char *data;
    const uint8_t *valid;   /* numbers: a byte for each, or NULL */
    npy_intp valid_stride;
    const int64_t *offsets; /* text: begins at the array's own first row */
    const uint8_t *bitmap;  /* text: or NULL */
    int64_t bitmap_start;
    PyObject *hold, *hold_valid;
} Col;

static void col_close(Col *c)
{
    Py_XDECREF(c->hold);
    Py_XDECREF(c->hold_valid);
    c->hold = c->hold_valid = NULL;
}

/* What the column has told about these values; 0 if it has not, or about others: a column of a file may forget its
   values, and map them anew elsewhere. */
static int col_told(PyObject *column, PyObject *values, PyObject **told)
{
    *told = PyObject_GetAttr(column, s_text);
    if (*told == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    if (PyTuple_CheckExact(*told) && PyTuple_GET_SIZE(*told) == 6 && PyTuple_GET_ITEM(*told, 0) == values)
        return 1;
    Py_CLEAR(*told);
    return 0;
}

static int col_open_text(PyObject *column, Col *c)
{
    /* (array, address of offsets, of data, of the bitmap or 0, first row, rows), kept by the column */
    PyObject *told;
    int known = col_told(column, c->hold, &told);
    if (known < 0 || (!known && (told = PyObject_CallMethodNoArgs(column, s_text_buffers)) == NULL))
        return -1;
    if (!PyTuple_CheckExact(told) || PyTuple_GET_SIZE(told) != 6) {
        Py_DECREF(told);
        PyErr_SetString(PyExc_TypeError, "not the buffers of a text column");
        return -1;
    }
    Py_SETREF(c->hold, told); /* the array that has these buffers, whatever becomes of the column meanwhile */
    uint64_t part[5];
    for (int i = 0; i < 5; i++) {
        part[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(told, i + 1));
        if (part[i] == (uint64_t)-1 && PyErr_Occurred())
            return -1;
    }
    c->text = 1;
    c->count = (npy_intp)part[4];
    c->offsets = c->count ? (const int64_t *)(uintptr_t)part[0] + part[3] : NULL;
    c->data = (const char *)(uintptr_t)part[1];
    c->bitmap = (const uint8_t *)(uintptr_t)part[2];
    c->bitmap_start = (int64_t)part[3];
    return 0;
}

/* 'b', 'i', 'u' or 'f' for numbers that this file knows, in the machine's order of bytes; 0 for others. */
static int kind_of(PyArrayObject *array)
{
    int kind = PyArray_DESCR(array)->kind;
    npy_intp width = PyArray_ITEMSIZE(array);
    if (PyArray_NDIM(array) != 1 || !PyArray_ISNOTSWAPPED(array))
        return 0;
    if (kind == 'f')
        return width == 4 || width == 8 ? kind : 0;
    if (kind != 'b' && kind != 'i' && kind != 'u')
        return 0;
    return width == 1 || width == 2 || width == 4 || width == 8 ? kind : 0;
}

static int col_open_mask(PyObject *column, Col *c)
{
    PyObject *valid = PyObject_GetAttr(column, s_valid);
    if (valid == NULL)
        return -1;
    if (valid == Py_None) {
        Py_DECREF(valid);
        return 0;
    }
    c->hold_valid = valid;
    PyArrayObject *mask = (PyArrayObject *)valid;
    if (!PyArray_Check(valid) || PyArray_NDIM(mask) != 1 || PyArray_TYPE(mask) != NPY_BOOL ||
        PyArray_DIM(mask, 0) != c->count) {
        PyErr_SetString(PyExc_TypeError, "not a mask of a column");
        return -1;
    }
    c->valid = (const uint8_t *)PyArray_BYTES(mask);
    c->valid_stride = PyArray_STRIDE(mask, 0);
    return 0;
}

static int col_open(PyObject *column, Col *c)
{
    memset(c, 0, sizeof *c);
    int bare = PyArray_Check(column); /* weights and other measures */
    PyObject *values = c->hold = bare ? Py_NewRef(column) : PyObject_GetAttr(column, s_values);
    if (values == NULL)
        return -1;
    if (!PyArray_Check(values)) {
        if (col_open_text(column, c) < 0)
            goto failed;
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)values;
    c->kind = kind_of(array);
    if (c->kind == 0) {
        PyErr_SetString(PyExc_TypeError, "not a column of plain numbers");
        goto failed;
    }
    c->data = PyArray_BYTES(array);
    c->count = PyArray_DIM(array, 0);
    c->stride = PyArray_STRIDE(array, 0);
    c->width = (int)PyArray_ITEMSIZE(array);
    if (bare || col_open_mask(column, c) == 0)
        return 0;
failed:
    col_close(c);
    return -1;
}

static void cols_close(Col *cols, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        col_close(&cols[i]);
    PyMem_Free(cols);
}

/* A list or tuple of columns; NULL with an error set if one of them is of another kind. */
static Col *cols_open(PyObject *sequence, Py_ssize_t *n)
{
    PyObject *fast = PySequence_Fast(sequence, "columns must be a sequence");
    if (fast == NULL)
        return NULL;
    *n = PySequence_Fast_GET_SIZE(fast);
    Col *cols = PyMem_Calloc(*n ? *n : 1, sizeof(Col));
    if (cols == NULL) {
        Py_DECREF(fast);
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *n; i++) {
        if (col_open(PySequence_Fast_GET_ITEM(fast, i), &cols[i]) < 0) {
            cols_close(cols, i);
            Py_DECREF(fast);
            return NULL;
        }
    }
    Py_DECREF(fast);
    return cols;
}

static inline int bit(const uint8_t *bitmap, int64_t at)
{
    return bitmap[at >> 3] >> (at & 7) & 1;
}

static inline int col_valid(const Col *c, npy_intp row)
{
    if (c->text)
        return c->bitmap == NULL || bit(c->bitmap, c->bitmap_start + row);
    return c->valid == NULL || c->valid[row * c->valid_stride] != 0;
}

static inline void col_prefetch(const Col *c, npy_intp row)
{
    if (c->text) {
        PREFETCH(c->offsets + row);
        if (c->bitmap != NULL)
            PREFETCH(c->bitmap + ((c->bitmap_start + row) >> 3));
    } else {
        PREFETCH(c->data + row * c->stride);
        if (c->valid != NULL)
            PREFETCH(c->valid + row * c->valid_stride);
    }
}

static inline void col_prefetch_text(const Col *c, npy_intp row)
{
    const char *from = c->data + c->offsets[row];
    PREFETCH(from);
    if (c->offsets[row + 1] - c->offsets[row] > 48)
        PREFETCH(from + 63);
}

static inline uint64_t load(const char *p, int width)
{
    switch (width) {
    case 8: { uint64_t v; memcpy(&v, p, 8); return v; }
    case 4: { uint32_t v; memcpy(&v, p, 4); return v; }
    case 2: { uint16_t v; memcpy(&v, p, 2); return v; }
    default: return (uint8_t)*p;
    }
}

static inline double load_float(const char *p, int width)
{
    if (width == 8) { double v; memcpy(&v, p, 8); return v; }
    float v;
    memcpy(&v, p, 4);
    return v;
}

/* The same value, or NULL on both sides. NaN equals NaN, -0.0 equals 0.0. */
static inline int same(const Col *a, npy_intp i, const Col *b, npy_intp j)
{
    int there = col_valid(a, i);
    if (there != col_valid(b, j))
        return 0;
    if (!there)
        return 1;
    if (a->text) {
        int64_t from = a->offsets[i], length = a->offsets[i + 1] - from;
        if (length != b->offsets[j + 1] - b->offsets[j])
            return 0;
        return length == 0 || memcmp(a->data + from, b->data + b->offsets[j], (size_t)length) == 0;
    }
    const char *p = a->data + i * a->stride, *q = b->data + j * b->stride;
    if (a->kind == 'f') {
        double x = load_float(p, a->width), y = load_float(q, b->width);
        return x == y || (x != x && y != y);
    }
    return load(p, a->width) == load(q, b->width);
}

static int comparable(const Col *a, const Col *b)
{
    return a->text == b->text && a->width == b->width && a->kind == b->kind;
}

/* An array of int64 without gaps, in the machine's words, or an error. Borrowed. */
static const int64_t *int64s(PyObject *object, npy_intp *count)
{
    if (!PyArray_Check(object) || PyArray_TYPE((PyArrayObject *)object) != NPY_INT64 ||
        PyArray_NDIM((PyArrayObject *)object) != 1 || !PyArray_ISCARRAY_RO((PyArrayObject *)object)) {
        PyErr_SetString(PyExc_TypeError, "row numbers must be a plain array of int64");
        return NULL;
    }
    *count = PyArray_DIM((PyArrayObject *)object, 0);
    return (const int64_t *)PyArray_DATA((PyArrayObject *)object);
}

static const uint64_t *uint64s(PyObject *object, npy_intp *count)
{
    if (!PyArray_Check(object) || PyArray_TYPE((PyArrayObject *)object) != NPY_UINT64 ||
        PyArray_NDIM((PyArrayObject *)object) != 1 || !PyArray_ISCARRAY_RO((PyArrayObject *)object)) {
        PyErr_SetString(PyExc_TypeError, "hashes must be a plain array of uint64");
        return NULL;
    }
    *count = PyArray_DIM((PyArrayObject *)object, 0);
    return (const uint64_t *)PyArray_DATA((PyArrayObject *)object);
}

static PyObject *new_array(int type, npy_intp count)
{
    return PyArray_SimpleNew(1, &count, type);
}

static int rows_within(const int64_t *rows, npy_intp count, npy_intp limit)
{
    uint64_t worst = 0;
    for (npy_intp i = 0; i < count; i++)
        worst |= (uint64_t)((uint64_t)rows[i] >= (uint64_t)limit);
    if (worst) {
        PyErr_SetString(PyExc_IndexError, "a row number lies outside of its column");
        return 0;
    }
    return 1;
}

/* -- take ------------------------------------------------------------------------------------------ */

static void take_numbers(const Col *c, const int64_t *rows, npy_intp count, char *out)
{
#define TAKE(T)                                                                                    \
    for (npy_intp i = 0; i < count; i++) {                                                         \
        if (i + BLOCK < count)                                                                     \
            PREFETCH(c->data + rows[i + BLOCK] * c->stride);                                       \
        memcpy(out + i * sizeof(T), c->data + rows[i] * c->stride, sizeof(T));                     \
    }
    switch (c->width) {
    case 8: TAKE(uint64_t); break;
    case 4: TAKE(uint32_t); break;
    case 2: TAKE(uint16_t); break;
    default: TAKE(uint8_t);
    }
}

static PyObject *take_number_column(const Col *c, const int64_t *rows, npy_intp count)
{
    PyArray_Descr *kind = PyArray_DESCR((PyArrayObject *)c->hold);
    Py_INCREF(kind);
    PyObject *values = PyArray_NewFromDescr(&PyArray_Type, kind, 1, &count, NULL, NULL, 0, NULL);
    if (values == NULL)
        return NULL;
    PyThreadState *state = others_may_run(count);
    take_numbers(c, rows, count, PyArray_BYTES((PyArrayObject *)values));
    only_this_runs(state);
    if (c->valid == NULL)
        return Py_BuildValue("(NO)", values, Py_None);
    PyObject *valid = new_array(NPY_BOOL, count);
    if (valid == NULL) {
        Py_DECREF(values);
        return NULL;
    }
    uint8_t *mask = (uint8_t *)PyArray_BYTES((PyArrayObject *)valid);
    for (npy_intp i = 0; i < count; i++)
        mask[i] = c->valid[rows[i] * c->valid_stride] != 0;
    return Py_BuildValue("(NN)", values, valid);
}

/* (offsets, bytes, bitmap or None, how many are NULL) */
static PyObject *take_text_column(const Col *c, const int64_t *rows, npy_intp count)
{
    PyObject *places = new_array(NPY_INT64, count + 1), *data = NULL, *bitmap = NULL;
    if (places == NULL)
        return NULL;
    int64_t *offsets = (int64_t *)PyArray_DATA((PyArrayObject *)places), total = 0;
    offsets[0] = 0;
    for (npy_intp i = 0; i < count; i++) {
        if (i + BLOCK < count)
            PREFETCH(c->offsets + rows[i + BLOCK]);
        if (col_valid(c, rows[i])) { /* under a NULL there is nothing, whatever Arrow has there */
            int64_t from = c->offsets[rows[i]], to = c->offsets[rows[i] + 1];
            PREFETCH(c->data + from);
            total += to - from;
        }
        offsets[i + 1] = total;
    }
    data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (data == NULL)
        goto failed;
    char *out = PyBytes_AS_STRING(data);
    PyThreadState *state = others_may_run(count);
    for (npy_intp i = 0; i < count; i++) {
        if (i + BLOCK < count)
            PREFETCH(c->data + c->offsets[rows[i + BLOCK]]);
        if (offsets[i + 1] > offsets[i])
            memcpy(out + offsets[i], c->data + c->offsets[rows[i]], (size_t)(offsets[i + 1] - offsets[i]));
    }
    only_this_runs(state);
    if (c->bitmap == NULL)
        return Py_BuildValue("(NNOn)", places, data, Py_None, (Py_ssize_t)0);
    bitmap = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((count + 7) / 8));
    if (bitmap == NULL)
        goto failed;
    uint8_t *bits = (uint8_t *)PyBytes_AS_STRING(bitmap);
    memset(bits, 0, (size_t)((count + 7) / 8));
    npy_intp present = 0;
    for (npy_intp i = 0; i < count; i++) {
        int there = bit(c->bitmap, c->bitmap_start + rows[i]);
        bits[i >> 3] |= (uint8_t)(there << (i & 7));
        present += there;
    }
    return Py_BuildValue("(NNNn)", places, data, bitmap, (Py_ssize_t)(count - present));
failed:
    Py_DECREF(places);
    Py_XDECREF(data);
    return NULL;
}

PyDoc_STRVAR(take_doc, "take(columns, rows): for each column (values, mask) or (offsets, bytes, bitmap, nulls).");
static PyObject *take(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "take(columns, rows)");
        return NULL;
    }
    npy_intp count;
    const int64_t *rows = int64s(args[1], &count);
    if (rows == NULL)
        return NULL;
    Py_ssize_t n;
    Col *cols = cols_open(args[0], &n);
    if (cols == NULL)
        return NULL;
    PyObject *found = PyList_New(n);
    npy_intp checked = -1;
    for (Py_ssize_t i = 0; found != NULL && i < n; i++) {
        if (cols[i].count != checked) {
            if (!rows_within(rows, count, cols[i].count)) {
                Py_CLEAR(found);
                break;
            }
            checked = cols[i].count;
        }
        PyObject *one = cols[i].text ? take_text_column(&cols[i], rows, count)
                                     : take_number_column(&cols[i], rows, count);
        if (one == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyList_SET_ITEM(found, i, one);
    }
    cols_close(cols, n);
    return found;
}

/* -- equal ----------------------------------------------------------------------------------------- */

/* Whether all columns are the same, row by row; `left` or `right` NULL: the rows as they stand. */
static void equal_block(const Col *a, const int64_t *left, const Col *b, const int64_t *right, Py_ssize_t n,
                        npy_intp start, npy_intp stop, uint8_t *out)
{
    for (npy_intp i = start; i < stop; i++) {
        npy_intp l = left ? left[i] : i, r = right ? right[i] : i;
        for (Py_ssize_t k = 0; k < n; k++) {
            col_prefetch(&a[k], l);
            col_prefetch(&b[k], r);
        }
    }
    for (Py_ssize_t k = 0; k < n; k++)
        if (a[k].text)
            for (npy_intp i = start; i < stop; i++) {
                col_prefetch_text(&a[k], left ? left[i] : i);
                col_prefetch_text(&b[k], right ? right[i] : i);
            }
    for (npy_intp i = start; i < stop; i++) {
        npy_intp l = left ? left[i] : i, r = right ? right[i] : i;
        uint8_t alike = 1;
        for (Py_ssize_t k = 0; alike && k < n; k++)
            alike = (uint8_t)same(&a[k], l, &b[k], r);
        out[i] = alike;
    }
}

static int check_rows(PyObject *rows, const Col *cols, Py_ssize_t n, npy_intp *count, const int64_t **found)
{
    if (rows == Py_None) {
        *found = NULL;
        *count = n ? cols[0].count : 0;
    } else if ((*found = int64s(rows, count)) == NULL)
        return 0;
    for (Py_ssize_t k = 0; k < n; k++)
        if (*found ? !rows_within(*found, *count, cols[k].count) : cols[k].count != *count) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "columns of different lengths");
            return 0;
        }
    return 1;
}

PyDoc_STRVAR(equal_doc, "equal(left columns, rows or None, right columns, rows or None): a mask.");
static PyObject *equal(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "equal(left, rows, right, rows)");
        return NULL;
    }
    Py_ssize_t n = 0, m = 0;
    PyObject *found = NULL;
    Col *b = NULL, *a = cols_open(args[0], &n);
    if (a == NULL || (b = cols_open(args[2], &m)) == NULL)
        goto done;
    npy_intp count, other;
    const int64_t *left, *right;
    if (!check_rows(args[1], a, n, &count, &left) || !check_rows(args[3], b, m, &other, &right))
        goto done;
    if (n != m || count != other) {
        PyErr_SetString(PyExc_ValueError, "two sides of different sizes");
        goto done;
    }
    for (Py_ssize_t k = 0; k < n; k++)
        if (!comparable(&a[k], &b[k])) {
            PyErr_SetString(PyExc_TypeError, "columns of different types");
            goto done;
        }
    found = new_array(NPY_BOOL, count);
    if (found == NULL)
        goto done;
    uint8_t *out = (uint8_t *)PyArray_BYTES((PyArrayObject *)found);
    PyThreadState *state = others_may_run(count);
    for (npy_intp start = 0; start < count; start += BLOCK)
        equal_block(a, left, b, right, n, start, start + BLOCK < count ? start + BLOCK : count, out);
    only_this_runs(state);
done:
    if (a)
        cols_close(a, n);
    if (b)
        cols_close(b, m);
    return found;
}

/* -- search ---------------------------------------------------------------------------------------- */

static inline npy_intp clamp(double place, npy_intp count)
{
    if (!(place > 0))
        return 0;
    return place >= (double)(count - 1) ? count - 1 : (npy_intp)place;
}

/* The first place whose hash is not below the needle, from a guess on: doubling steps, then halving. */
static inline npy_intp settle(const uint64_t *hashes, npy_intp count, uint64_t needle, npy_intp guess)
{
    npy_intp low, high, step = 1;
    if (hashes[guess] < needle) {
        low = guess + 1;
        high = low;
        while (high < count && hashes[high] < needle) {
            low = high + 1;
            high += step;
            step *= 2;
        }
        if (high > count)
            high = count;
    } else {
        high = guess;
        low = guess;
        while (low > 0 && hashes[low - 1] >= needle) {
            high = low - 1;
            low = low - step > 0 ? low - step : 0;
            step *= 2;
            if (low == 0)
                break;
        }
        if (low > high)
            low = high;
    }
    while (low < high) {
        npy_intp middle = low + (high - low) / 2;
        if (hashes[middle] < needle)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Hashes are spread evenly, so the place of one follows from its value: three guesses for a block of needles side
   by side, so that the waits for memory overlap, then a search from there, right however they are spread. */
static void search(const uint64_t *hashes, npy_intp count, const uint64_t *needles, npy_intp wanted, int64_t *out)
{
    if (count == 0) {
        memset(out, 0, (size_t)wanted * sizeof *out);
        return;
    }
    double first = (double)hashes[0], span = (double)hashes[count - 1] - first;
    double rows_per_hash = span > 0 ? (double)(count - 1) / span : 0;
    int guesses = count > 256 ? 3 : 1;
    for (npy_intp start = 0; start < wanted; start += BLOCK) {
        npy_intp n = wanted - start < BLOCK ? wanted - start : BLOCK, place[BLOCK];
        for (npy_intp i = 0; i < n; i++) {
            place[i] = clamp(((double)needles[start + i] - first) * rows_per_hash, count);
            PREFETCH(hashes + place[i]);
        }
        for (int g = 1; g < guesses; g++)
            for (npy_intp i = 0; i < n; i++) {
                double off = (double)needles[start + i] - (double)hashes[place[i]];
                place[i] = clamp((double)place[i] + off * rows_per_hash, count);
                PREFETCH(hashes + place[i]);
            }
        for (npy_intp i = 0; i < n; i++)
            out[start + i] = settle(hashes, count, needles[start + i], place[i]);
    }
}

PyDoc_STRVAR(lower_bounds_doc, "lower_bounds(sorted hashes, needles): numpy's searchsorted.");
static PyObject *lower_bounds(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "lower_bounds(hashes, needles)");
        return NULL;
    }
    npy_intp count, wanted;
    const uint64_t *hashes = uint64s(args[0], &count), *needles = hashes ? uint64s(args[1], &wanted) : NULL;
    if (needles == NULL)
        return NULL;
    PyObject *found = new_array(NPY_INT64, wanted);
    if (found == NULL)
        return NULL;
    int64_t *out = (int64_t *)PyArray_DATA((PyArrayObject *)found);
    PyThreadState *state = others_may_run(wanted);
    search(hashes, count, needles, wanted, out);
    only_this_runs(state);
    return found;
}

/* -- several batches at once ----------------------------------------------------------------------- */

#define SOURCES_MAX 64

typedef struct {
    const uint64_t *hashes;
    npy_intp count;
    Col *cols;
    Py_ssize_t n;
} Source;

static void sources_close(Source *sources, Py_ssize_t n)
{
    for (Py_ssize_t s = 0; s < n; s++)
        if (sources[s].cols)
            cols_close(sources[s].cols, sources[s].n);
}

typedef struct {
    int64_t *mine, *which, *theirs;
    npy_intp used, room;
} Pairs;

static int pairs_add(Pairs *p, int64_t mine, int64_t which, int64_t theirs)
{
    if (p->used == p->room) {
        npy_intp room = p->room ? 2 * p->room : 1024;
        int64_t **parts[3] = {&p->mine, &p->which, &p->theirs};
        for (int i = 0; i < 3; i++) {
            int64_t *more = PyMem_RawRealloc(*parts[i], (size_t)room * sizeof **parts[i]);
            if (more == NULL)
                return -1;
            *parts[i] = more;
        }
        p->room = room;
    }
    p->mine[p->used] = mine;
    p->which[p->used] = which;
    p->theirs[p->used++] = theirs;
    return 0;
}

static int probe_source(const Source *s, Py_ssize_t number, const uint64_t *needles, npy_intp wanted, const Col *keys,
                        int64_t *low, uint8_t *settled, Pairs *pairs)
{
    search(s->hashes, s->count, needles, wanted, low);
    for (npy_intp i = 0; i < wanted; i++) {
        npy_intp before = pairs->used;
        if (settled != NULL && settled[i])
            continue;
        if (i + BLOCK < wanted && low[i + BLOCK] < s->count)
            for (Py_ssize_t k = 0; k < s->n; k++)
                col_prefetch(&s->cols[k], low[i + BLOCK]);
        for (npy_intp j = low[i]; j < s->count && s->hashes[j] == needles[i]; j++) {
            int alike = 1;
            for (Py_ssize_t k = 0; alike && k < s->n; k++)
                alike = same(&keys[k], i, &s->cols[k], j);
            if (alike && pairs_add(pairs, i, number, j) < 0)
                return -1;
        }
        if (settled != NULL)
            settled[i] = pairs->used > before;
    }
    return 0;
}

static PyObject *int64_array(const int64_t *from, npy_intp count)
{
    PyObject *made = new_array(NPY_INT64, count);
    if (made != NULL && count)
        memcpy(PyArray_DATA((PyArrayObject *)made), from, (size_t)count * sizeof *from);
    return made;
}

PyDoc_STRVAR(probe_doc,
             "probe(needles, their key columns, [(sorted hashes, key columns), ...], first): rows with equal keys, as three\n"
             "arrays: the needle, the source, its row; source by source, in the order of the needles. None: there are none.\n"
             "With `first`, only those of the first source that has the key.");
static PyObject *probe(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || !PyList_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "probe(needles, keys, sources, first)");
        return NULL;
    }
    npy_intp wanted;
    const uint64_t *needles = uint64s(args[0], &wanted);
    if (needles == NULL)
        return NULL;
    Py_ssize_t n = 0, count = PyList_GET_SIZE(args[2]);
    if (count > SOURCES_MAX) {
        PyErr_SetString(PyExc_TypeError, "too many sources");
        return NULL;
    }
    Source sources[SOURCES_MAX];
    memset(sources, 0, sizeof sources);
    PyObject *result = NULL;
    Pairs pairs = {0};
    int64_t *low = NULL;
    uint8_t *settled = NULL;
    Col *keys = cols_open(args[1], &n);
    if (keys == NULL)
        return NULL;
    for (Py_ssize_t k = 0; k < n; k++)
        if (keys[k].count != wanted) {
            PyErr_SetString(PyExc_ValueError, "keys of another length than their hashes");
            goto done;
        }
    for (Py_ssize_t s = 0; s < count; s++) {
        Source *source = &sources[s];
        PyObject *given = PyList_GET_ITEM(args[2], s);
        if (!PyTuple_CheckExact(given) || PyTuple_GET_SIZE(given) != 2) {
            PyErr_SetString(PyExc_TypeError, "a source is (hashes, columns)");
            goto done;
        }
        if ((source->hashes = uint64s(PyTuple_GET_ITEM(given, 0), &source->count)) == NULL ||
            (source->cols = cols_open(PyTuple_GET_ITEM(given, 1), &source->n)) == NULL)
            goto done;
        for (Py_ssize_t k = 0; k < n || k < source->n; k++)
            if (n != source->n || !comparable(&keys[k], &source->cols[k]) || source->cols[k].count != source->count) {
                PyErr_SetString(PyExc_TypeError, "keys that cannot be compared");
                goto done;
            }
    }
    low = PyMem_RawMalloc((size_t)(wanted ? wanted : 1) * sizeof *low);
    if (args[3] == Py_True)
        settled = PyMem_RawCalloc((size_t)(wanted ? wanted : 1), 1);
    int failed = low == NULL || (args[3] == Py_True && settled == NULL);
    PyThreadState *state = others_may_run(wanted);
    for (Py_ssize_t s = 0; !failed && s < count; s++)
        failed = probe_source(&sources[s], s, needles, wanted, keys, low, settled, &pairs) < 0;
    only_this_runs(state);
    if (failed) {
        PyErr_NoMemory();
        goto done;
    }
    if (pairs.used == 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    PyObject *mine = int64_array(pairs.mine, pairs.used), *which = int64_array(pairs.which, pairs.used);
    PyObject *theirs = int64_array(pairs.theirs, pairs.used);
    if (mine && which && theirs)
        result = PyTuple_Pack(3, mine, which, theirs);
    Py_XDECREF(mine);
    Py_XDECREF(which);
    Py_XDECREF(theirs);
done:
    PyMem_RawFree(low);
    PyMem_RawFree(settled);
    PyMem_RawFree(pairs.mine);
    PyMem_RawFree(pairs.which);
    PyMem_RawFree(pairs.theirs);
    sources_close(sources, count);
    cols_close(keys, n);
    return result;
}

/* One column of several sources: row `rows[i]` of source `which[i]`. */
static PyObject *gather_numbers(const Col *const *from, Py_ssize_t sources, const int64_t *which, const int64_t *rows,
                                npy_intp count)
{
    PyArray_Descr *kind = PyArray_DESCR((PyArrayObject *)from[0]->hold);
    int width = from[0]->width, masked = 0;
    for (Py_ssize_t s = 0; s < sources; s++)
        masked |= from[s]->valid != NULL;
    Py_INCREF(kind);
    PyObject *values = PyArray_NewFromDescr(&PyArray_Type, kind, 1, &count, NULL, NULL, 0, NULL), *valid = NULL;
    if (values == NULL)
        return NULL;
    char *out = PyArray_BYTES((PyArrayObject *)values);
    PyThreadState *state = others_may_run(count);
    for (npy_intp i = 0; i < count; i++) {
        if (i + BLOCK < count)
            col_prefetch(from[which[i + BLOCK]], rows[i + BLOCK]);
        const char *at = from[which[i]]->data + rows[i] * from[which[i]]->stride;
        switch (width) {
        case 8: memcpy(out + 8 * i, at, 8); break;
        case 4: memcpy(out + 4 * i, at, 4); break;
        case 2: memcpy(out + 2 * i, at, 2); break;
        default: out[i] = *at;
        }
    }
    only_this_runs(state);
    if (!masked)
        return Py_BuildValue("(NO)", values, Py_None);
    valid = new_array(NPY_BOOL, count);
    if (valid == NULL) {
        Py_DECREF(values);
        return NULL;
    }
    for (npy_intp i = 0; i < count; i++)
        PyArray_BYTES((PyArrayObject *)valid)[i] = (char)col_valid(from[which[i]], rows[i]);
    return Py_BuildValue("(NN)", values, valid);
}

static PyObject *gather_text(const Col *const *from, Py_ssize_t sources, const int64_t *which, const int64_t *rows,
                             npy_intp count)
{
    int masked = 0;
    for (Py_ssize_t s = 0; s < sources; s++)
        masked |= from[s]->bitmap != NULL;
    PyObject *places = new_array(NPY_INT64, count + 1), *data = NULL, *bitmap = NULL;
    if (places == NULL)
        return NULL;
    int64_t *offsets = (int64_t *)PyArray_DATA((PyArrayObject *)places), total = 0;
    offsets[0] = 0;
    for (npy_intp i = 0; i < count; i++) {
        if (i + BLOCK < count)
            PREFETCH(from[which[i + BLOCK]]->offsets + rows[i + BLOCK]);
        const Col *c = from[which[i]];
        if (col_valid(c, rows[i])) /* under a NULL there is nothing, whatever Arrow has there */
            total += c->offsets[rows[i] + 1] - c->offsets[rows[i]];
        offsets[i + 1] = total;
    }
    data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (data == NULL) {
        Py_DECREF(places);
        return NULL;
    }
    char *out = PyBytes_AS_STRING(data);
    PyThreadState *state = others_may_run(count);
    for (npy_intp i = 0; i < count; i++) {
        if (i + BLOCK < count)
            col_prefetch_text(from[which[i + BLOCK]], rows[i + BLOCK]);
        const Col *c = from[which[i]];
        if (offsets[i + 1] > offsets[i])
            memcpy(out + offsets[i], c->data + c->offsets[rows[i]], (size_t)(offsets[i + 1] - offsets[i]));
    }
    only_this_runs(state);
    if (!masked)
        return Py_BuildValue("(NNOn)", places, data, Py_None, (Py_ssize_t)0);
    Py_ssize_t bytes = (Py_ssize_t)((count + 7) / 8), nulls = 0;
    bitmap = PyBytes_FromStringAndSize(NULL, bytes);
    if (bitmap == NULL) {
        Py_DECREF(places);
        Py_DECREF(data);
        return NULL;
    }
    uint8_t *bits = (uint8_t *)PyBytes_AS_STRING(bitmap);
    memset(bits, 0, (size_t)bytes);
    for (npy_intp i = 0; i < count; i++) {
        int there = col_valid(from[which[i]], rows[i]);
        bits[i >> 3] |= (uint8_t)(there << (i & 7));
        nulls += !there;
    }
    return Py_BuildValue("(NNNn)", places, data, bitmap, nulls);
}

PyDoc_STRVAR(gather_doc,
             "gather([columns of a source, ...], which, rows): row rows[i] of source which[i], for each column\n"
             "(values, mask) or (offsets, bytes, bitmap, nulls).");
static PyObject *gather(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "gather(sources, which, rows)");
        return NULL;
    }
    npy_intp count, other;
    const int64_t *which = int64s(args[1], &count), *rows = which ? int64s(args[2], &other) : NULL;
    if (rows == NULL)
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(args[0]);
    if (n == 0 || n > SOURCES_MAX || count != other) {
        PyErr_SetString(PyExc_TypeError, "too many sources, or numbers of different lengths");
        return NULL;
    }
    Source sources[SOURCES_MAX];
    memset(sources, 0, sizeof sources);
    PyObject *found = NULL;
    for (Py_ssize_t s = 0; s < n; s++) {
        if ((sources[s].cols = cols_open(PyList_GET_ITEM(args[0], s), &sources[s].n)) == NULL)
            goto done;
        for (Py_ssize_t k = 0; k < sources[s].n || k < sources[0].n; k++)
            if (sources[s].n != sources[0].n || !comparable(&sources[0].cols[k], &sources[s].cols[k]) ||
                sources[s].cols[k].count != sources[s].cols[0].count) {
                PyErr_SetString(PyExc_TypeError, "sources with different columns");
                goto done;
            }
    }
    for (npy_intp i = 0; i < count; i++)
        if ((uint64_t)which[i] >= (uint64_t)n || (sources[which[i]].n && (uint64_t)rows[i] >= (uint64_t)sources[which[i]].cols[0].count)) {
            PyErr_SetString(PyExc_IndexError, "a row number lies outside of its column");
            goto done;
        }
    found = PyList_New(sources[0].n);
    for (Py_ssize_t k = 0; found != NULL && k < sources[0].n; k++) {
        const Col *from[SOURCES_MAX] = {NULL};
        for (Py_ssize_t s = 0; s < n; s++)
            from[s] = &sources[s].cols[k];
        PyObject *one = from[0]->text ? gather_text(from, n, which, rows, count)
                                      : gather_numbers(from, n, which, rows, count);
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, k, one);
    }
done:
    sources_close(sources, n);
    return found;
}

PyDoc_STRVAR(merge_order_doc, "merge_order([sorted hashes, ...]): (which, rows), in the order of all; equal ones in the order given.");
static PyObject *merge_order(PyObject *self, PyObject *argument)
{
    if (!PyList_CheckExact(argument) || PyList_GET_SIZE(argument) > SOURCES_MAX) {
        PyErr_SetString(PyExc_TypeError, "merge_order([hashes, ...])");
        return NULL;
    }
    Py_ssize_t n = PyList_GET_SIZE(argument);
    const uint64_t *hashes[SOURCES_MAX];
    npy_intp count[SOURCES_MAX], at[SOURCES_MAX], total = 0;
    for (Py_ssize_t s = 0; s < n; s++) {
        if ((hashes[s] = uint64s(PyList_GET_ITEM(argument, s), &count[s])) == NULL)
            return NULL;
        at[s] = 0;
        total += count[s];
    }
    PyObject *which = new_array(NPY_INT64, total), *rows = which ? new_array(NPY_INT64, total) : NULL;
    if (rows == NULL) {
        Py_XDECREF(which);
        return NULL;
    }
    int64_t *w = (int64_t *)PyArray_DATA((PyArrayObject *)which), *r = (int64_t *)PyArray_DATA((PyArrayObject *)rows);
    for (npy_intp i = 0; i < total; i++) {
        Py_ssize_t least = -1;
        for (Py_ssize_t s = 0; s < n; s++)
            if (at[s] < count[s] && (least < 0 || hashes[s][at[s]] < hashes[least][at[least]]))
                least = s;
        w[i] = least;
        r[i] = at[least]++;
        if (r[i] && hashes[least][r[i]] < hashes[least][r[i] - 1]) { /* rows of a load, as they came */
            Py_DECREF(which);
            Py_DECREF(rows);
            PyErr_SetString(PyExc_TypeError, "hashes that are not sorted");
            return NULL;
        }
    }
    return Py_BuildValue("(NN)", which, rows);
}

/* -- hash ------------------------------------------------------------------------------------------ */

/* penstock.kernels.hashing has the meaning, and the constants: HASH_VERSION 1. */
#define M1 0x9E3779B97F4A7C15ULL
#define M2 0xBF58476D1CE4E5B9ULL
#define M3 0x94D049BB133111EBULL
#define NULL_HASH 0x5851F42D4C957F2DULL
#define NAN_BITS 0x7FF8000000000000ULL

static inline uint64_t mix(uint64_t x)
{
    x *= M1;
    x ^= x >> 29;
    x *= M2;
    return x ^ (x >> 32);
}

static inline uint64_t hash_text(const char *data, int64_t length)
{
    uint64_t h = (uint64_t)length * M3;
    for (int64_t at = 0; at < length; at += 8) {
        uint64_t word = 0;
        memcpy(&word, data + at, (size_t)(length - at < 8 ? length - at : 8));
        h = (h ^ word) * M1;
        h ^= h >> 29;
    }
    return mix(h);
}

static inline uint64_t hash_one(const Col *c, npy_intp i)
{
    if (!col_valid(c, i))
        return NULL_HASH;
    if (c->text)
        return hash_text(c->data + c->offsets[i], c->offsets[i + 1] - c->offsets[i]);
    const char *p = c->data + i * c->stride;
    if (c->kind == 'f') {
        double v = load_float(p, c->width) + 0.0;
        uint64_t bits;
        memcpy(&bits, &v, 8);
        return mix(v == v ? bits : NAN_BITS);
    }
    uint64_t v = load(p, c->width);
    if (c->kind == 'i') {
        if (c->width == 4)
            v = (uint64_t)(int64_t)(int32_t)v;
        else if (c->width == 2)
            v = (uint64_t)(int64_t)(int16_t)v;
        else if (c->width == 1)
            v = (uint64_t)(int64_t)(int8_t)v;
    }
    return mix(v);
}

PyDoc_STRVAR(hash_doc, "hash(columns, rows, longest text, mask): a hash for each row; None if a text is longer.");
static PyObject *hash(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "hash(columns, count, longest, mask)");
        return NULL;
    }
    npy_intp count = PyLong_AsSsize_t(args[1]);
    int64_t longest = PyLong_AsLongLong(args[2]);
    uint64_t mask = PyLong_AsUnsignedLongLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t n;
    Col *cols = cols_open(args[0], &n);
    if (cols == NULL)
        return NULL;
    PyObject *found = NULL;
    int too_long = 0;
    for (Py_ssize_t k = 0; k < n; k++)
        if (cols[k].count != count) {
            PyErr_SetString(PyExc_ValueError, "columns of different lengths");
            goto done;
        }
    found = new_array(NPY_UINT64, count);
    if (found == NULL)
        goto done;
    uint64_t *out = (uint64_t *)PyArray_DATA((PyArrayObject *)found);
    PyThreadState *state = others_may_run(count);
    if (n == 0) /* all rows hash alike */
        memset(out, 0, (size_t)count * sizeof *out);
    for (Py_ssize_t k = 0; k < n && !too_long; k++) {
        const Col *c = &cols[k];
        if (c->text)
            for (npy_intp i = 0; i < count; i++)
                too_long |= c->offsets[i + 1] - c->offsets[i] > longest;
        if (too_long)
            break;
        if (k == 0)
            for (npy_intp i = 0; i < count; i++)
                out[i] = hash_one(c, i);
        else
            for (npy_intp i = 0; i < count; i++)
                out[i] = mix((out[i] * 3) ^ hash_one(c, i));
    }
    for (npy_intp i = 0; i < count && !too_long; i++)
        out[i] &= mask;
    only_this_runs(state);
    if (too_long) { /* those have another hash, which hashlib knows */
        Py_DECREF(found);
        found = Py_NewRef(Py_None);
    }
done:
    cols_close(cols, n);
    return found;
}

/* -- sort ------------------------------------------------------------------------------------------ */

typedef struct {
    uint64_t hash;
    int64_t row;
} Item;

static void merge_sort(Item *items, Item *spare, npy_intp count)
{
    for (npy_intp width = 1; width < count; width *= 2) {
        for (npy_intp start = 0; start < count; start += 2 * width) {
            npy_intp middle = start + width < count ? start + width : count;
            npy_intp stop = start + 2 * width < count ? start + 2 * width : count;
            npy_intp i = start, j = middle, k = start;
            while (i < middle && j < stop)
                spare[k++] = items[j].hash < items[i].hash ? items[j++] : items[i++];
            while (i < middle)
                spare[k++] = items[i++];
            while (j < stop)
                spare[k++] = items[j++];
        }
        memcpy(items, spare, (size_t)count * sizeof *items);
    }
}

/* The items in the order of their hashes. By their top bits they go into as many buckets as there are of them: evenly
   spread, each has about one. With weights, rows that go come before rows that come where hashes are equal. */
static int sort_items(const uint64_t *hashes, const int64_t *weights, npy_intp count, Item *items)
{
    int bits = 1;
    while (bits < 16 && ((npy_intp)1 << bits) < count)
        bits++;
    npy_intp buckets = (npy_intp)1 << bits;
    npy_intp *starts = PyMem_RawCalloc((size_t)buckets + 1, sizeof *starts);
    if (starts == NULL)
        return -1;
    for (npy_intp i = 0; i < count; i++)
        starts[(hashes[i] >> (64 - bits)) + 1]++;
    for (npy_intp b = 0; b < buckets; b++)
        starts[b + 1] += starts[b];
    for (int turn = weights == NULL; turn < 2; turn++)
        for (npy_intp i = 0; i < count; i++) {
            if (weights != NULL && (weights[i] > 0) != turn)
                continue;
            Item *to = &items[starts[hashes[i] >> (64 - bits)]++];
            to->hash = hashes[i];
            to->row = i;
        }
    npy_intp from = 0;
    for (npy_intp b = 0; b < buckets; b++) { /* each start has moved on to the end of its bucket */
        npy_intp size = starts[b] - from;
        if (size > 24)
            merge_sort(items + from, items + count, size);
        else
            for (npy_intp i = from + 1; i < starts[b]; i++) {
                Item moving = items[i];
                npy_intp j = i;
                while (j > from && items[j - 1].hash > moving.hash) {
                    items[j] = items[j - 1];
                    j--;
                }
                items[j] = moving;
            }
        from = starts[b];
    }
    PyMem_RawFree(starts);
    return 0;
}

static Item *sorted_items(const uint64_t *hashes, const int64_t *weights, npy_intp count)
{
    Item *items = PyMem_RawMalloc((size_t)(count ? count : 1) * 2 * sizeof *items);
    if (items == NULL || sort_items(hashes, weights, count, items) < 0) {
        PyMem_RawFree(items);
        PyErr_NoMemory();
        return NULL;
    }
    return items;
}

PyDoc_STRVAR(sort_doc, "sort(hashes): the stable order that sorts them, and the hashes in that order.");
static PyObject *sort(PyObject *self, PyObject *argument)
{
    npy_intp count;
    const uint64_t *hashes = uint64s(argument, &count);
    Item *items = hashes ? sorted_items(hashes, NULL, count) : NULL;
    if (items == NULL)
        return NULL;
    PyObject *order = new_array(NPY_INT64, count), *sorted = order ? new_array(NPY_UINT64, count) : NULL;
    if (sorted == NULL) {
        Py_XDECREF(order);
        PyMem_RawFree(items);
        return NULL;
    }
    int64_t *rows = (int64_t *)PyArray_DATA((PyArrayObject *)order);
    uint64_t *out = (uint64_t *)PyArray_DATA((PyArrayObject *)sorted);
    for (npy_intp i = 0; i < count; i++) {
        rows[i] = items[i].row;
        out[i] = items[i].hash;
    }
    PyMem_RawFree(items);
    return Py_BuildValue("(NN)", order, sorted);
}

PyDoc_STRVAR(by_key_doc,
             "by_key(hashes, weights): the order that sorts by hash, rows that go first; where each hash begins in it;\n"
             "and whether each hash has one row that goes, or one that comes, or one of each.");
static PyObject *by_key(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "by_key(hashes, weights)");
        return NULL;
    }
    npy_intp count, other;
    const uint64_t *hashes = uint64s(args[0], &count);
    const int64_t *weights = hashes ? int64s(args[1], &other) : NULL;
    if (weights == NULL)
        return NULL;
    if (count != other) {
        PyErr_SetString(PyExc_ValueError, "hashes and weights of different lengths");
        return NULL;
    }
    Item *items = sorted_items(hashes, weights, count);
    if (items == NULL)
        return NULL;
    npy_intp runs = 0;
    for (npy_intp i = 0; i < count; i++)
        runs += i == 0 || items[i].hash != items[i - 1].hash;
    PyObject *order = new_array(NPY_INT64, count), *starts = order ? new_array(NPY_INT64, runs) : NULL;
    if (starts == NULL) {
        Py_XDECREF(order);
        PyMem_RawFree(items);
        return NULL;
    }
    int64_t *rows = (int64_t *)PyArray_DATA((PyArrayObject *)order);
    int64_t *begins = (int64_t *)PyArray_DATA((PyArrayObject *)starts);
    npy_intp run = 0;
    int tidy = 1;
    for (npy_intp i = 0; i < count; i++) {
        int64_t weight = weights[items[i].row];
        rows[i] = items[i].row;
        tidy &= weight == 1 || weight == -1;
        if (i == 0 || items[i].hash != items[i - 1].hash)
            begins[run++] = i;
        else /* the second of two, and the other one goes */
            tidy &= i - begins[run - 1] == 1 && weight == 1 && weights[items[i - 1].row] == -1;
    }
    PyMem_RawFree(items);
    return Py_BuildValue("(NNO)", order, starts, tidy ? Py_True : Py_False);
}

/* -- intake ---------------------------------------------------------------------------------------- */

/* Arrow's C data interface, as its specification has it. */
struct ArrowSchema;
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#define CHUNKS_MAX 256

typedef struct {
    struct ArrowArray chunk[CHUNKS_MAX];
    int chunks;
    npy_intp rows;
} Given;

static void given_release(Given *g)
{
    for (int i = 0; i < g->chunks; i++)
        if (g->chunk[i].release != NULL)
            g->chunk[i].release(&g->chunk[i]);
}

/* One chunk of one column: where it begins, counting the offset of the rows that it is a column of. */
typedef struct {
    const struct ArrowArray *array;
    int64_t start, length;
    const uint8_t *bitmap; /* or NULL: nothing is NULL */
} Piece;

static int piece_of(const Given *g, int chunk, Py_ssize_t place, int buffers, Piece *p)
{
    const struct ArrowArray *rows = &g->chunk[chunk];
    if (place < 0 || place >= rows->n_children || (rows->n_buffers && rows->buffers[0] != NULL))
        return -1;
    p->array = rows->children[place];
    if (p->array->n_buffers != buffers || p->array->n_children != 0 || p->array->dictionary != NULL)
        return -1;
    p->start = p->array->offset + rows->offset;
    p->length = rows->length;
    p->bitmap = p->array->null_count == 0 ? NULL : p->array->buffers[0];
    return p->length == 0 || p->array->buffers[1] != NULL ? 0 : -1;
}

enum { COPY = 1, DECIMAL = 2, TEXT32 = 3, TEXT64 = 4, BITS = 5 };

/* The values of a piece, 0 under a NULL; -1 if one does not fit. */
static int intake_numbers(const Piece *p, int code, int width, int64_t bound, char *out)
{
    const char *data = p->array->buffers[1];
    if (p->length == 0)
        return 0;
    if (code == COPY) {
        memcpy(out, data + p->start * width, (size_t)(p->length * width));
        if (p->bitmap != NULL)
            for (int64_t i = 0; i < p->length; i++)
                if (!bit(p->bitmap, p->start + i))
                    memset(out + i * width, 0, (size_t)width);
        return 0;
    }
    if (code == BITS) {
        for (int64_t i = 0; i < p->length; i++)
            out[i] = (char)(bit((const uint8_t *)data, p->start + i) &&
                            (p->bitmap == NULL || bit(p->bitmap, p->start + i)));
        return 0;
    }
    int64_t *to = (int64_t *)out;
    int fits = 1;
    for (int64_t i = 0; i < p->length; i++) {
        const char *halves = data + 16 * (p->start + i); /* the low one first */
        int64_t low = (int64_t)load(halves, 8), high = (int64_t)load(halves + 8, 8);
        if (p->bitmap != NULL && !bit(p->bitmap, p->start + i))
            low = high = 0;
        fits &= high == (low < 0 ? -1 : 0);
        fits &= bound == 0 || (low < bound && low > -bound);
        to[i] = low;
    }
    return fits ? 0 : -1;
}

static PyObject *intake_number_column(const Given *g, Py_ssize_t place, int code, PyArray_Descr *kind, int64_t bound)
{
    npy_intp count = g->rows, at = 0;
    Py_INCREF(kind);
    PyObject *values = PyArray_NewFromDescr(&PyArray_Type, kind, 1, &count, NULL, NULL, 0, NULL), *valid = NULL;
    if (values == NULL)
        return NULL;
    int width = (int)PyArray_ITEMSIZE((PyArrayObject *)values);
    if (!kind_of((PyArrayObject *)values) || (code != COPY && width != (code == BITS ? 1 : 8))) {
        Py_DECREF(values);
        PyErr_SetString(PyExc_TypeError, "not numbers that a column can be taken as");
        return NULL;
    }
    npy_intp nulls = 0;
    for (int c = 0; c < g->chunks; c++) {
        Piece p;
        if (piece_of(g, c, place, 2, &p) < 0 ||
            intake_numbers(&p, code, width, bound, PyArray_BYTES((PyArrayObject *)values) + at * width) < 0) {
            Py_DECREF(values);
            Py_XDECREF(valid);
            return Py_NewRef(Py_None);
        }
        if (p.bitmap != NULL && valid == NULL) {
            valid = new_array(NPY_BOOL, count);
            if (valid == NULL) {
                Py_DECREF(values);
                return NULL;
            }
            memset(PyArray_BYTES((PyArrayObject *)valid), 1, (size_t)count);
        }
        if (p.bitmap != NULL)
            for (int64_t i = 0; i < p.length; i++) {
                int there = bit(p.bitmap, p.start + i);
                PyArray_BYTES((PyArrayObject *)valid)[at + i] = (char)there;
                nulls += !there;
            }
        at += (npy_intp)p.length;
    }
    if (nulls == 0)
        Py_CLEAR(valid);
    return Py_BuildValue("(NN)", values, valid ? valid : Py_NewRef(Py_None));
}

static inline int64_t text_offset(const Piece *p, int code, int64_t i)
{
    const char *offsets = p->array->buffers[1]; /* which may lie across words */
    return code == TEXT32 ? (int64_t)(int32_t)load(offsets + 4 * (p->start + i), 4)
                          : (int64_t)load(offsets + 8 * (p->start + i), 8);
}

static PyObject *intake_text_column(const Given *g, Py_ssize_t place, int code)
{
    npy_intp count = g->rows, at = 0, nulls = 0;
    int64_t total = 0;
    int some_null = 0;
    Piece p;
    for (int c = 0; c < g->chunks; c++) {
        if (piece_of(g, c, place, 3, &p) < 0)
            return Py_NewRef(Py_None);
        if (p.length)
            total += text_offset(&p, code, p.length) - text_offset(&p, code, 0);
        some_null |= p.bitmap != NULL;
    }
    size_t bytes = (size_t)((count + 7) / 8);
    PyObject *offsets = new_array(NPY_INT64, count + 1);
    PyObject *data = offsets ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total) : NULL;
    PyObject *bitmap = data && some_null ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes) : NULL;
    if (data == NULL || (some_null && bitmap == NULL)) {
        Py_XDECREF(offsets);
        Py_XDECREF(data);
        return NULL;
    }
    int64_t *places = (int64_t *)PyArray_DATA((PyArrayObject *)offsets), used = 0;
    uint8_t *bits = bitmap ? (uint8_t *)PyBytes_AS_STRING(bitmap) : NULL;
    if (bits != NULL)
        memset(bits, 0, bytes);
    places[0] = 0;
    for (int c = 0; c < g->chunks; c++) {
        piece_of(g, c, place, 3, &p);
        if (p.length == 0)
            continue;
        int64_t first = text_offset(&p, code, 0), last = text_offset(&p, code, p.length);
        if (last > first)
            memcpy(PyBytes_AS_STRING(data) + used, (const char *)p.array->buffers[2] + first, (size_t)(last - first));
        for (int64_t i = 0; i < p.length; i++)
            places[at + i + 1] = used + text_offset(&p, code, i + 1) - first;
        if (bits != NULL)
            for (int64_t i = 0; i < p.length; i++) {
                int there = p.bitmap == NULL || bit(p.bitmap, p.start + i);
                bits[(at + i) >> 3] |= (uint8_t)(there << ((at + i) & 7));
                nulls += !there;
            }
        used += last - first;
        at += (npy_intp)p.length;
    }
    return Py_BuildValue("(NNNn)", offsets, data, bitmap ? bitmap : Py_NewRef(Py_None), (Py_ssize_t)nulls);
}

PyDoc_STRVAR(intake_doc,
             "intake(stream, plan): the columns of an Arrow stream as (values, mask) or (offsets, bytes, bitmap, nulls),\n"
             "in memory of their own. The plan has (place, code, dtype, bound) for each. None where a value does not fit.");
static PyObject *intake(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyTuple_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "intake(stream, plan)");
        return NULL;
    }
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(args[0], "arrow_array_stream");
    if (stream == NULL)
        return NULL;
    if (stream->release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the stream has been read");
        return NULL;
    }
    Given *g = PyMem_Calloc(1, sizeof *g);
    if (g == NULL)
        return PyErr_NoMemory();
    PyObject *found = NULL;
    for (;;) {
        if (g->chunks == CHUNKS_MAX || stream->get_next(stream, &g->chunk[g->chunks]) != 0) {
            found = Py_NewRef(Py_None); /* the plain way says what is wrong */
            goto done;
        }
        if (g->chunk[g->chunks].release == NULL)
            break;
        g->rows += (npy_intp)g->chunk[g->chunks++].length;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args[1]);
    found = PyList_New(n);
    for (Py_ssize_t i = 0; found != NULL && i < n; i++) {
        Py_ssize_t place;
        int code;
        PyObject *kind;
        long long bound;
        PyObject *one = NULL;
        if (PyArg_ParseTuple(PyTuple_GET_ITEM(args[1], i), "niOL", &place, &code, &kind, &bound)) {
            if (code == TEXT32 || code == TEXT64)
                one = intake_text_column(g, place, code);
            else if ((code == COPY || code == DECIMAL || code == BITS) && PyArray_DescrCheck(kind))
                one = intake_number_column(g, place, code, (PyArray_Descr *)kind, bound);
            else
                PyErr_SetString(PyExc_TypeError, "no such way to take a column");
        }
        if (one == NULL) {
            Py_CLEAR(found);
        } else if (one == Py_None) {
            Py_SETREF(found, one);
            break;
        } else
            PyList_SET_ITEM(found, i, one);
    }
done:
    given_release(g);
    PyMem_Free(g);
    return found;
}

static PyMethodDef methods[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL, take_doc},
    {"equal", (PyCFunction)(void (*)(void))equal, METH_FASTCALL, equal_doc},
    {"lower_bounds", (PyCFunction)(void (*)(void))lower_bounds, METH_FASTCALL, lower_bounds_doc},
    {"probe", (PyCFunction)(void (*)(void))probe, METH_FASTCALL, probe_doc},
    {"gather", (PyCFunction)(void (*)(void))gather, METH_FASTCALL, gather_doc},
    {"merge_order", merge_order, METH_O, merge_order_doc},
    {"hash", (PyCFunction)(void (*)(void))hash, METH_FASTCALL, hash_doc},
    {"sort", sort, METH_O, sort_doc},
    {"by_key", (PyCFunction)(void (*)(void))by_key, METH_FASTCALL, by_key_doc},
    {"intake", (PyCFunction)(void (*)(void))intake, METH_FASTCALL, intake_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernels", "The inner loops of ticks of some hundred rows.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    import_array();
    s_values = PyUnicode_InternFromString("values");
    s_valid = PyUnicode_InternFromString("valid");
    s_text = PyUnicode_InternFromString("_text");
    s_text_buffers = PyUnicode_InternFromString("text_buffers");
    if (s_values == NULL || s_valid == NULL || s_text == NULL || s_text_buffers == NULL)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddIntConstant(made, "VERSION", VERSION) < 0)
        Py_CLEAR(made);
    return made;
}
