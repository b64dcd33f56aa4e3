/* The module's table of functions. All of them check their arguments before anything is read or written. */
#include "module.h"

static PyMethodDef METHODS[] = {
    {"add_masks", add_masks, METH_VARARGS,
     "add_masks(source, target, offset, word_bytes, generator, keys, negative, instructions=None)\n--\n\n"
     "Write source plus or minus all keystreams to target, in words of word_bytes bytes."},
    {"instructions", instructions, METH_VARARGS,
     "instructions(generator)\n--\n\n"
     "Return the names of the instructions that this machine can make a keystream with, the fastest first."},
    {"_limit", limit, METH_VARARGS,
     "_limit(generator, instructions, bytes)\n--\n\n"
     "Run the bare instructions for so many bytes of keystream, for benchmarks."},
    {NULL, NULL, 0, NULL},
};

/* What the functions take and mean; ccesa/crypto/kernels/native.py uses no module with another number. */
enum { INTERFACE = 1 };

static int fill(PyObject *module)
{
    return PyModule_AddIntMacro(module, INTERFACE);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "ccesa_native", "The compiled kernel of ccesa.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_ccesa_native(void)
{
    return PyModuleDef_Init(&MODULE);
}
