/* The inner loops of ticks, of one row and of some hundred, compiled.

   Every function in these files does what a function in numpy and Arrow does elsewhere in the package, to the
   bit, and is called in its place where these files could be compiled (penstock/native/__init__.py). What is
   gained is not arithmetic: numpy and Arrow cost microseconds a call and a column, and they visit
   stored rows one column after the other, waiting for memory each time. Here one call takes all columns,
   and asks for the memory of the next rows while it looks at these. dicts.c and groups.c are for ticks of a few
   rows, which are tuples: they do what plain Python does elsewhere, and what is gained is its cost of a step and of a call.

   A column comes as a penstock.zset.column.Column: numbers are numpy arrays of 1, 2, 4 or 8 bytes, text is an
   Arrow array of 64-bit offsets whose buffers Column.text_buffers() tells. A column of another kind raises
   TypeError, as do arrays that swap bytes or lie across words: whoever calls goes the plain way then.

   What changes what a function takes or gives changes VERSION, here and in penstock/native/__init__.py. */

#define PENSTOCK_KERNELS_MODULE
#include "kernels.h"

#define VERSION 3

static PyMethodDef methods[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL, take_doc},
    {"equal", (PyCFunction)(void (*)(void))equal, METH_FASTCALL, equal_doc},
    {"lower_bounds", (PyCFunction)(void (*)(void))lower_bounds, METH_FASTCALL, lower_bounds_doc},
    {"first_places", (PyCFunction)(void (*)(void))first_places, METH_FASTCALL, first_places_doc},
    {"group_total", (PyCFunction)(void (*)(void))group_total, METH_FASTCALL, group_total_doc},
    {"probe", (PyCFunction)(void (*)(void))probe, METH_FASTCALL, probe_doc},
    {"gather", (PyCFunction)(void (*)(void))gather, METH_FASTCALL, gather_doc},
    {"merge_order", merge_order, METH_O, merge_order_doc},
    {"hash", (PyCFunction)(void (*)(void))hash, METH_FASTCALL, hash_doc},
    {"sort", sort, METH_O, sort_doc},
    {"by_key", (PyCFunction)(void (*)(void))by_key, METH_FASTCALL, by_key_doc},
    {"intake", (PyCFunction)(void (*)(void))intake, METH_FASTCALL, intake_doc},
    {"plain_dicts", (PyCFunction)(void (*)(void))plain_dicts, METH_FASTCALL, plain_dicts_doc},
    {"dicts", (PyCFunction)(void (*)(void))dicts, METH_FASTCALL, dicts_doc},
    {"step_groups", (PyCFunction)(void (*)(void))step_groups, METH_FASTCALL, step_groups_doc},
    {"add_groups", (PyCFunction)(void (*)(void))add_groups, METH_FASTCALL, add_groups_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernels", "The inner loops of ticks, of one row and of some hundred.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    import_array();
    if (names_made() < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddIntConstant(made, "VERSION", VERSION) < 0)
        Py_CLEAR(made);
    return made;
}
