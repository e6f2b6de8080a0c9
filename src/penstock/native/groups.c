/* A few rows as tuples through an aggregate: what circuit/operators/aggregate_few.py and state/young.py do in plain Python,
   with the same objects and the same arithmetic, in one call instead of dozens. */

#include "kernels.h"

/* The element-wise sum of two tuples of one length, a new tuple. */
static PyObject *tuple_sum(PyObject *a, PyObject *b)
{
    if (!PyTuple_CheckExact(a) || !PyTuple_CheckExact(b) || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) {
        PyErr_SetString(PyExc_TypeError, "not two tuples of one length");
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    PyObject *sum = PyTuple_New(n);
    for (Py_ssize_t i = 0; sum != NULL && i < n; i++) {
        PyObject *one = PyNumber_Add(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
        if (one == NULL)
            Py_CLEAR(sum);
        else
            PyTuple_SET_ITEM(sum, i, one);
    }
    return sum;
}

/* Adds to what a dict has under a key, or puts it there; `only_known`: leaves it alone where there is nothing. */
static int dict_add(PyObject *dict, PyObject *key, PyObject *added, int only_known)
{
    PyObject *before = PyDict_GetItemWithError(dict, key);
    if (before == NULL)
        return PyErr_Occurred() ? -1 : only_known ? 0 : PyDict_SetItem(dict, key, added);
    PyObject *sum = tuple_sum(before, added);
    int done = sum == NULL ? -1 : PyDict_SetItem(dict, key, sum);
    Py_XDECREF(sum);
    return done;
}

const char add_groups_doc[] = "add_groups(changes, known, groups): state/young.py, Young.add.";
PyObject *add_groups(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyDict_CheckExact(args[0]) || !PyDict_CheckExact(args[1]) || !PyList_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "add_groups(changes, known, groups)");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[2]); i++) {
        PyObject *group = PyList_GET_ITEM(args[2], i);
        if (!PyTuple_CheckExact(group) || PyTuple_GET_SIZE(group) != 2) {
            PyErr_SetString(PyExc_TypeError, "not a group");
            return NULL;
        }
        PyObject *key = PyTuple_GET_ITEM(group, 0), *added = PyTuple_GET_ITEM(group, 1);
        if (dict_add(args[0], key, added, 0) < 0 || dict_add(args[1], key, added, 1) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* -- groups out of rows ---------------------------------------------------------------------- */

typedef struct {
    PyObject *keys;     /* tuple of int: the places of a row that are its group's key */
    PyObject *measures; /* tuple of (kind, place) */
    PyObject *outputs;  /* tuple of (kind, places of measures, function of a list of these) */
} Groups;

/* The value at a place of a row, borrowed. */
static PyObject *value_at(PyObject *row, PyObject *place)
{
    Py_ssize_t at = PyLong_AsSsize_t(place);
    if (at < 0 || at >= PyTuple_GET_SIZE(row)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a row is too short");
        return NULL;
    }
    return PyTuple_GET_ITEM(row, at);
}

static PyObject *key_of(PyObject *row, PyObject *keys)
{
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    PyObject *key = PyTuple_New(n);
    for (Py_ssize_t i = 0; key != NULL && i < n; i++) {
        PyObject *value = value_at(row, PyTuple_GET_ITEM(keys, i));
        if (value == NULL)
            Py_CLEAR(key);
        else
            PyTuple_SET_ITEM(key, i, Py_NewRef(value));
    }
    return key;
}

/* What a row of some weight adds to a measure: rows, count, true, sum or squares, by their first letters but for the
   last (q). */
static PyObject *term(PyObject *measure, PyObject *row, PyObject *weight)
{
    if (!PyTuple_CheckExact(measure) || PyTuple_GET_SIZE(measure) != 2 ||
        !PyUnicode_CheckExact(PyTuple_GET_ITEM(measure, 0)) ||
        PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(measure, 0)) != 1) {
        PyErr_SetString(PyExc_TypeError, "not a measure");
        return NULL;
    }
    Py_UCS4 kind = PyUnicode_READ_CHAR(PyTuple_GET_ITEM(measure, 0), 0);
    if (kind == 'r')
        return Py_NewRef(weight);
    PyObject *value = value_at(row, PyTuple_GET_ITEM(measure, 1));
    if (value == NULL)
        return NULL;
    if (value == Py_None)
        return PyLong_FromLong(0);
    if (kind == 'c')
        return Py_NewRef(weight);
    if (kind == 't') {
        int holds = PyObject_IsTrue(value);
        return holds < 0 ? NULL : holds ? Py_NewRef(weight) : PyLong_FromLong(0);
    }
    if (kind == 's')
        return PyNumber_Multiply(value, weight);
    if (kind != 'q') {
        PyErr_SetString(PyExc_TypeError, "not a kind of measure");
        return NULL;
    }
    PyObject *square = PyNumber_Multiply(value, value);
    PyObject *times = square ? PyNumber_Multiply(square, weight) : NULL;
    Py_XDECREF(square);
    return times;
}

/* For each group, in the order in which they come, what is added to its measures. */
static PyObject *changes_of(const Groups *g, PyObject *rows, PyObject *weights)
{
    PyObject *changes = PyDict_New();
    Py_ssize_t width = PyTuple_GET_SIZE(g->measures);
    for (Py_ssize_t i = 0; changes != NULL && i < PyList_GET_SIZE(rows); i++) {
        PyObject *row = PyList_GET_ITEM(rows, i), *weight = PyList_GET_ITEM(weights, i);
        if (!PyTuple_CheckExact(row)) {
            PyErr_SetString(PyExc_TypeError, "a row is a tuple");
            Py_CLEAR(changes);
            break;
        }
        PyObject *key = key_of(row, g->keys), *added = key ? PyTuple_New(width) : NULL;
        for (Py_ssize_t m = 0; added != NULL && m < width; m++) {
            PyObject *one = term(PyTuple_GET_ITEM(g->measures, m), row, weight);
            if (one == NULL)
                Py_CLEAR(added);
            else
                PyTuple_SET_ITEM(added, m, one);
        }
        if (added == NULL || dict_add(changes, key, added, 0) < 0)
            Py_CLEAR(changes);
        Py_XDECREF(key);
        Py_XDECREF(added);
    }
    return changes;
}

/* The value of an aggregate: a count, a sum that fits 64 bits, or what its function makes of the measures. */
static PyObject *finished(PyObject *output, PyObject *measures)
{
    if (!PyTuple_CheckExact(output) || PyTuple_GET_SIZE(output) != 3 ||
        !PyUnicode_CheckExact(PyTuple_GET_ITEM(output, 0)) || PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(output, 0)) != 1 ||
        !PyTuple_CheckExact(PyTuple_GET_ITEM(output, 1))) {
        PyErr_SetString(PyExc_TypeError, "not an output");
        return NULL;
    }
    Py_UCS4 kind = PyUnicode_READ_CHAR(PyTuple_GET_ITEM(output, 0), 0);
    PyObject *places = PyTuple_GET_ITEM(output, 1);
    Py_ssize_t n = PyTuple_GET_SIZE(places);
    PyObject *first = n ? value_at(measures, PyTuple_GET_ITEM(places, 0)) : NULL;
    if (n && first == NULL)
        return NULL;
    if (kind == 'c' && n == 1) {
        int overflow;
        PyLong_AsLongLongAndOverflow(first, &overflow);
        if (PyErr_Occurred())
            return NULL;
        if (overflow == 0)
            return Py_NewRef(first);
    }
    if (kind == 's' && n == 2) {
        int overflow;
        long long count = PyLong_AsLongLongAndOverflow(first, &overflow);
        if (PyErr_Occurred())
            return NULL;
        if (overflow < 0 || (overflow == 0 && count <= 0))
            return Py_NewRef(Py_None);
        PyObject *total = value_at(measures, PyTuple_GET_ITEM(places, 1));
        if (total == NULL)
            return NULL;
        PyLong_AsLongLongAndOverflow(total, &overflow);
        if (PyErr_Occurred())
            return NULL;
        if (overflow == 0)
            return Py_NewRef(total);
    }
    PyObject *chosen = PyList_New(n), *value = NULL;
    for (Py_ssize_t i = 0; chosen != NULL && i < n; i++) {
        PyObject *one = value_at(measures, PyTuple_GET_ITEM(places, i));
        if (one == NULL)
            Py_CLEAR(chosen);
        else
            PyList_SET_ITEM(chosen, i, Py_NewRef(one));
    }
    if (chosen != NULL)
        value = PyObject_CallOneArg(PyTuple_GET_ITEM(output, 2), chosen);
    Py_XDECREF(chosen);
    return value;
}

