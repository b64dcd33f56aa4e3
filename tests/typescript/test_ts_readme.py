"""The code in the package's README is typed as it stands, against the package's own types."""

import json
import re
import subprocess
from pathlib import Path

import machine
from runners import PACKAGE, built

BLOCKS = re.findall(r"```ts\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
#: What the reader has, and the README does not make.
GIVEN = """
declare const charter: string;
declare const announced: Uint8Array, vector: Uint8Array<ArrayBuffer>, task: Uint8Array<ArrayBuffer>;
declare const requests: AsyncIterable<Uint8Array>;
declare function send(reply: Uint8Array): Promise<void>;
export {};
"""


def test_the_code_compiles(tmp_path: Path):
    built("build/test/runner.js")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for place, block in enumerate(BLOCKS):
        (tmp_path / f"block{place}.ts").write_text(GIVEN + block)
    options = json.loads((PACKAGE / "tsconfig.json").read_text())["compilerOptions"]
    options |= {
        "noEmit": True,
        "noUnusedLocals": False,
        "rootDir": "/",
        "paths": {"ccesa": [str(PACKAGE / "dist" / "index.d.ts")]},
        "types": [str(PACKAGE / "node_modules" / "@types" / "node")],
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}))
    compiler = PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
    command = [machine.need("node"), str(compiler), "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == ""
    assert len(BLOCKS) == 4
