"""Pages that are followed from top to bottom in an empty folder, as a reader would.

Blocks with a title are files. A ``text`` block after one of Python is what it prints, and so are the lines
after a command; ``…`` stands for anything. Commands that do not end by themselves, or change the machine, are
only read.
"""

import contextlib
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import commands

BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
LOOP = re.compile(r"for i in \$\(seq -w 1 (\d+)\); do (.*); done")
#: Bytes that are others whenever something is run: in hexadecimal, as a digest, as a key.
RANDOM = re.compile(r"\b(?:[0-9a-f]{4}\s+){15}[0-9a-f]{4}\b|\b[0-9a-f]{8}\b|[\w+/]{43}=")
#: Commands that are not run.
NOT_RUN = re.compile(r"(?:ccesa )?(?:\.|cd|demo|export|flwr|for|git|join|make|pip|python3|serve|audit|results) ")


def follow(page: Path) -> None:
    """Do what a page says in the current folder."""
    names, printed = {}, None
    for kind, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            Path(title).write_text(text, encoding="utf-8")
        elif kind == "text" and printed is not None:
            assert fits(printed, text), printed
        elif kind == "console":
            for command, expected in commands_in(text):
                run(command, expected)
        runs = kind == "python" and not title
        printed = output_of(lambda text=text: exec(text, names)) if runs else None  # noqa: S102 - our own words


def output_of(call) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        call()
    return out.getvalue()


def fits(printed: str, shown: str) -> bool:
    """Whether something was printed as it is shown, up to spaces at the ends of lines and random bytes."""
    printed, shown = (
        RANDOM.sub("(random)", re.sub(r" +$", "", one.strip(), flags=re.MULTILINE)) for one in (printed, shown)
    )
    return bool(re.fullmatch(re.escape(shown).replace("…", ".*"), printed, re.DOTALL))


def commands_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with what is shown after it; those of a loop one by one."""
    for command, expected in COMMAND.findall(text):
        if loop := LOOP.fullmatch(command):
            yield from ((loop[2].replace("$i", f"{i + 1:02}"), expected) for i in range(int(loop[1])))
        else:
            yield command, expected


def run(command: str, expected: str) -> None:
    """Run a command, unless it goes on for ever or changes the machine."""
    command, _, file = command.partition(" >> ")
    if NOT_RUN.match(command):
        return
    program, *arguments = shlex.split(command, comments=True)
    if program == "python":
        printed = output_of(lambda: runpy.run_path(arguments[0], run_name="__main__"))
    else:
        assert program == "ccesa", command
        done = commands.run(*arguments)
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(printed)
    assert not expected or fits(printed, expected), printed
