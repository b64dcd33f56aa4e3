/* The words of a vector, wherever they lie, go into a sum. */
#include "module.h"

#include <stdint.h>
#include <string.h>

#define DEFINE(NAME, WORD)                                                        \
    static void NAME(char *total, const char *vector, size_t bytes)               \
    {                                                                             \
        for (size_t at = 0; at < bytes; at += sizeof(WORD)) {                     \
            WORD sum, word; /* memcpy, because a message aligns nothing */        \
            memcpy(&sum, total + at, sizeof sum);                                 \
            memcpy(&word, vector + at, sizeof word);                              \
            sum = (WORD)(sum + word);                                             \
            memcpy(total + at, &sum, sizeof sum);                                 \
        }                                                                         \
    }

DEFINE(add8, uint8_t)
DEFINE(add16, uint16_t)
DEFINE(add32, uint32_t)
DEFINE(add64, uint64_t)

static const struct {
    int bytes;
    void (*add)(char *total, const char *vector, size_t bytes);
} WORDS[] = {{1, add8}, {2, add16}, {4, add32}, {8, add64}};

static PyObject *add_checked(Py_buffer *total, const Py_buffer *vector, int word_bytes)
{
    const uintptr_t first = (uintptr_t)total->buf, second = (uintptr_t)vector->buf;
    const size_t bytes = (size_t)total->len;
    if (total->len != vector->len || (first < second + bytes && second < first + bytes)) {
        PyErr_SetString(PyExc_ValueError, "total and vector must have the same length and lie apart");
        return NULL;
    }
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (WORDS[i].bytes == word_bytes && bytes % (size_t)word_bytes == 0) {
            Py_BEGIN_ALLOW_THREADS
            WORDS[i].add(total->buf, vector->buf, bytes);
            Py_END_ALLOW_THREADS
            Py_RETURN_NONE;
        }
    PyErr_SetString(PyExc_ValueError, "there must be whole words of 1, 2, 4 or 8 bytes");
    return NULL;
}

PyObject *add_words(PyObject *module, PyObject *arguments)
{
    Py_buffer total, vector;
    int word_bytes;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*i:add_words", &total, &vector, &word_bytes))
        return NULL;
    PyObject *result = add_checked(&total, &vector, word_bytes);
    PyBuffer_Release(&total);
    PyBuffer_Release(&vector);
    return result;
}
