/* What the compiled inner loops share: how they see a column, and how they are called. _kernels.c says what they are for. */

#ifndef PENSTOCK_KERNELS_H
#define PENSTOCK_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL penstock_kernels_numpy
#ifndef PENSTOCK_KERNELS_MODULE
#define NO_IMPORT_ARRAY /* the module's own file does it for all */
#endif
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words of text are hashed as little-endian machines have them"
#endif

#define BLOCK 16            /* rows that are asked for ahead */
#define TEXT_ROWS 256       /* rows whose texts are compared in one go */
#define GIL_ROWS 8192       /* from here on other threads may run meanwhile */
#define SOURCES_MAX 64      /* batches that one call looks at */

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch((const void *)(p))
#else
#define PREFETCH(p) ((void)(p))
#endif

/* Between these two only memory is touched that the call holds: no object, no error. */
static inline PyThreadState *others_may_run(npy_intp rows)
{
    return rows >= GIL_ROWS ? PyEval_SaveThread() : NULL;
}

static inline void only_this_runs(PyThreadState *state)
{
    if (state != NULL)
        PyEval_RestoreThread(state);
}

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

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC visibility push(hidden) /* of all this only the module is seen from outside */
#endif

/* column.c */
extern PyObject *s_hashes, *s_columns, *s_measures, *s_values, *s_valid; /* names of attributes */
int names_made(void);
Col *cols_open(PyObject *sequence, Py_ssize_t *n);
void cols_close(Col *cols, Py_ssize_t n);
int kind_of(PyArrayObject *array);
const int64_t *int64s(PyObject *object, npy_intp *count);
const uint64_t *uint64s(PyObject *object, npy_intp *count);

static inline PyObject *new_array(int type, npy_intp count)
{
    return PyArray_SimpleNew(1, &count, type);
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

/* The same as 64 bits, negative ones too. */
static inline uint64_t load_integer(const char *p, int kind, int width)
{
    uint64_t v = load(p, width);
    if (kind != 'i')
        return v;
    switch (width) {
    case 4: return (uint64_t)(int64_t)(int32_t)v;
    case 2: return (uint64_t)(int64_t)(int16_t)v;
    case 1: return (uint64_t)(int64_t)(int8_t)v;
    default: return v;
    }
}

/* The hash of an integer. */
#define M1 0x9E3779B97F4A7C15ULL
#define M2 0xBF58476D1CE4E5B9ULL
static inline uint64_t mix(uint64_t x)
{
    x *= M1;
    x ^= x >> 29;
    x *= M2;
    return x ^ (x >> 32);
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

static inline int comparable(const Col *a, const Col *b)
{
    return a->text == b->text && a->width == b->width && a->kind == b->kind;
}

/* What Python calls, each in the file that is named. */
#define CALLED(name) PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
extern const char take_doc[], gather_doc[], equal_doc[];   /* rows.c */
CALLED(take);
CALLED(gather);
CALLED(equal);
extern const char lower_bounds_doc[], first_places_doc[], group_total_doc[], probe_doc[]; /* search.c */
CALLED(group_total);
CALLED(first_places);
CALLED(lower_bounds);
CALLED(probe);
extern const char sort_doc[], by_key_doc[], merge_order_doc[]; /* sort.c */
PyObject *sort(PyObject *self, PyObject *hashes);
CALLED(by_key);
PyObject *merge_order(PyObject *self, PyObject *sources);
extern const char hash_doc[];                              /* hash.c */
CALLED(hash);
extern const char intake_doc[];                            /* intake.c */
CALLED(intake);
extern const char plain_dicts_doc[], dicts_doc[];          /* dicts.c */
CALLED(plain_dicts);
CALLED(dicts);
extern const char step_groups_doc[], add_groups_doc[];     /* groups.c */
CALLED(step_groups);
CALLED(add_groups);

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC visibility pop
#endif

#endif
