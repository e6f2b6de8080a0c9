/* Rows of columns: taken from one source, gathered from several, compared. */

#include "kernels.h"

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

/* The row of the source that comes i-th; `which` NULL: all are of the first source. */
#define FROM(i) (from[which ? which[i] : 0])

/* One column of several sources: row `rows[i]` of source `which[i]`, as (values, mask or None). */
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
#define GATHER(W)                                                                                  \
    for (npy_intp i = 0; i < count; i++) {                                                         \
        if (i + BLOCK < count)                                                                     \
            col_prefetch(FROM(i + BLOCK), rows[i + BLOCK]);                                        \
        memcpy(out + W * i, FROM(i)->data + rows[i] * FROM(i)->stride, W);                         \
    }
    switch (width) {
    case 8: GATHER(8) break;
    case 4: GATHER(4) break;
    case 2: GATHER(2) break;
    default: GATHER(1)
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
        PyArray_BYTES((PyArrayObject *)valid)[i] = (char)col_valid(FROM(i), rows[i]);
    return Py_BuildValue("(NN)", values, valid);
}

/* The same of text, as (offsets, bytes, bitmap or None, how many are NULL). */
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
            PREFETCH(FROM(i + BLOCK)->offsets + rows[i + BLOCK]);
        const Col *c = FROM(i);
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
            col_prefetch_text(FROM(i + BLOCK), rows[i + BLOCK]);
        const Col *c = FROM(i);
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
        int there = col_valid(FROM(i), rows[i]);
        bits[i >> 3] |= (uint8_t)(there << (i & 7));
        nulls += !there;
    }
    return Py_BuildValue("(NNNn)", places, data, bitmap, nulls);
}

typedef struct {
    Col *cols;
    Py_ssize_t n;
} Source;

static PyObject *gather_column(const Col *const *from, Py_ssize_t sources, const int64_t *which, const int64_t *rows,
                               npy_intp count)
{
    return from[0]->text ? gather_text(from, sources, which, rows, count)
                         : gather_numbers(from, sources, which, rows, count);
}

const char take_doc[] =
    "take(columns, rows): for each column (values, mask) or (offsets, bytes, bitmap, nulls).";
PyObject *take(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "take(columns, rows)");
        return NULL;
    }
    npy_intp count, checked = -1;
    const int64_t *rows = int64s(args[1], &count);
    Py_ssize_t n;
    Col *cols = rows ? cols_open(args[0], &n) : NULL;
    if (cols == NULL)
        return NULL;
    PyObject *found = PyList_New(n);
    for (Py_ssize_t k = 0; found != NULL && k < n; k++) {
        const Col *from = &cols[k];
        PyObject *one = NULL;
        if (from->count == checked || rows_within(rows, count, from->count)) {
            checked = from->count;
            one = gather_column(&from, 1, NULL, rows, count);
        }
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, k, one);
    }
    cols_close(cols, n);
    return found;
}

const char gather_doc[] =
    "gather([columns of a source, ...], which, rows): row rows[i] of source which[i], for each column\n"
    "(values, mask) or (offsets, bytes, bitmap, nulls).";
PyObject *gather(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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
        PyObject *one = gather_column(from, n, which, rows, count);
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, k, one);
    }
done:
    for (Py_ssize_t s = 0; s < n; s++)
        if (sources[s].cols)
            cols_close(sources[s].cols, sources[s].n);
    return found;
}

/* Whether two columns are the same, row by row, where they were so far; `left` or `right` NULL: the rows as they
   stand. Column by column, and without a branch where possible: the loads of many rows are then under way at once.
   With all columns of a row side by side they would stand in each other's way in the cache, at places that are
   alike. */
#define LEFT(i) (left ? left[i] : (i))
#define RIGHT(i) (right ? right[i] : (i))
#define SAME_NUMBERS(T)                                                                            \
    for (npy_intp i = 0; i < count; i++) {                                                         \
        T x, y;                                                                                    \
        memcpy(&x, a->data + LEFT(i) * a->stride, sizeof x);                                       \
        memcpy(&y, b->data + RIGHT(i) * b->stride, sizeof y);                                      \
        out[i] &= (uint8_t)(x == y);                                                               \
    }

static void equal_numbers(const Col *a, const int64_t *left, const Col *b, const int64_t *right, npy_intp count,
                          uint8_t *out)
{
    switch (a->width) {
    case 8: SAME_NUMBERS(uint64_t) break;
    case 4: SAME_NUMBERS(uint32_t) break;
    case 2: SAME_NUMBERS(uint16_t) break;
    default: SAME_NUMBERS(uint8_t)
    }
    if (a->valid != NULL || b->valid != NULL) /* under a NULL there is 0 on both sides */
        for (npy_intp i = 0; i < count; i++)
            out[i] &= (uint8_t)(col_valid(a, LEFT(i)) == col_valid(b, RIGHT(i)));
}

static void equal_text(const Col *a, const int64_t *left, const Col *b, const int64_t *right, npy_intp count,
                       uint8_t *out)
{
    const char *x[TEXT_ROWS], *y[TEXT_ROWS];
    size_t length[TEXT_ROWS];
    for (npy_intp start = 0; start < count; start += TEXT_ROWS) {
        npy_intp n = count - start < TEXT_ROWS ? count - start : TEXT_ROWS;
        for (npy_intp i = 0; i < n; i++) { /* how long they are: those of different lengths need not be looked at */
            npy_intp l = LEFT(start + i), r = RIGHT(start + i);
            int64_t from = a->offsets[l], other = b->offsets[r], size = a->offsets[l + 1] - from;
            int there = col_valid(a, l), as_long = size == b->offsets[r + 1] - other;
            out[start + i] &= (uint8_t)(there == col_valid(b, r) && (as_long || !there));
            x[i] = a->data + from;
            y[i] = b->data + other;
            length[i] = there && as_long ? (size_t)size : 0;
        }
        for (npy_intp i = 0; i < n; i++) {
            if (i + BLOCK < n && out[start + i + BLOCK]) {
                PREFETCH(x[i + BLOCK]);
                PREFETCH(y[i + BLOCK]);
                if (length[i + BLOCK] > 48)
                    PREFETCH(y[i + BLOCK] + 63);
            }
            if (out[start + i] && length[i])
                out[start + i] = (uint8_t)(memcmp(x[i], y[i], length[i]) == 0);
        }
    }
}

static void equal_column(const Col *a, const int64_t *left, const Col *b, const int64_t *right, npy_intp count,
                         uint8_t *out)
{
    if (a->text)
        equal_text(a, left, b, right, count, out);
    else if (a->kind != 'f')
        equal_numbers(a, left, b, right, count, out);
    else
        for (npy_intp i = 0; i < count; i++)
            out[i] &= (uint8_t)same(a, LEFT(i), b, RIGHT(i));
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

const char equal_doc[] = "equal(left columns, rows or None, right columns, rows or None): a mask.";
PyObject *equal(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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
    memset(out, 1, (size_t)count);
    for (int text = 0; text < 2; text++) /* numbers first: of rows that differ in one no text is looked at */
        for (Py_ssize_t k = 0; k < n; k++)
            if (a[k].text == text)
                equal_column(&a[k], left, &b[k], right, count, out);
    only_this_runs(state);
done:
    if (a)
        cols_close(a, n);
    if (b)
        cols_close(b, m);
    return found;
}
