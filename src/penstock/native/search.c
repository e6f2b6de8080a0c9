/* Where hashes stand among sorted hashes, and which rows have the same key. */

#include "kernels.h"

#define SEARCH_BLOCK 32 /* needles that are looked for side by side */

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
    for (npy_intp start = 0; start < wanted; start += SEARCH_BLOCK) {
        npy_intp n = wanted - start < SEARCH_BLOCK ? wanted - start : SEARCH_BLOCK, place[SEARCH_BLOCK];
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

const char lower_bounds_doc[] = "lower_bounds(sorted hashes, needles): numpy's searchsorted.";
PyObject *lower_bounds(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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

const char first_places_doc[] =
    "first_places(hash, [sorted hashes, ...]): its first place in each, -1 where it is not.";
PyObject *first_places(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyLong_Check(args[0]) || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "first_places(hash, list of hashes)");
        return NULL;
    }
    uint64_t needle = PyLong_AsUnsignedLongLong(args[0]);
    if (needle == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(args[1]);
    PyObject *found = PyList_New(n);
    for (Py_ssize_t s = 0; found != NULL && s < n; s++) {
        npy_intp count;
        int64_t place;
        const uint64_t *hashes = uint64s(PyList_GET_ITEM(args[1], s), &count);
        PyObject *one = NULL;
        if (hashes != NULL) {
            search(hashes, count, &needle, 1, &place);
            one = PyLong_FromLongLong(place < count && hashes[place] == needle ? (long long)place : -1);
        }
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, s, one);
    }
    return found;
}

/* An array of integers, one after the other or all the same; 0 and an error if it is of another kind. */
static int integers(PyObject *object, npy_intp count, PyArrayObject **array, int *kind)
{
    *array = (PyArrayObject *)object;
    *kind = PyArray_Check(object) && PyArray_NDIM(*array) == 1 && PyArray_DIM(*array, 0) == count ? kind_of(*array) : 0;
    if (*kind && *kind != 'f')
        return 1;
    PyErr_SetString(PyExc_TypeError, "not a group of integers");
    return 0;
}

/* Adds what a batch has under the key to the totals; -1 with an error set. */
static int add_group(PyObject *batch, uint64_t key, int64_t *totals, Py_ssize_t width)
{
    PyObject *hashes = PyObject_GetAttr(batch, s_hashes), *columns = NULL, *values = NULL, *valid = NULL, *measures = NULL;
    npy_intp count;
    const uint64_t *sorted = hashes ? uint64s(hashes, &count) : NULL;
    uint64_t needle = mix(key);
    int64_t place;
    int done = -1, kind;
    PyArrayObject *array;
    if (sorted == NULL)
        goto end;
    search(sorted, count, &needle, 1, &place);
    if (place == count || sorted[place] != needle) {
        done = 0;
        goto end;
    }
    columns = PyObject_GetAttr(batch, s_columns);
    measures = columns ? PyObject_GetAttr(batch, s_measures) : NULL;
    if (measures == NULL)
        goto end;
    if (!PyTuple_CheckExact(columns) || PyTuple_GET_SIZE(columns) != 1 || !PyTuple_CheckExact(measures) ||
        PyTuple_GET_SIZE(measures) != width) {
        PyErr_SetString(PyExc_TypeError, "not groups of one key");
        goto end;
    }
    values = PyObject_GetAttr(PyTuple_GET_ITEM(columns, 0), s_values);
    valid = values ? PyObject_GetAttr(PyTuple_GET_ITEM(columns, 0), s_valid) : NULL;
    if (valid == NULL)
        goto end;
    if (valid != Py_None) { /* a NULL has a hash that a number may have too */
        PyErr_SetString(PyExc_TypeError, "keys that may be NULL");
        goto end;
    }
    if (!integers(values, count, &array, &kind))
        goto end;
    /* Of integers no two have the same hash: what stands here is the key, or the hashes are not these. */
    if (load_integer(PyArray_GETPTR1(array, place), kind, (int)PyArray_ITEMSIZE(array)) != key) {
        PyErr_SetString(PyExc_TypeError, "other hashes");
        goto end;
    }
    for (Py_ssize_t i = 0; i < width; i++) {
        if (!integers(PyTuple_GET_ITEM(measures, i), count, &array, &kind))
            goto end;
        int64_t more = (int64_t)load_integer(PyArray_GETPTR1(array, place), kind, (int)PyArray_ITEMSIZE(array));
        if (kind == 'u' || (more > 0 ? totals[i] > INT64_MAX - more : totals[i] < INT64_MIN - more)) {
            PyErr_SetString(PyExc_TypeError, "a sum of more than 64 bits");
            goto end;
        }
        totals[i] += more;
    }
    done = 0;
end:
    Py_XDECREF(hashes);
    Py_XDECREF(columns);
    Py_XDECREF(values);
    Py_XDECREF(valid);
    Py_XDECREF(measures);
    return done;
}

#define WIDTH_MAX 16

const char group_total_doc[] =
    "group_total(key, batches, width): the measures under an integer key, added up over batches that are sorted by the\n"
    "hashes of such keys, each of them there once.";
PyObject *group_total(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyLong_Check(args[0]) || !PyList_CheckExact(args[1]) || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "group_total(key, batches, width)");
        return NULL;
    }
    uint64_t key = PyLong_AsUnsignedLongLongMask(args[0]);
    Py_ssize_t width = PyLong_AsSsize_t(args[2]);
    int64_t totals[WIDTH_MAX] = {0};
    if (PyErr_Occurred())
        return NULL;
    if (width < 0 || width > WIDTH_MAX) {
        PyErr_SetString(PyExc_TypeError, "too many measures");
        return NULL;
    }
    for (Py_ssize_t b = 0; b < PyList_GET_SIZE(args[1]); b++)
        if (add_group(PyList_GET_ITEM(args[1], b), key, totals, width) < 0)
            return NULL;
    PyObject *found = PyTuple_New(width);
    for (Py_ssize_t i = 0; found != NULL && i < width; i++) {
        PyObject *one = PyLong_FromLongLong(totals[i]);
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, i, one);
    }
    return found;
}

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

const char probe_doc[] =
    "probe(needles, their key columns, [(sorted hashes, key columns), ...], first): rows with equal keys, as three\n"
    "arrays: the needle, the source, its row; source by source, in the order of the needles. None: there are none.\n"
    "With `first`, only those of the first source that has the key.";
PyObject *probe(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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
