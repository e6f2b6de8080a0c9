/* The key hash. penstock.kernels.hashing has the meaning, and the constants: HASH_VERSION 1 (M1, M2 and mix are in kernels.h). */

#include "kernels.h"

#define M3 0x94D049BB133111EBULL
#define NULL_HASH 0x5851F42D4C957F2DULL
#define NAN_BITS 0x7FF8000000000000ULL

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
    return mix(load_integer(p, c->kind, c->width));
}

const char hash_doc[] =
    "hash(columns, rows, longest text, mask): a hash for each row; None if a text is longer.";
PyObject *hash(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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
