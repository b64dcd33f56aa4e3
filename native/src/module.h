/* The functions of the module, each with its file; the table is in module.c. */
#ifndef CCESA_MODULE_H
#define CCESA_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* masks.c */
PyObject *add_masks(PyObject *module, PyObject *arguments);
PyObject *instructions(PyObject *module, PyObject *arguments);
PyObject *limit(PyObject *module, PyObject *arguments);

/* sum.c */
PyObject *add_words(PyObject *module, PyObject *arguments);

/* fields.c */
PyObject *pack_fields(PyObject *module, PyObject *arguments);
PyObject *split_fields(PyObject *module, PyObject *arguments);

/* walsh.c */
PyObject *walsh(PyObject *module, PyObject *arguments);

/* draw.c */
PyObject *draw_noise(PyObject *module, PyObject *arguments);

#endif
