"""Commands as users have them, as processes, without the price of a start.

One process has imported the commands, and forks for each. What it has imported is what ``ccesa`` itself
imports before it reads its arguments: a command that forgets an import fails here, too. Tests of the start,
and of what may differ from start to start (the order of sets), have ``fresh`` processes.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

FRESH = [str(Path(sys.executable).with_name("ccesa"))]
#: By program, the module whose ``main`` it is.
PROGRAMS = {"ccesa": "ccesa.cli", "attacks": "attacks.__main__"}
SECONDS = 120  # then a command is killed


def fresh(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``ccesa`` in a process that starts anew."""
    command = [*FRESH, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, encoding="utf-8")


def run(
    *arguments: object, program: str = "ccesa", cwd: Path | None = None, umask: int = 0o022
) -> subprocess.CompletedProcess[str]:
    """Run a program with these arguments; its output goes to files, its input is empty."""
    words = [program, *map(str, arguments)]
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        order = {"words": words, "files": [os.devnull, out.name, err.name], "umask": umask}
        started = {"cwd": str(cwd or Path.cwd()), "environment": dict(os.environ)}
        status = _asked(json.dumps(order | started))
        said = [Path(one.name).read_text(encoding="utf-8") for one in (out, err)]
    return subprocess.CompletedProcess(words, status, *said)


def _asked(order: str) -> int:
    forker = _forker()
    print(order, file=forker.stdin, flush=True)
    return int(forker.stdout.readline())


@cache
def _forker() -> subprocess.Popen[str]:
    """The process that forks; it ends when nothing more can come."""
    forker = subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads should not fork
        start_new_session=True,  # Ctrl-C is for the tests
    )
    atexit.register(forker.communicate)
    return forker


def _fork_for_each() -> None:
    import ccesa.cli.app  # noqa: F401 - for the children

    sys.path.append(str(Path(__file__).parents[2]))  # for attacks/
    gc.freeze()  # a child that ends need not visit all of this
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the answer


def _become(words: list[str], files: list[str], umask: int, cwd: str, environment: dict[str, str]) -> None:
    """Be the command that was asked for, to the end of this process."""
    for stream, name in enumerate(files):
        os.dup2(os.open(name, os.O_RDWR), stream)
    os.chdir(cwd)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    signal.alarm(SECONDS)
    importlib.import_module(PROGRAMS[words[0]]).main()


if __name__ == "__main__":
    _fork_for_each()
