"""The AT&T Database of Faces: as it was published (s1/1.pgm … s40/10.pgm) or as one att_faces.npz."""

import io
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from experiments.damaged import DAMAGED

Images = NDArray[np.float64]

PERSONS, SHOTS = 40, 10

SOURCE = (
    "The AT&T Database of Faces (Samaria and Harter, 1994) is at "
    "https://www.kaggle.com/kasikrit/att-database-of-faces: unpack it so that DATA/s1/1.pgm exists, "
    "or put att_faces.npz (arrays images, person, shot) into DATA"
)
_HEADER = re.compile(rb"P5\s+(?:#[^\n]*\s+)*(\d+)\s+(?:#[^\n]*\s+)*(\d+)\s+(?:#[^\n]*\s+)*(\d+)\s")


@dataclass(frozen=True, eq=False)
class Faces:
    """``images[person, shot]`` is one photograph, rows by columns, from 0 (black) to 1 (white)."""

    images: Images

    @property
    def persons(self) -> int:
        return self.images.shape[0]

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a photograph."""
        return self.images.shape[2], self.images.shape[3]

    def smaller(self, factor: int) -> "Faces":
        """Means over blocks of factor by factor pixels; what does not fill a block is cut off."""
        height, width = (side // factor for side in self.size)
        cut = self.images[:, :, : height * factor, : width * factor]
        return Faces(cut.reshape(*cut.shape[:2], height, factor, width, factor).mean(axis=(3, 5)))


def load(data: Path) -> Faces:
    """From the folder of the data sets, in either form; ConfigError says what is missing or damaged."""
    for folder in (data, data / "att_faces"):
        if (folder / "s1").is_dir():
            return _from_tree(folder)
    packed = data / "att_faces.npz"
    if not packed.is_file():
        raise ConfigError(f"no faces in {data}: neither s1/1.pgm nor att_faces.npz. {SOURCE}")
    return _from_npz(packed)


def whole(data: Path, quick: bool) -> Faces:
    """The same, and unless it is for a quick run nobody and no photograph may be missing."""
    found = load(data)
    if not quick and found.images.shape[:2] != (PERSONS, SHOTS):
        persons, shots = found.images.shape[:2]
        raise _damaged(data, f"{persons} persons with {shots} photographs, {PERSONS} with {SHOTS} are due")
    return found


def _from_npz(path: Path) -> Faces:
    try:
        # From memory: of a damaged file numpy forgets to close what it opened.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            images, person, shot = arrays["images"], arrays["person"], arrays["shot"]
    except DAMAGED as error:
        raise _damaged(path, str(error)) from error
    if images.ndim != 3 or images.dtype != np.uint8 or not person.shape == shot.shape == images.shape[:1]:
        raise _damaged(path, f"images {images.dtype}{images.shape}, person {person.shape}, shot {shot.shape}")
    persons, shots = len(np.unique(person)), len(np.unique(shot))
    order = np.lexsort((shot, person))
    grid = np.stack([person[order], shot[order]])
    if not np.array_equal(grid, np.indices((persons, shots)).reshape(2, -1)):
        raise _damaged(path, "some photographs are missing or there twice")
    return Faces(images[order].reshape(persons, shots, *images.shape[1:]) / 255.0)


def _from_tree(folder: Path) -> Faces:
    persons = len([found for found in folder.glob("s*") if re.fullmatch(r"s\d+", found.name)])
    # The most that anybody has: a photograph that is missing is missed, whoever lacks it.
    numbers = [found.stem for found in folder.glob("s*/*.pgm") if re.fullmatch(r"[1-9]\d*", found.stem)]
    shots = max(map(int, numbers), default=0)
    if shots == 0:
        raise _damaged(folder / "s1", "no .pgm files")
    images: list[NDArray[np.uint8]] = []
    for person, shot in itertools.product(range(1, persons + 1), range(1, shots + 1)):
        path = folder / f"s{person}" / f"{shot}.pgm"
        images.append(_pgm(path))
        if images[-1].shape != images[0].shape:
            raise _damaged(path, f"{images[-1].shape} pixels where the others have {images[0].shape}")
    return Faces(np.stack(images).reshape(persons, shots, *images[0].shape) / 255.0)


def _pgm(path: Path) -> NDArray[np.uint8]:
    """A binary grey map of 8 bits."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _damaged(path, str(error)) from error
    header = _HEADER.match(raw)
    if header is None:
        raise _damaged(path, "no binary PGM (P5)")
    width, height, largest = map(int, header.groups())
    pixels = raw[header.end() :]
    if largest != 255 or not width * height == len(pixels) > 0:
        raise _damaged(path, f"{len(pixels)} bytes for {width} x {height} pixels up to {largest}")
    return np.frombuffer(pixels, np.uint8).reshape(height, width)


def _damaged(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{path} cannot be used: {what}. {SOURCE}")
