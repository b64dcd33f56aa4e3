/** The numbers that a table becomes, and their order (16.2). */

import { type CategoryColumn, labelsOf, type NumberColumn, type Schema, stepsOf } from "./schema.js";

/** Bits of a digit: sums of 2^20 of them stay within a word. */
export const DIGIT_BITS = 43;

/** Something that is counted in every group. */
export interface Quantity {
  readonly column: string | null;
  readonly kind: "records" | "present" | "clipped" | "total" | "square" | "bins" | "values";
  /** Its numbers in one group. */
  readonly size: number;
  /** The most that a record adds to one of them. */
  readonly largest: bigint;
}

/** Return R of a column: how many steps there are from its lower to its upper bound. */
export function rangeOf({ lower, upper, places, name }: NumberColumn): bigint {
  return stepsOf(upper, places, name) - stepsOf(lower, places, name);
}

function* ofNumber(column: NumberColumn, exact: boolean): Generator<Quantity> {
  const has = (...measures: readonly string[]): boolean => column.measures.some((each) => measures.includes(each));
  const range = rangeOf(column);
  const one = { column: column.name, size: 1, largest: 1n } as const;
  yield { ...one, kind: "present" };
  if (exact) {
    yield { ...one, kind: "clipped" };
  }
  if (has("sum", "mean", "variance")) {
    yield { ...one, kind: "total", largest: range };
  }
  if (has("variance")) {
    yield { ...one, kind: "square", largest: range ** 2n };
  }
  if (has("histogram", "quantiles")) {
    yield { ...one, kind: "bins", size: column.edges.length + 1 };
  }
}

/** Return the quantities of a schema, in order. */
export function quantitiesOf({ numbers, categories, groupBy, privacyUnit }: Schema): readonly Quantity[] {
  return [
    { column: null, kind: "records", size: 1, largest: 1n },
    ...numbers.flatMap((column) => [...ofNumber(column, privacyUnit === "none")]),
    ...categories
      .filter(({ name }) => !groupBy.includes(name))
      .map(
        (category): Quantity => ({
          column: category.name,
          kind: "values",
          size: labelsOf(category).length,
          largest: 1n,
        }),
      ),
  ];
}

/** Return the categories by which a schema groups, in its order. */
export function groupsBy({ groupBy, categories }: Schema): readonly CategoryColumn[] {
  return groupBy.map((name) => categories.find((category) => category.name === name)!);
}

/** Return how many groups there are. */
export function groupCount(schema: Schema): number {
  return groupsBy(schema).reduce((groups, category) => groups * labelsOf(category).length, 1);
}

/** Return the labels of a group; the last category runs fastest. */
export function groupLabels(schema: Schema, group: number): readonly string[] {
  let rest = group;
  return groupsBy(schema)
    .toReversed()
    .map((category) => {
      const labels = labelsOf(category);
      const place = rest % labels.length;
      rest = Math.floor(rest / labels.length);
      return labels[place]!;
    })
    .reverse();
}

/** Return how many numbers a table becomes: d of 16.3. */
export function dimensionOf(schema: Schema): number {
  return groupCount(schema) * quantitiesOf(schema).reduce((sum, { size }) => sum + size, 0);
}

/** Return how many digits to the base 2^43 the numbers of a quantity have. */
export function digitsOf({ largest }: Quantity, { maxRecords }: Schema): number {
  return Math.ceil((BigInt(maxRecords) * largest).toString(2).length / DIGIT_BITS);
}

/** Return the words of a vector: the length of its rounds. */
export function schemaLength(schema: Schema): number {
  if (schema.privacyUnit === "record") {
    return dimensionOf(schema);
  }
  const groups = groupCount(schema);
  return quantitiesOf(schema).reduce((sum, each) => sum + groups * each.size * digitsOf(each, schema), 0);
}
