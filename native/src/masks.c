/* What Python calls for masks: arguments are checked here, and nowhere below. */
#include "module.h"

#include "kernel.h"

static int overlap(const Py_buffer *one, const Py_buffer *other)
{
    const uintptr_t first = (uintptr_t)one->buf, second = (uintptr_t)other->buf;
    return first < second + (size_t)other->len && second < first + (size_t)one->len;
}

static int log_of_word(int bytes)
{
    for (int log = 0; log < 4; log++)
        if (bytes == 1 << log)
            return log;
    return -1;
}

/* The path for a generator, or NULL with an exception: ValueError for names that no machine knows. */
static const Path *path_of(const char *generator, const char *name)
{
    const Path *found = find_path(generator, name);
    if (!found) {
        for (const Path *path = PATHS; path->name; path++)
            if (!strcmp(path->generator, generator) && (!name || !strcmp(path->name, name)))
                return PyErr_Format(PyExc_RuntimeError, "this machine cannot run %s", path->name), NULL;
        PyErr_Format(PyExc_ValueError, "no instructions %s for generator %s", name ? name : "at all", generator);
    }
    return found;
}

typedef struct {
    Py_buffer source, target, keys, negative;
    Py_ssize_t offset;
    int word_bytes;
    const char *generator, *name;
} Arguments;

static void release(Arguments *given)
{
    PyBuffer_Release(&given->source);
    PyBuffer_Release(&given->target);
    PyBuffer_Release(&given->keys);
    PyBuffer_Release(&given->negative);
}

/* What is wrong, or NULL. */
static const char *wrong_vectors(const Arguments *given)
{
    const Py_ssize_t bytes = given->target.len;
    if (given->source.len != bytes)
        return "source and target must have the same length";
    if (log_of_word(given->word_bytes) < 0)
        return "words must have 1, 2, 4 or 8 bytes";
    if (bytes % given->word_bytes)
        return "the length must be a whole number of words";
    if (given->source.buf != given->target.buf && overlap(&given->source, &given->target))
        return "source and target must be the same or lie apart";
    if (overlap(&given->keys, &given->target) || overlap(&given->negative, &given->target))
        return "keys and signs must lie apart from the target";
    if (given->offset < 0 || given->offset % 64)
        return "the offset must be a multiple of 64, and not negative";
    if (given->offset > PY_SSIZE_T_MAX - bytes)
        return "the vector must end below 2^63 bytes";
    return NULL;
}

static const char *wrong_keys(const Arguments *given)
{
    const int chacha = !strcmp(given->generator, "chacha20");
    const Py_ssize_t key_bytes = chacha ? 32 : 16;
    const uint8_t *negative = given->negative.buf;
    if (given->keys.len % key_bytes || given->keys.len / key_bytes != given->negative.len)
        return "there must be one key of the generator's size for each sign";
    for (Py_ssize_t i = 0; i < given->negative.len; i++)
        if (negative[i] > 1)
            return "a sign must be 0, to add, or 1, to subtract";
    if (chacha && ((uint64_t)given->offset + (uint64_t)given->target.len + 63) / 64 > UINT64_C(1) << 32)
        return "chacha20 has 2^32 blocks, and the vector ends beyond them";
    return NULL;
}

static PyObject *add_checked(const Arguments *given)
{
    const Path *path = path_of(given->generator, given->name);
    const char *wrong = wrong_vectors(given);
    if (!path)
        return NULL;
    if (!wrong)
        wrong = wrong_keys(given);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        return NULL;
    }
    const Work work = {
        .source = given->source.buf,
        .target = given->target.buf,
        .bytes = (size_t)given->target.len,
        .offset = (uint64_t)given->offset,
        .keys = given->keys.buf,
        .negative = given->negative.buf,
        .count = (size_t)given->negative.len,
        .log_word = log_of_word(given->word_bytes),
    };
    if (work.bytes) {
        Py_BEGIN_ALLOW_THREADS
        path->add(&work);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

PyObject *add_masks(PyObject *module, PyObject *arguments)
{
    Arguments given = {.name = NULL};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*w*nisy*y*|z:add_masks", &given.source, &given.target, &given.offset,
                          &given.word_bytes, &given.generator, &given.keys, &given.negative, &given.name))
        return NULL;
    PyObject *result = add_checked(&given);
    release(&given);
    return result;
}

PyObject *instructions(PyObject *module, PyObject *arguments)
{
    const char *generator;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "s:instructions", &generator))
        return NULL;
    PyObject *names = PyList_New(0);
    for (const Path *path = PATHS; names && path->name; path++) {
        if (strcmp(path->generator, generator) || !path->runs())
            continue;
        PyObject *name = PyUnicode_FromString(path->name);
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    PyObject *result = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    return result;
}

PyObject *limit(PyObject *module, PyObject *arguments)
{
    const char *generator, *name;
    unsigned long long bytes, folded;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "ssK:_limit", &generator, &name, &bytes))
        return NULL;
    const Path *path = path_of(generator, name);
    if (!path)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    folded = path->limit(bytes);
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLongLong(folded);
}
