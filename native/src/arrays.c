/* Arguments of functions that take arrays: their types, their alignment, and when they are given back. */
#include "arrays.h"

static const struct {
    const char *formats, *called;
    Py_ssize_t bytes;
} KINDS[] = {
    [INT32] = {"il", "int32", 4},
    [INT64] = {"ql", "int64", 8},
    [UINT64] = {"QL", "uint64", 8},
    [FLOAT64] = {"d", "float64", 8},
};

static int fits(const Py_buffer *array, Kind kind)
{
    const char *format = array->format ? array->format : "B";
    if (*format && strchr("@=<^", *format)) /* all of them little-endian here */
        format++;
    return array->itemsize == KINDS[kind].bytes && strlen(format) == 1 && strchr(KINDS[kind].formats, *format);
}

static int take(PyObject *lent, Py_buffer *array, const Wanted *wanted)
{
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (wanted->use == WRITE ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(lent, array, flags) < 0)
        return 0;
    if (!fits(array, wanted->kind))
        PyErr_Format(PyExc_TypeError, "%s must be an array of %s", wanted->name, KINDS[wanted->kind].called);
    else if (wanted->use == WRITE && (uintptr_t)array->buf % (uintptr_t)array->itemsize)
        PyErr_Format(PyExc_ValueError, "%s must be aligned", wanted->name);
    else
        return 1;
    PyBuffer_Release(array);
    return 0;
}

int arrays_take(PyObject *const lent[], Py_buffer arrays[], const Wanted wanted[], size_t count)
{
    for (size_t taken = 0; taken < count; taken++)
        if (!take(lent[taken], &arrays[taken], &wanted[taken])) {
            arrays_release(arrays, taken);
            return 0;
        }
    return 1;
}

void arrays_release(Py_buffer arrays[], size_t count)
{
    while (count)
        PyBuffer_Release(&arrays[--count]);
}
