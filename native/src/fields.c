/* Signed numbers in fields of 64-bit words, and back. All arithmetic is modulo 2^64. */
#include "arrays.h"
#include "module.h"

/* The first number lies in the lowest field; fields that are left over are zero. */
static void pack(const void *row, size_t count, int bits, uint64_t *words)
{
    const size_t each = 64 / (size_t)bits;
    for (size_t first = 0; first < count; first += each) {
        size_t place = count - first < each ? count : first + each;
        uint64_t word = load(row, --place);
        while (place > first)
            word = (word << bits) + load(row, --place);
        *words++ = word;
    }
}

/* Reads all fields from the lowest up, each with its sign. Returns the bits left above, of all words together. */
static uint64_t split(const void *words, size_t length, int bits, uint64_t *row)
{
    const size_t each = 64 / (size_t)bits;
    const uint64_t sign = UINT64_C(1) << (bits - 1), field = sign | (sign - 1);
    uint64_t left = 0;
    for (size_t at = 0; at < length; at++) {
        uint64_t rest = load(words, at);
        for (size_t place = 0; place < each; place++) {
            const uint64_t number = ((rest & field) ^ sign) - sign;
            *row++ = number;
            rest = (uint64_t)((int64_t)(rest - number) >> (bits - 1) >> 1); /* which repeats the sign */
        }
        left |= rest;
    }
    return left;
}

/* Parses (an array, the bits of a field, another array). */
static int parse(PyObject *arguments, const Wanted wanted[2], Py_buffer arrays[2], int *bits)
{
    PyObject *lent[2];
    if (!PyArg_ParseTuple(arguments, "OiO", &lent[0], bits, &lent[1]))
        return 0;
    if (*bits < 2 || *bits > 64) {
        PyErr_SetString(PyExc_ValueError, "a field must have 2 to 64 bits");
        return 0;
    }
    return arrays_take(lent, arrays, wanted, 2);
}

PyObject *pack_fields(PyObject *module, PyObject *arguments)
{
    static const Wanted wanted[2] = {{"row", INT64, READ}, {"words", UINT64, WRITE}};
    Py_buffer arrays[2];
    int bits;
    (void)module;
    if (!parse(arguments, wanted, arrays, &bits))
        return NULL;
    const size_t count = array_size(&arrays[0]), each = 64 / (size_t)bits;
    const int fit = array_size(&arrays[1]) == count / each + (count % each > 0);
    if (fit) {
        Py_BEGIN_ALLOW_THREADS
        pack(arrays[0].buf, count, bits, arrays[1].buf);
        Py_END_ALLOW_THREADS
    } else
        PyErr_SetString(PyExc_ValueError, "there must be as many words as the row takes");
    arrays_release(arrays, 2);
    return fit ? Py_NewRef(Py_None) : NULL;
}

PyObject *split_fields(PyObject *module, PyObject *arguments)
{
    static const Wanted wanted[2] = {{"words", UINT64, READ}, {"row", INT64, WRITE}};
    Py_buffer arrays[2];
    int bits;
    uint64_t left = 0;
    (void)module;
    if (!parse(arguments, wanted, arrays, &bits))
        return NULL;
    const size_t length = array_size(&arrays[0]), count = array_size(&arrays[1]), each = 64 / (size_t)bits;
    const int fit = count % each == 0 && count / each == length;
    if (fit) {
        Py_BEGIN_ALLOW_THREADS
        left = split(arrays[0].buf, length, bits, arrays[1].buf);
        Py_END_ALLOW_THREADS
    } else
        PyErr_SetString(PyExc_ValueError, "the row must have a number for each field of the words");
    arrays_release(arrays, 2);
    return fit ? PyBool_FromLong(left != 0) : NULL;
}
