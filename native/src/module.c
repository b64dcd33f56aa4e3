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
    {"add_words", add_words, METH_VARARGS,
     "add_words(total, vector, word_bytes)\n--\n\n"
     "Add a vector, which may lie anywhere, to a total, in words of word_bytes bytes."},
    {"pack_fields", pack_fields, METH_VARARGS,
     "pack_fields(row, bits, words)\n--\n\n"
     "Lay the signed numbers of a row into fields of so many bits, as many as fit into each word."},
    {"split_fields", split_fields, METH_VARARGS,
     "split_fields(words, bits, row)\n--\n\n"
     "Read all fields into a row; return whether anything is left above them in any word."},
    {"walsh", walsh, METH_VARARGS,
     "walsh(values)\n--\n\n"
     "Replace 2^k floats by their orthonormal Walsh-Hadamard transform."},
    {"draw_noise", draw_noise, METH_VARARGS,
     "draw_noise(fine, words, drawn, grid_bits, shift, guide, origin, high, low)\n--\n\n"
     "Draw an integer around each number of the fine grid, with two random words for each."},
    {NULL, NULL, 0, NULL},
};

/* What the functions take and mean; ccesa/compiled.py uses no module with another number. */
enum { INTERFACE = 3 };

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