/* The group's row in the output; None where the group is empty, unless there is one group only, of all rows. */
static PyObject *output_row(const Groups *g, PyObject *key, PyObject *measures)
{
    Py_ssize_t keys = PyTuple_GET_SIZE(g->keys), outputs = PyTuple_GET_SIZE(g->outputs);
    if (keys > 0) {
        int overflow;
        long long rows = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(measures, 0), &overflow);
        if (PyErr_Occurred())
            return NULL;
        if (overflow < 0 || (overflow == 0 && rows <= 0))
            return Py_NewRef(Py_None);
    }
    PyObject *row = PyTuple_New(keys + outputs);
    for (Py_ssize_t i = 0; row != NULL && i < keys; i++)
        PyTuple_SET_ITEM(row, i, Py_NewRef(PyTuple_GET_ITEM(key, i)));
    for (Py_ssize_t i = 0; row != NULL && i < outputs; i++) {
        PyObject *value = finished(PyTuple_GET_ITEM(g->outputs, i), measures);
        if (value == NULL)
            Py_CLEAR(row);
        else
            PyTuple_SET_ITEM(row, keys + i, value);
    }
    return row;
}

static int any_true(PyObject *tuple)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        int holds = PyObject_IsTrue(PyTuple_GET_ITEM(tuple, i));
        if (holds)
            return holds;
    }
    return 0;
}

