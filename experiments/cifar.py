"""CIFAR-10 in every form it comes in: the original archives, what is in them, or NumPy archives.

A folder holds ``train-0.npz``, ``train-1.npz``, … and ``test.npz`` (arrays ``x`` and ``y``), or the original
batches (``data_batch_1`` … with pickled arrays, or ``data_batch_1.bin`` …), or one of the two archives.
"""

import gzip
import io
import pickle
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError

SIDE, CLASSES = 32, 10
PIXELS = 3 * SIDE * SIDE
TRAINING, TEST = 50_000, 10_000
ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
FOLDERS = ("cifar-10-batches-py", "cifar-10-batches-bin")
WHERE = (
    f"get {ARCHIVES[0]} or {ARCHIVES[1]} from https://www.cs.toronto.edu/~kriz/cifar.html "
    "and give the file, or the folder with its batches, as --data"
)
_GZIP = b"\x1f\x8b"
_TRAINING = re.compile(r"data_batch_(\d+)(\.bin)?|train-(\d+)\.npz")
_TEST = re.compile(r"test_batch(\.bin)?|test\.npz")
_DAMAGED = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error, pickle.UnpicklingError)

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
        except _DAMAGED as error:
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


def check_complete(data: Cifar) -> None:
    """All of it, not a part: the experiments' numbers are about the whole dataset."""
    found = data.train_y.size, data.test_y.size
    if found != (TRAINING, TEST):
        raise ConfigError(
            f"{found[0]} training and {found[1]} test images are there, {TRAINING} and {TEST} are due; "
            f"{WHERE}"
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
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
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
    with np.load(io.BytesIO(raw)) as arrays:
        return arrays["x"], arrays["y"]


def _binary(raw: bytes) -> tuple[Pixels, Labels]:
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 1 + PIXELS)
    return _upright(rows[:, 1:]), rows[:, 0]


def _pickled(raw: bytes) -> tuple[Pixels, Labels]:
    batch = _Arrays(io.BytesIO(raw), encoding="bytes").load()
    return _upright(batch[b"data"]), np.array(batch[b"labels"], np.uint8)


def _upright(rows: Pixels) -> Pixels:
    """From all red, all green, all blue pixels to one colour after the other."""
    return np.ascontiguousarray(rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))


class _Arrays(pickle.Unpickler):
    """A pickle of arrays; anything else that it names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            "_reconstruct": np.empty(0).__reduce__()[0],
            "ndarray": np.ndarray,
            "dtype": np.dtype,
        }
        if module.split(".")[0] == "numpy" and name in allowed:
            return allowed[name]
        if (module, name) == ("_codecs", "encode"):
            return _encode
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding)
