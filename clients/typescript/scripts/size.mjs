// How large the package is in a page: bundled, minified, compressed. The README has these figures.

import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const NOBLE = ["@noble/*"];
const entries = {
  "everything, without @noble": { contents: 'export * from "./dist/index.js"', external: NOBLE },
  "Client alone, without @noble": { contents: 'export { Client } from "./dist/index.js"', external: NOBLE },
  "Participant alone, without @noble": { contents: 'export { Participant } from "./dist/index.js"', external: NOBLE },
  "everything, with @noble": { contents: 'export * from "./dist/index.js"', external: [] },
};

for (const [name, { contents, external }] of Object.entries(entries)) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: "." },
    bundle: true,
    format: "esm",
    minify: true,
    external,
    write: false,
  });
  const code = outputFiles[0].contents;
  const [plain, compressed] = [code, gzipSync(code)].map(({ length }) => `${(length / 1000).toFixed(1)} kB`);
  console.log(`${name}: ${plain}, ${compressed} compressed`);
}
