/* Orders: of hashes, of the rows of a delta by key, of sorted batches put together. */

#include "kernels.h"

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

const char sort_doc[] = "sort(hashes): the stable order that sorts them, and the hashes in that order.";
PyObject *sort(PyObject *self, PyObject *argument)
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

const char by_key_doc[] =
    "by_key(hashes, weights): the order that sorts by hash, rows that go first; where each hash begins in it;\n"
    "and whether each hash has one row that goes, or one that comes, or one of each.";
PyObject *by_key(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
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

const char merge_order_doc[] =
    "merge_order([sorted hashes, ...]): (which, rows), in the order of all; equal ones in the order given.";
PyObject *merge_order(PyObject *self, PyObject *argument)
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
