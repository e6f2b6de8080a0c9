/* A few rows as dicts come in and go out: what engine/plain_dicts.py and zset/export_few.py do in plain Python, with the
   same objects, in one call instead of dozens. */

#include "kernels.h"

/* -- rows out of dicts --------------------------------------------------------------------- */

/* Whether an integer fits so many bytes. */
static int fits(PyObject *value, int bytes, int is_signed)
{
    int overflow, bits = 8 * bytes - is_signed;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (bits == 64 && overflow > 0) {
        PyLong_AsUnsignedLongLong(value);
        overflow = PyErr_Occurred() != NULL;
        PyErr_Clear();
        return !overflow;
    }
    if (overflow || (!is_signed && number < 0))
        return 0;
    return bits >= 63 || (number >= -(1LL << bits) && number < 1LL << bits);
}

/* Whether a value is a plain one of the kind: a text, a truth, a number with a point, or an integer, whose kind says
   how many bytes it may take, as a digit where it has a sign, as the letter of that number where it has none. */
static int is_of_kind(PyObject *value, char kind)
{
    switch (kind) {
    case 's':
        return PyUnicode_CheckExact(value) && PyUnicode_IS_ASCII(value);
    case 'b':
        return PyBool_Check(value);
    case 'd':
        return PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == PyFloat_AS_DOUBLE(value);
    case '1': case '2': case '4': case '8':
        return PyLong_CheckExact(value) && fits(value, kind - '0', 1);
    case 'A': case 'B': case 'D': case 'H':
        return PyLong_CheckExact(value) && fits(value, kind - '@', 0);
    default:
        return 0;
    }
}

/* The dict's values under the names, as a tuple; NULL without an error where they are not of their kinds. */
static PyObject *plain_row(PyObject *dict, PyObject *names, const char *kinds)
{
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    PyObject *row = PyTuple_New(n);
    for (Py_ssize_t i = 0; row != NULL && i < n; i++) {
        PyObject *value = PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(names, i));
        if (value == NULL || !is_of_kind(value, kinds[i]))
            Py_CLEAR(row);
        else
            PyTuple_SET_ITEM(row, i, Py_NewRef(value));
    }
    return row;
}

/* Adds a dict's row and its weight to the lists: 1, or 0 where the dict is of another kind, or -1 and an error. */
static int add_plain(PyObject *rows, PyObject *weights, PyObject *dict, PyObject *names, const char *kinds,
                     PyObject *name_of_weight, long long weight_max)
{
    if (!PyDict_CheckExact(dict))
        return 0;
    PyObject *weight = PyDict_GetItemWithError(dict, name_of_weight);
    if (weight == NULL && PyErr_Occurred())
        return -1;
    /* All names of the table must be there, below: with so many names there are no others. */
    if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(names) + (weight != NULL))
        return 0;
    long long number = 1;
    int overflow = 0;
    if (weight != NULL) {
        if (!PyLong_CheckExact(weight))
            return 0;
        number = PyLong_AsLongLongAndOverflow(weight, &overflow);
    }
    if (overflow || number == 0 || number < -weight_max || number > weight_max)
        return 0;
    PyObject *row = plain_row(dict, names, kinds);
    if (row == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *times = PyLong_FromLongLong(number);
    int failed = times == NULL || PyList_Append(rows, row) < 0 || PyList_Append(weights, times) < 0;
    Py_DECREF(row);
    Py_XDECREF(times);
    return failed ? -1 : 1;
}

const char plain_dicts_doc[] =
    "plain_dicts(dicts, names, kinds, '_weight', the largest weight): engine/plain_dicts.py, PlainDicts.take: rows and\n"
    "weights, or None.";
PyObject *plain_dicts(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5 || !PyList_CheckExact(args[0]) || !PyTuple_CheckExact(args[1]) || !PyBytes_CheckExact(args[2]) ||
        PyBytes_GET_SIZE(args[2]) != PyTuple_GET_SIZE(args[1]) || !PyLong_CheckExact(args[4])) {
        PyErr_SetString(PyExc_TypeError, "plain_dicts(dicts, names, kinds, weight, weight_max)");
        return NULL;
    }
    PyObject *names = args[1];
    long long weight_max = PyLong_AsLongLong(args[4]);
    if (weight_max == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(args[0]);
    PyObject *rows = PyList_New(0), *weights = PyList_New(0), *found = NULL;
    if (rows == NULL || weights == NULL)
        goto end;
    for (Py_ssize_t i = 0; i < count && i < PyList_GET_SIZE(args[0]); i++) {
        PyObject *dict = Py_NewRef(PyList_GET_ITEM(args[0], i)); /* looking up a name may run code of its own */
        int plain = add_plain(rows, weights, dict, names, PyBytes_AS_STRING(args[2]), args[3], weight_max);
        Py_DECREF(dict);
        if (plain < 0)
            goto end;
        if (!plain) {
            count = 0;
            break;
        }
    }
    found = count ? PyTuple_Pack(2, rows, weights) : Py_NewRef(Py_None);
end:
    Py_XDECREF(rows);
    Py_XDECREF(weights);
    return found;
}

/* -- dicts out of rows ---------------------------------------------------------------------- */

static PyObject *dict_of(PyObject *row, PyObject *names, PyObject *name_of_weight, PyObject *weight)
{
    if (!PyTuple_CheckExact(row) || PyTuple_GET_SIZE(row) != PyTuple_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "a row has a value for each name");
        return NULL;
    }
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict != NULL && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), PyTuple_GET_ITEM(row, i)) < 0)
            Py_CLEAR(dict);
    if (dict != NULL && PyDict_SetItem(dict, name_of_weight, weight) < 0)
        Py_CLEAR(dict);
    return dict;
}

const char dicts_doc[] = "dicts(rows, weights, names, '_weight'): zset/export_few.py, dicts_of_few.";
PyObject *dicts(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || PyList_GET_SIZE(args[0]) != PyList_GET_SIZE(args[1]) ||
        !PyTuple_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "dicts(rows, weights, names, weight)");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(args[0]);
    PyObject *found = PyList_New(count);
    for (Py_ssize_t i = 0; found != NULL && i < count; i++) {
        PyObject *one = dict_of(PyList_GET_ITEM(args[0], i), args[2], args[3], PyList_GET_ITEM(args[1], i));
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, one);
    }
    return found;
}
