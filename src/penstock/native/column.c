/* A column as the loops see it: opened from a Column or an array, held until it is closed. */

#include "kernels.h"

PyObject *s_hashes, *s_columns, *s_measures, *s_values, *s_valid;
static PyObject *s_text, *s_text_buffers, *s_parts;

/* The names of attributes, made once; -1 with an error set. */
int names_made(void)
{
    s_values = PyUnicode_InternFromString("values");
    s_valid = PyUnicode_InternFromString("valid");
    s_text = PyUnicode_InternFromString("_text");
    s_text_buffers = PyUnicode_InternFromString("text_buffers");
    s_parts = PyUnicode_InternFromString("parts");
    s_hashes = PyUnicode_InternFromString("hashes");
    s_columns = PyUnicode_InternFromString("columns");
    s_measures = PyUnicode_InternFromString("measures");
    return PyErr_Occurred() ? -1 : 0;
}

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

/* Text that was made here: (offsets, bytes, bitmap or None, how many are NULL). Takes the reference. */
static int col_open_parts(PyObject *parts, Col *c)
{
    c->hold = parts;
    PyObject *offsets, *data, *bitmap;
    Py_ssize_t nulls;
    if (!PyArg_ParseTuple(parts, "O!O!On", &PyArray_Type, &offsets, &PyBytes_Type, &data, &bitmap, &nulls))
        return -1;
    npy_intp count;
    const int64_t *places = int64s(offsets, &count);
    if (places == NULL)
        return -1;
    c->text = 1;
    c->count = count - 1;
    if (count < 1 || places[0] != 0 || places[count - 1] > PyBytes_GET_SIZE(data) ||
        (nulls && (!PyBytes_Check(bitmap) || PyBytes_GET_SIZE(bitmap) < (count + 6) / 8))) {
        PyErr_SetString(PyExc_TypeError, "not the parts of a text column");
        return -1;
    }
    c->offsets = places;
    c->data = PyBytes_AS_STRING(data);
    c->bitmap = nulls ? (const uint8_t *)PyBytes_AS_STRING(bitmap) : NULL;
    return 0;
}

/* 'b', 'i', 'u' or 'f' for numbers that this file knows, in the machine's order of bytes; 0 for others. */
int kind_of(PyArrayObject *array)
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
    if (!bare) {
        PyObject *parts = PyObject_GetAttr(column, s_parts);
        if (parts == NULL)
            return -1;
        if (parts != Py_None) {
            if (!PyTuple_CheckExact(parts))
                PyErr_SetString(PyExc_TypeError, "not the parts of a text column");
            if (!PyTuple_CheckExact(parts) || col_open_parts(parts, c) < 0) {
                c->hold = parts;
                goto failed;
            }
            return 0;
        }
        Py_DECREF(parts);
    }
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

void cols_close(Col *cols, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        col_close(&cols[i]);
    PyMem_Free(cols);
}

/* A list or tuple of columns; NULL with an error set if one of them is of another kind. */
Col *cols_open(PyObject *sequence, Py_ssize_t *n)
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

/* The memory of an array of this type without gaps, in the machine's words, or an error. Borrowed. */
static const void *plain(PyObject *object, int type, const char *otherwise, npy_intp *count)
{
    PyArrayObject *array = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_TYPE(array) != type || PyArray_NDIM(array) != 1 ||
        !PyArray_ISCARRAY_RO(array)) {
        PyErr_SetString(PyExc_TypeError, otherwise);
        return NULL;
    }
    *count = PyArray_DIM(array, 0);
    return PyArray_DATA(array);
}

const int64_t *int64s(PyObject *object, npy_intp *count)
{
    return plain(object, NPY_INT64, "row numbers must be a plain array of int64", count);
}

const uint64_t *uint64s(PyObject *object, npy_intp *count)
{
    return plain(object, NPY_UINT64, "hashes must be a plain array of uint64", count);
}
