"""As much of CuPy as the kernel of the GPU uses, on the processor: its source is compiled by a C++ compiler.

So everything but CUDA itself runs in the tests of every machine.
"""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("c++")
uint32, float32 = np.uint32, np.float32


class Array(np.ndarray):
    """An array "on the device"."""

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__

    def get(self, out=None):
        found = np.array(self) if out is None else out
        found[...] = self
        return found


def asarray(array):
    return array if isinstance(array, Array) else np.array(array).view(Array)


def zeros(size, dtype):
    return np.zeros(size, dtype).view(Array)


class RawKernel:
    """One function, compiled for the processor; the grid covers the vector, and no more."""

    def __init__(self, code, name, options):
        self._defined = dict(option.removeprefix("-D").split("=") for option in options)
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "kernel.so"
            usual = ["-O1", "-w", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
            subprocess.run([COMPILER, *options, *usual], input=code.encode(), check=True)
            self._function = getattr(ctypes.CDLL(str(library)), name)

    def __call__(self, grid, block, arguments):
        threads, per_thread = int(self._defined["THREADS"]), 64 * int(self._defined["BLOCKS"])
        assert block == (threads,)
        assert 0 <= grid[0] * threads * per_thread - arguments[2] < threads * per_thread
        self._function(*map(_as_c, arguments))


def _as_c(argument):
    if isinstance(argument, Array):
        return ctypes.c_void_p(argument.ctypes.data)
    return {np.uint32: ctypes.c_uint, np.uint64: ctypes.c_ulonglong}[type(argument)](int(argument))
