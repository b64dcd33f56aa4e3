/**
 * A WebAssembly module that adds 16 bytes at a time, written out below instruction by instruction. It has one memory,
 * in which the sum comes first and the stream after it, and a function for each size of words and each sign:
 *
 *     (func (param $sum i32) (param $stream i32) (param $end i32)
 *       (loop
 *         (v128.store (local.get $sum) (i32x4.add (v128.load (local.get $sum)) (v128.load (local.get $stream))))
 *         ... the same at offsets 16, 32 and 48 ...
 *         (local.set $stream (i32.add (local.get $stream) (i32.const 64)))
 *         (br_if 0 (i32.lt_u (local.tee $sum (i32.add (local.get $sum) (i32.const 64))) (local.get $end)))))
 */

import type { Bits, Sum } from "./adding.js";

const PAGE = 1 << 16;
/** After the prefix 0xfd of vector instructions: i8x16, i16x8, i32x4 and i64x2 `.add` and `.sub`. */
const INSTRUCTIONS: Readonly<Record<`${1 | -1} ${Bits}`, readonly number[]>> = {
  "1 8": [0x6e],
  "-1 8": [0x71],
  "1 16": [0x8e, 0x01],
  "-1 16": [0x91, 0x01],
  "1 32": [0xae, 0x01],
  "-1 32": [0xb1, 0x01],
  "1 64": [0xce, 0x01],
  "-1 64": [0xd1, 0x01],
};
type Name = keyof typeof INSTRUCTIONS;

const [SUM, STREAM, END] = [0, 1, 2];
const I32 = 0x7f;
const get = (local: number): number[] => [0x20, local];
const load = (local: number, offset: number): number[] => [...get(local), 0xfd, 0x00, 4, offset]; // v128.load, align 16
const further = (local: number): number[] => [...get(local), 0x41, 0xc0, 0x00, 0x6a]; // i32.const 64, i32.add

/** Numbers as the module has them, seven bits to a byte. */
function leb(x: number): number[] {
  return x < 0x80 ? [x] : [(x & 0x7f) | 0x80, ...leb(x >>> 7)];
}

const sized = (content: readonly number[]): number[] => [...leb(content.length), ...content];
const list = (items: readonly (readonly number[])[]): number[] => [...leb(items.length), ...items.flat()];
const section = (id: number, items: readonly (readonly number[])[]): number[] => [id, ...sized(list(items))];
const text = (name: string): number[] => sized(Array.from(name, (character) => character.charCodeAt(0)));

function body(instruction: readonly number[]): number[] {
  const steps = [0, 16, 32, 48].flatMap((offset) => [
    ...[...get(SUM), ...load(SUM, offset), ...load(STREAM, offset)],
    ...[0xfd, ...instruction, 0xfd, 0x0b, 4, offset], // the addition, v128.store
  ]);
  return sized([
    ...[0x00, 0x03, 0x40, ...steps], // no locals; loop
    ...[...further(STREAM), 0x21, STREAM, ...further(SUM), 0x22, SUM, ...get(END), 0x49], // set, tee, i32.lt_u
    ...[0x0d, 0x00, 0x0b, 0x0b], // br_if 0, end of the loop, end
  ]);
}

/** Return the module for a sum and a stream of this many bytes each. */
function moduleBytes(piece: number): Uint8Array<ArrayBuffer> {
  const names = Object.keys(INSTRUCTIONS) as Name[];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00], // "\0asm", version 1
    ...section(1, [[0x60, ...list([[I32], [I32], [I32]]), ...list([])]]), // one type: three numbers, no result
    ...section(
      3,
      names.map(() => [0x00]),
    ), // every function is of that type
    ...section(5, [[0x00, ...leb((2 * piece) / PAGE)]]), // the memory, in pages
    ...section(7, [[...text("memory"), 0x02, 0x00], ...names.map((name, at) => [...text(name), 0x00, at])]),
    ...section(
      10,
      names.map((name) => body(INSTRUCTIONS[name])),
    ),
  ]);
}

type Exports = Record<Name, (sum: number, stream: number, end: number) => void> & { memory: WebAssembly.Memory };
let compiled: Promise<WebAssembly.Module | undefined> | undefined;

/** Return a sum of this many bytes, or undefined if WebAssembly is missing, too old, or forbidden to the page. */
export async function vectorSum(piece: number): Promise<Sum | undefined> {
  compiled ??= compile(piece);
  const module = await compiled;
  if (!module) {
    return undefined;
  }
  const { memory, ...functions } = (await WebAssembly.instantiate(module)).exports as unknown as Exports;
  const bytes = new Uint8Array(memory.buffer);
  return {
    piece: bytes.subarray(0, piece),
    add(stream, bits, sign) {
      bytes.set(stream, piece);
      functions[`${sign} ${bits}`](0, piece, stream.length); // the last step may run on: nobody reads that far
    },
    wipe: () => bytes.fill(0),
  };
}

async function compile(piece: number): Promise<WebAssembly.Module | undefined> {
  try {
    return await WebAssembly.compile(moduleBytes(piece));
  } catch {
    return undefined;
  }
}
