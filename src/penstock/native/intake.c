/* Columns of an Arrow stream, by Arrow's C data interface, in memory of their own. */

#include "kernels.h"

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

const char intake_doc[] =
    "intake(stream, plan): the columns of an Arrow stream as (values, mask) or (offsets, bytes, bitmap, nulls),\n"
    "in memory of their own. The plan has (place, code, dtype, bound) for each. None where a value does not fit.";
PyObject *intake(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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
