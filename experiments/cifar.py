"""CIFAR-10 in every form it comes in: the original archives, what is in them, or NumPy archives.

A folder holds ``train-0.npz``, ``train-1.npz``, … and ``test.npz`` (arrays ``x`` and ``y``), or the original
batches (``data_batch_1`` … with pickled arrays, or ``data_batch_1.bin`` …), or one of the two archives.
"""

import gzip
import io
import math
import pickle
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from experiments.damaged import DAMAGED

SIDE, CLASSES = 32, 10
PIXELS = 3 * SIDE * SIDE
TRAINING, TEST = 50_000, 10_000
ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
FOLDERS = ("cifar-10-batches-py", "cifar-10-batches-bin")
WHERE = (
    f"get {ARCHIVES[0]} or {ARCHIVES[1]} from https://www.cs.toronto.edu/~kriz/cifar.html "
    "and put it, or the folder with its batches, into cifar10 in the folder of the data (--data or DATA=)"
)
_GZIP = b"\x1f\x8b"
_TRAINING = re.compile(r"data_batch_(\d+)(\.bin)?|train-(\d+)\.npz")
_TEST = re.compile(r"test_batch(\.bin)?|test\.npz")

Pixels = NDArray[np.uint8]
Labels = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cifar:
    """Images as (number, height, width, channel), and their classes."""

    train_x: Pixels
    train_y: Labels
    test_x: Pixels
    test_y: Labels

    def first(self, training: int, test: int) -> "Cifar":
        """A small one, for a quick run."""
        return Cifar(
            train_x=self.train_x[:training],
            train_y=self.train_y[:training],
            test_x=self.test_x[:test],
            test_y=self.test_y[:test],
        )


def load(path: Path) -> Cifar:
    """The images in this folder or archive; ConfigError says what is missing, and where to get it.

    In a folder of several data sets they are in its folder ``cifar10``.
    """
    if (path / "cifar10").is_dir():
        path = path / "cifar10"
    train: dict[int, tuple[Pixels, Labels]] = {}
    test: tuple[Pixels, Labels] | None = None
    for name, read in _files(path):
        place = _TRAINING.fullmatch(name)
        try:
            if place:
                train[int(place[1] or place[3])] = _batch(name, read())
            elif _TEST.fullmatch(name):
                test = _batch(name, read())
        except (*DAMAGED, pickle.UnpicklingError) as error:
            raise ConfigError(f"{name} in {path} is damaged ({error}); {WHERE}") from error
    if test is None or not train:
        raise ConfigError(f"there is no complete CIFAR-10 in {path}; {WHERE}")
    numbers = sorted(train)
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ConfigError(f"of the training batches in {path} only {numbers} are there; {WHERE}")
    return Cifar(
        train_x=np.concatenate([train[number][0] for number in numbers]),
        train_y=np.concatenate([train[number][1] for number in numbers]),
        test_x=test[0],
        test_y=test[1],
    )


def part(path: Path, training: int, test: int) -> Cifar:
    """So many images, for a quick run; where both numbers are 0 all of them, and none may be missing."""
    data = load(path)
    if training or test:
        return data.first(training, test)
    check_complete(data)
    return data


def check_complete(data: Cifar) -> None:
    """All of it, not a part: the experiments' numbers are about the whole dataset."""
    found = data.train_y.size, data.test_y.size
    if found != (TRAINING, TEST):
        raise ConfigError(
            f"{found[0]} training and {found[1]} test images are there, {TRAINING} and {TEST} are due; {WHERE}"
        )


def _files(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names of all files and functions that read them, from a folder or an archive."""
    if path.is_file():
        yield from _members(path)
        return
    if not path.is_dir():
        raise ConfigError(f"there is no {path}; {WHERE}")
    for folder in (path, *(path / name for name in FOLDERS)):
        files = [file for file in sorted(folder.glob("*")) if file.is_file()]
        if any(_TRAINING.fullmatch(file.name) or _TEST.fullmatch(file.name) for file in files):
            yield from ((file.name, file.read_bytes) for file in files)
            return
    for archive in (path / name for name in ARCHIVES):
        if archive.is_file():
            yield from _members(archive)
            return


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    try:
        raw = path.read_bytes()
        whole = gzip.decompress(raw) if raw[:2] == _GZIP else raw  # all of it, so that its checksum counts
        with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
            for member in archive:
                opened = archive.extractfile(member) if member.isfile() else None
                if opened is not None:
                    yield Path(member.name).name, opened.read
    except (*DAMAGED, tarfile.TarError) as error:
        raise ConfigError(f"{path} is damaged, or no archive ({error}); {WHERE}") from error


def _batch(name: str, raw: bytes) -> tuple[Pixels, Labels]:
    read = _numpy if name.endswith(".npz") else _binary if name.endswith(".bin") else _pickled
    x, y = read(raw)
    if x.dtype != np.uint8 or x.shape != (y.size, SIDE, SIDE, 3) or y.ndim != 1:
        raise ValueError(f"images of shape {x.shape} and {x.dtype} for {y.size} labels")
    if y.size == 0 or int(y.max()) >= CLASSES:
        raise ValueError("labels lie in 0..9, and there is at least one")
    return x, y


def _numpy(raw: bytes) -> tuple[Pixels, Labels]:
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        return arrays["x"], arrays["y"]


def _binary(raw: bytes) -> tuple[Pixels, Labels]:
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 1 + PIXELS)
    return _upright(rows[:, 1:]), rows[:, 0]


def _pickled(raw: bytes) -> tuple[Pixels, Labels]:
    batch = _Arrays(io.BytesIO(raw), encoding="bytes").load()
    data, labels = (batch[name] if isinstance(batch, dict) else None for name in (b"data", b"labels"))
    if not isinstance(data, _Pickled) or not isinstance(labels, list):
        raise ValueError("no batch: an array of images and a list of labels are due")
    return _upright(data.array()), np.array(labels, np.uint8)


def _upright(rows: Pixels) -> Pixels:
    """From all red, all green, all blue pixels to one colour after the other."""
    return np.ascontiguousarray(rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))


class _Pickled:
    """An array of bytes as a pickle describes it. Stands in for numpy's own class, which trusts its input."""

    def __init__(self) -> None:
        self._state: Any = None

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def array(self) -> Pixels:
        _, shape, kind, by_columns, raw = self._state
        if not isinstance(kind, _Kind) or kind.name not in ("u1", b"u1") or not isinstance(raw, bytes):
            raise ValueError("an array of something else than bytes")
        if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(raw):
            raise ValueError(f"{len(raw)} bytes for an array of shape {shape}")
        return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _Kind:
    """The type of an array's elements: a name, and details that bytes do not have."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        pass


def _reconstruct(*_: Any) -> _Pickled:
    return _Pickled()


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding)


#: All that the original archive names, and what numpy and Python have renamed it to since.
_NAMED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Pickled,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
}


# The one written in Python: a wrong number in a damaged pickle makes the other fill all memory.
class _Arrays(pickle._Unpickler):  # noqa: SLF001  # it has no public name
    """A pickle of arrays of bytes; anything else that it names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _NAMED[module, name]
