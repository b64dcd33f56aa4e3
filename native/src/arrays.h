/* Arrays of numbers, as other modules lend them. */
#ifndef CCESA_ARRAYS_H
#define CCESA_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are little-endian, and so must be the machine"
#endif

typedef enum { INT32, INT64, UINT64, FLOAT64 } Kind;
/* What is written to must be aligned; what is only read may lie anywhere, such as in the middle of a message. */
typedef enum { READ, WRITE } Use;

/* What a function wants of an argument. */
typedef struct {
    const char *name;
    Kind kind;
    Use use;
} Wanted;

/* Borrow all arrays, each of them contiguous; or none, with an exception, and return 0. */
int arrays_take(PyObject *const lent[], Py_buffer arrays[], const Wanted wanted[], size_t count);
void arrays_release(Py_buffer arrays[], size_t count);

static inline size_t array_size(const Py_buffer *array)
{
    return (size_t)(array->len / array->itemsize);
}

static inline uint64_t load(const void *array, size_t place)
{
    uint64_t word;
    memcpy(&word, (const char *)array + 8 * place, 8);
    return word;
}

static inline int32_t load_short(const void *array, size_t place)
{
    int32_t number;
    memcpy(&number, (const char *)array + 4 * place, 4);
    return number;
}

#endif
