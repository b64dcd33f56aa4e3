"""Takes single checks out of source files, to see whether any vector notices.

A mutant is a file with one refusal less: a ``raise`` or a call of ``refuse`` that does nothing, or a refusal
that has lost one of its reasons. ``python tests/support/mutants.py`` tries those of the package, in processes
of their own, which takes many minutes; ``test_mutants.py`` tries those of the second implementation.
"""

import ast
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def mutants(source):
    """Each with the line of its refusal, what it lost, and its tree."""
    for number, node in enumerate(ast.walk(ast.parse(source))):
        if _refuses(node):
            yield node.lineno, ast.unparse(node), _changed(source, number, lambda _: ast.Pass())
        if isinstance(node, ast.If) and _refuses(node.body[-1]):
            yield from _weaker(source, number, node)


def _refuses(node):
    """Either a ``raise``, or a statement that calls the second implementation's ``refuse``."""
    call = node.value if isinstance(node, ast.Expr) else None
    name = call.func if isinstance(call, ast.Call) else None
    return isinstance(node, ast.Raise) or (isinstance(name, ast.Name) and name.id == "refuse")


def _weaker(source, number, node):
    """A refusal with several reasons, one reason fewer."""
    test, turned = node.test, False
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, turned = test.operand, True
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if turned else ast.Or):
        for place, reason in enumerate(test.values):
            yield node.lineno, ast.unparse(reason), _changed(source, number, _without(place, turned))
    if turned and isinstance(test, ast.Compare) and len(test.ops) > 1:
        for place in range(len(test.ops)):
            yield (node.lineno, f"{ast.unparse(test)}, part {place}", _changed(source, number, _unlinked(place)))


def _without(place, turned):
    def change(node):
        test = node.test.operand if turned else node.test
        del test.values[place]
        rest = test if len(test.values) > 1 else test.values[0]
        node.test = ast.UnaryOp(ast.Not(), rest) if turned else rest
        return node

    return change


def _unlinked(place):
    """Of a chain of comparisons one link fewer, at one of its ends."""

    def change(node):
        test = node.test.operand
        values = [test.left, *test.comparators]
        del test.ops[place], values[0 if place == 0 else place + 1]
        test.left, test.comparators = values[0], values[1:]
        return node

    return change


def _changed(source, number, change):
    tree = ast.parse(source)  # sooner done than a copy
    node = next(node for place, node in enumerate(ast.walk(tree)) if place == number)
    parent = next(one for one in ast.walk(tree) if node in ast.iter_child_nodes(one))
    new = ast.copy_location(change(node), node)
    for name, value in ast.iter_fields(parent):
        if isinstance(value, list) and node in value:
            value[value.index(node)] = new
        elif value is node:
            setattr(parent, name, new)
    return ast.fix_missing_locations(tree)


# The second implementation, in this process


SECOND = (
    *("second_config", "second_lists", "second_messages", "second_hybrid", "second_client"),
    *("second_quantizer", "second_noise", "second_series", "second_assisted"),
)
#: Which vectors are most likely to notice, for the sake of time.
FIRST = {
    "second_config": ("configurations", "charters", "assisted_texts", "joining", "exchanges"),
    "second_lists": ("lists", "charters", "assisted_texts", "signatures", "configurations", "joining", "exchanges"),
    "second_messages": ("messages", "assisted_refused", "sharing", "trees", "exchanges", "active_refused"),
    "second_client": ("joining", "exchanges", "active_refused", "many"),
    "second_quantizer": ("quantizers", "noises"),
    "second_noise": ("noises",),
    "second_series": ("series", "assisted_series"),
    "second_assisted": ("helpers_refused", "assisted_refused", "assisted_hybrid", "assisted_rounds"),
    "second_hybrid": ("hybrid", "hybrid_rounds"),
}


def path_of(name):
    return ROOT / "tests" / "second" / f"{name}.py"


@functools.cache
def code_of(name):
    """What a file of the second implementation is compiled to, once for all mutants."""
    return compile(path_of(name).read_text(), str(path_of(name)), "exec")


def survivors_of_second(name):
    """Refusals of this file that can be taken away without a vector noticing."""
    path = path_of(name)
    for line, what, tree in mutants(path.read_text()):
        if not noticed(name, compile(tree, str(path), "exec")):
            yield f"{path.name}:{line}: {what}"


def noticed(name, code):
    every = (*SECOND, "second_assisted_replay", "second_replay")
    kept = {module: sys.modules.pop(module, None) for module in every}
    try:
        for each in every:
            module = sys.modules[each] = types.ModuleType(each)
            module.__file__ = str(path_of(each))
            exec(code if each == name else code_of(each), vars(module))  # noqa: S102 - our own files, one check less
        replay = sys.modules["second_replay"]
        order = [*FIRST[name], *(each for each in replay.SECTIONS if each not in FIRST[name])]
        return next(replay.differences(order), None) is not None
    except Exception:  # whatever it stumbles over, the vectors have noticed
        return True
    finally:
        for module, value in kept.items():
            sys.modules.pop(module, None)
            if value is not None:
                sys.modules[module] = value


# The package, each mutant in a process of its own


#: What a client reads and checks. A test that takes minutes and files that others move: so this is no test.
PACKAGE = (
    *("words", "wire", "parts", "graphs/thresholds"),
    *(f"agreement/{name}" for name in ("identity", "config", "charter", "floor", "toml")),
    *(f"values/{name}" for name in ("fields", "digits", "quantize")),
    *(f"crypto/{name}" for name in ("primitives", "key_agreement", "shamir", "merkle")),
    *(f"protocol/{name}" for name in ("messages", "spending", "client", "dealing", "masking", "parties")),
    *(f"protocol/{name}" for name in ("envelope", "series_client", "curious_client", "active_client")),
    *(f"protocol/{name}" for name in ("assisted_client", "assisted_helper", "assisted_server", "submission")),
)
TESTS = (
    *("test_vectors_refused", "test_vectors", "test_vectors_active", "test_vector_rounds"),
    *("test_vector_series", "test_vectors_hybrid", "test_vectors_assisted"),
)


class Mutated(importlib.abc.SourceLoader):
    """Loads one module with one check less."""

    def __init__(self, path, code):
        self.path, self.code = path, code

    def get_filename(self, fullname):
        return self.path

    def get_data(self, path):
        return Path(path).read_bytes()

    def get_code(self, fullname):
        return self.code

    def find_spec(self, name, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.origin != self.path:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)


def noticed_in_package(path, code):
    """Run the tests of the vectors with this code in place of that file's."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    sys.meta_path.insert(0, Mutated(str(path), code))
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    chosen = [str(ROOT / "tests" / "vectors" / f"{name}.py") for name in TESTS]
    skipped = "not test_the_second and not test_files and not test_check"
    options = ["-x", "-q", "-p", "no:cacheprovider", "-k", skipped]
    os._exit(int(pytest.main([*options, *chosen])))


def main(names):
    """Say what nobody notices, of these files of the package."""
    print(f"as it is: {'NOTICED' if noticed_in_package(Path(os.devnull), None) else 'nothing to notice'}")
    for name in names:
        path, count = ROOT / "src" / "ccesa" / f"{name}.py", 0
        for line, what, tree in mutants(path.read_text()):
            count += 1
            if not noticed_in_package(path, compile(tree, str(path), "exec")):
                print(f"{name}.py:{line}: {what}", flush=True)
        print(f"{name}.py: {count} tried", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or PACKAGE)