/* What a group gives: its old row to `gone` and its new one to `come`, unless they are the same. */
static int emit(const Groups *g, PyObject *key, PyObject *old, PyObject *added, PyObject *gone, PyObject *come)
{
    PyObject *new = tuple_sum(old, added);
    PyObject *before = new ? output_row(g, key, old) : NULL, *after = before ? output_row(g, key, new) : NULL;
    int done = -1;
    if (after != NULL) {
        int same = PyObject_RichCompareBool(before, after, Py_EQ);
        done = same < 0 ? -1 : 0;
        if (same == 0 && ((before != Py_None && PyList_Append(gone, before) < 0) ||
                          (after != Py_None && PyList_Append(come, after) < 0)))
            done = -1;
    }
    Py_XDECREF(new);
    Py_XDECREF(before);
    Py_XDECREF(after);
    return done;
}

/* The measures of a group before: those that are known, or those that `find` finds. A new reference. */
static PyObject *measures_of(PyObject *key, PyObject *known, PyObject *find, PyObject *width)
{
    PyObject *old = PyDict_GetItemWithError(known, key);
    if (old != NULL)
        Py_INCREF(old);
    else if (!PyErr_Occurred())
        old = PyObject_CallFunctionObjArgs(find, key, width, NULL);
    if (old != NULL && (!PyTuple_CheckExact(old) || PyTuple_GET_SIZE(old) == 0)) {
        PyErr_SetString(PyExc_TypeError, "measures are a tuple");
        Py_CLEAR(old);
    }
    return old;
}

static PyObject *weights_of(Py_ssize_t gone, Py_ssize_t come)
{
    PyObject *weights = PyList_New(gone + come);
    for (Py_ssize_t i = 0; weights != NULL && i < gone + come; i++) {
        PyObject *one = PyLong_FromLong(i < gone ? -1 : 1);
        if (one == NULL)
            Py_CLEAR(weights);
        else
            PyList_SET_ITEM(weights, i, one);
    }
    return weights;
}

const char step_groups_doc[] =
    "step_groups(rows, weights, keys, measures, outputs, known, find): circuit/operators/aggregate_few.py, FewRows.step:\n"
    "the rows that go and those that come, their weights, and what is added to the groups.";
PyObject *step_groups(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 7 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || PyList_GET_SIZE(args[0]) != PyList_GET_SIZE(args[1]) ||
        !PyTuple_CheckExact(args[2]) || !PyTuple_CheckExact(args[3]) || PyTuple_GET_SIZE(args[3]) == 0 ||
        !PyTuple_CheckExact(args[4]) || !PyDict_CheckExact(args[5])) {
        PyErr_SetString(PyExc_TypeError, "step_groups(rows, weights, keys, measures, outputs, known, find)");
        return NULL;
    }
    Groups g = {args[2], args[3], args[4]};
    PyObject *width = PyLong_FromSsize_t(PyTuple_GET_SIZE(g.measures)), *result = NULL, *weights = NULL;
    PyObject *changes = width ? changes_of(&g, args[0], args[1]) : NULL;
    PyObject *gone = PyList_New(0), *come = PyList_New(0), *groups = PyList_New(0), *key, *added;
    Py_ssize_t at = 0;
    if (changes == NULL || gone == NULL || come == NULL || groups == NULL)
        goto end;
    while (PyDict_Next(changes, &at, &key, &added)) { /* a dict of our own: nobody else changes it */
        int counts = any_true(added), failed = counts < 0;
        if (counts > 0) {
            PyObject *group = PyTuple_Pack(2, key, added);
            failed = group == NULL || PyList_Append(groups, group) < 0;
            Py_XDECREF(group);
        }
        PyObject *old = failed ? NULL : measures_of(key, args[5], args[6], width);
        failed = old == NULL || emit(&g, key, old, added, gone, come) < 0;
        Py_XDECREF(old);
        if (failed)
            goto end;
    }
    weights = weights_of(PyList_GET_SIZE(gone), PyList_GET_SIZE(come));
    if (weights != NULL && PyList_SetSlice(gone, PyList_GET_SIZE(gone), PyList_GET_SIZE(gone), come) == 0)
        result = PyTuple_Pack(3, gone, weights, groups);
end:
    Py_XDECREF(width);
    Py_XDECREF(changes);
    Py_XDECREF(gone);
    Py_XDECREF(come);
    Py_XDECREF(groups);
    Py_XDECREF(weights);
    return result;
}
