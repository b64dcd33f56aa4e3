/* The orthonormal Walsh-Hadamard transform, in place.
 *
 * Every number comes from the same operations in the same order as in ccesa/privacy/quantizer.py: all are scaled,
 * then pairs at the distances 1, 2, 4, ... become their sum and their difference. Which pairs come first is up to
 * the cache and changes no result. The compiler must not fuse products and sums: see meson.build.
 */
#include "arrays.h"
#include "module.h"

#include <float.h>
#include <math.h>

#if FLT_EVAL_METHOD != 0
#error "intermediate results with more bits than float64 would change the last ones"
#endif

/* So many numbers stay in the fastest cache. */
#define INNER 2048

/* Two steps at once, over four neighbouring runs of h numbers. */
static inline void join(double *start, size_t h)
{
    double *restrict a = start, *restrict b = a + h, *restrict c = b + h, *restrict d = c + h;
    for (size_t j = 0; j < h; j++) {
        const double sum = a[j] + b[j], difference = a[j] - b[j];
        const double other_sum = c[j] + d[j], other_difference = c[j] - d[j];
        a[j] = sum + other_sum;
        b[j] = difference + other_difference;
        c[j] = sum - other_sum;
        d[j] = difference - other_difference;
    }
}

static void transform_in_cache(double *values, size_t count, double scale)
{
    size_t h = 1;
    for (size_t j = 0; j < count; j++)
        values[j] *= scale;
    for (; 4 * h <= count; h *= 4)
        for (size_t j = 0; j < count; j += 4 * h)
            join(values + j, h);
    for (size_t j = 0; 2 * h == count && j < h; j++) {
        const double sum = values[j] + values[j + h], difference = values[j] - values[j + h];
        values[j] = sum;
        values[j + h] = difference;
    }
}

static void transform(double *values, size_t count, double scale)
{
    if (count <= INNER) {
        transform_in_cache(values, count, scale);
        return;
    }
    for (size_t j = 0; j < count; j += count / 4)
        transform(values + j, count / 4, scale);
    join(values, count / 4);
}

PyObject *walsh(PyObject *module, PyObject *arguments)
{
    static const Wanted wanted = {"values", FLOAT64, WRITE};
    PyObject *lent;
    Py_buffer values;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O:walsh", &lent) || !arrays_take(&lent, &values, &wanted, 1))
        return NULL;
    const size_t count = array_size(&values);
    const int fit = count && !(count & (count - 1));
    if (fit) {
        Py_BEGIN_ALLOW_THREADS
        transform(values.buf, count, 1 / sqrt((double)count));
        Py_END_ALLOW_THREADS
    } else
        PyErr_SetString(PyExc_ValueError, "there must be a power of two of numbers");
    arrays_release(&values, 1);
    return fit ? Py_NewRef(Py_None) : NULL;
}
