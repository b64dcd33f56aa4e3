/* Draws of noise: a number finds its place among the thresholds of a table, in integers. What is drawn stands in
   ccesa/privacy/table.py, and what the guide is in ccesa/privacy/quantizer.py. */
#include "arrays.h"
#include "module.h"

typedef struct {
    int grid_bits, shift;
    const void *guide, *origin, *high, *low;
    size_t phases, stride, thresholds;
} Table;

/* Whether a threshold is at most u. */
static int at_most(const Table *table, uint64_t place, uint64_t high, uint64_t low)
{
    const uint64_t found = load(table->high, place);
    return found < high || (found == high && load(table->low, place) <= low);
}

/* The first place from start on, before end, whose threshold is above u, or else the end. */
static uint64_t bisect(const Table *table, uint64_t start, uint64_t end, uint64_t high, uint64_t low)
{
    while (start < end) {
        const uint64_t middle = start + (end - start) / 2;
        if (at_most(table, middle, high, low))
            start = middle + 1;
        else
            end = middle;
    }
    return start;
}

/* So many draws ahead the memory is asked for what the guide says: large tables are far away. */
enum { AHEAD = 24 };

/* Where the guide says what u draws. Beyond its row if a word has more bits than the guide is made for. */
static size_t place_of(const Table *table, size_t phase, uint64_t high)
{
    return phase * table->stride + (size_t)(high >> table->shift);
}

static size_t phase_of(const Table *table, uint64_t centre)
{
    return (size_t)(centre & (table->phases - 1));
}

static void prefetch(const Table *table, uint64_t centre, uint64_t high)
{
    const uintptr_t guide = (uintptr_t)table->guide; /* a number: it may lead anywhere, and nothing is read */
    __builtin_prefetch((const void *)(guide + 4 * place_of(table, phase_of(table, centre), high)));
}

/* Whether all draws were made: no guide of ours leads out of its table. */
static int draw(const Table *table, const void *fine, const void *words, uint64_t *drawn, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const int64_t centre = (int64_t)load(fine, j);
        const uint64_t high = load(words, 2 * j);
        const size_t phase = phase_of(table, (uint64_t)centre), place = place_of(table, phase, high);
        if (j + AHEAD < count)
            prefetch(table, load(fine, j + AHEAD), load(words, 2 * (j + AHEAD)));
        if (high >> table->shift >= table->stride - 1)
            return 0;
        const int32_t least = load_short(table->guide, place);
        uint64_t found = (uint64_t)(int64_t)(least >> 1);
        if (least & 1) {
            const uint64_t origin = load(table->origin, phase);
            const uint64_t end = origin + (uint64_t)(int64_t)(load_short(table->guide, place + 1) >> 1);
            if (end > table->thresholds)
                return 0;
            found = bisect(table, origin + found, end, high, load(words, 2 * j + 1)) - origin;
        }
        drawn[j] = (uint64_t)(centre >> table->grid_bits) + found;
    }
    return 1;
}

enum { FINE, STREAM, DRAWN, GUIDE, ORIGIN, HIGH, LOW, ARRAYS };

static const Wanted WANTED[ARRAYS] = {
    [FINE] = {"fine", INT64, READ},     [STREAM] = {"words", UINT64, READ}, [DRAWN] = {"drawn", INT64, WRITE},
    [GUIDE] = {"guide", INT32, READ},   [ORIGIN] = {"origin", INT64, READ},
    [HIGH] = {"high", UINT64, READ},    [LOW] = {"low", UINT64, READ},
};

/* What is wrong, or NULL; fills in the table. */
static const char *wrong(const Py_buffer arrays[], Table *table)
{
    const size_t count = array_size(&arrays[FINE]), cells = array_size(&arrays[GUIDE]);
    if (table->grid_bits < 0 || table->grid_bits > 16 || table->shift < 0 || table->shift > 63)
        return "a grid has 0 to 16 bits, and a shift 0 to 63";
    table->phases = (size_t)1 << table->grid_bits;
    table->stride = cells / table->phases;
    table->thresholds = array_size(&arrays[HIGH]);
    if (array_size(&arrays[DRAWN]) != count || array_size(&arrays[STREAM]) != 2 * count)
        return "there must be two words and one draw for each centre";
    if (cells % table->phases || table->stride < 2 || array_size(&arrays[ORIGIN]) != table->phases)
        return "the guide must have rows of the same length, one for each phase";
    if (array_size(&arrays[LOW]) != table->thresholds)
        return "there must be a low word for each high one";
    table->guide = arrays[GUIDE].buf;
    table->origin = arrays[ORIGIN].buf;
    table->high = arrays[HIGH].buf;
    table->low = arrays[LOW].buf;
    return NULL;
}

static PyObject *draw_checked(const Py_buffer arrays[], Table *table)
{
    const char *found = wrong(arrays, table);
    if (!found) {
        int done;
        Py_BEGIN_ALLOW_THREADS
        done = draw(table, arrays[FINE].buf, arrays[STREAM].buf, arrays[DRAWN].buf, array_size(&arrays[FINE]));
        Py_END_ALLOW_THREADS
        if (done)
            Py_RETURN_NONE;
        found = "the guide leads out of the table";
    }
    PyErr_SetString(PyExc_ValueError, found);
    return NULL;
}

PyObject *draw_noise(PyObject *module, PyObject *arguments)
{
    PyObject *lent[ARRAYS];
    Py_buffer arrays[ARRAYS];
    Table table;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOiiOOOO:draw_noise", &lent[FINE], &lent[STREAM], &lent[DRAWN],
                          &table.grid_bits, &table.shift, &lent[GUIDE], &lent[ORIGIN], &lent[HIGH], &lent[LOW]))
        return NULL;
    if (!arrays_take(lent, arrays, WANTED, ARRAYS))
        return NULL;
    PyObject *result = draw_checked(arrays, &table);
    arrays_release(arrays, ARRAYS);
    return result;
}
