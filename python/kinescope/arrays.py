"""Arrays of other libraries through DLPack, and comparisons of arrays."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from . import _words
from .errors import ArgumentError

__all__ = ["Array", "ArrayComparison", "Tolerance", "compare_arrays", "to_numpy"]

Array = np.ndarray[Any, np.dtype[Any]]
Tolerance = Union[None, float, tuple[float, float]]

# Device types of DLPack whose memory the host can read.
_HOST_DEVICES = (1, 3, 11)


@dataclass(frozen=True)
class ArrayComparison:
    """A comparison of two arrays. It is true if they are the same within the tolerance.

    Attributes:
        elements: Number of elements.
        differing: Number of elements that differ by more than the tolerance.
        first: Index of the first of them, where the last dimension runs fastest, or `None`.
        largest: The largest finite distance of two elements, also of those within the tolerance.
        without_distance: Number of differing elements without a finite distance: one of the two is infinite, or not a
            number.
    """

    elements: int
    differing: int
    first: int | None
    largest: float
    without_distance: int = 0

    @property
    def same(self) -> bool:
        """Whether no element differs by more than the tolerance."""
        return self.differing == 0

    def __bool__(self) -> bool:
        return self.same

    def __str__(self) -> str:
        if self.same:
            return f"{self.elements} elements are the same; the largest difference is {self.largest:g}"
        where = f"the first is element {self.first}, the largest difference is {self.largest:g}"
        if self.without_distance:
            where += f" without {self.without_distance} where one of the two is infinite or not a number"
        return f"{self.differing} of {self.elements} elements differ: {where}"


def to_numpy(tensor: Any) -> Array:
    """Returns an array of another library in host memory, without a copy if it is there.

    Args:
        tensor: An array of NumPy, or an object with `__dlpack__` and `__dlpack_device__`, such as a tensor of PyTorch.
            A tensor of PyTorch or an array of CuPy in device memory is copied. Anything else is converted by NumPy.

    Raises:
        ArgumentError: The array is on a device that the host cannot read, or NumPy does not have its element type.
    """
    if isinstance(tensor, np.ndarray) or not hasattr(tensor, "__dlpack_device__"):
        try:
            return np.asarray(tensor)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"NumPy cannot make an array of this {type(tensor).__name__}: {error}") from error
    for name in ("detach", "cpu", "get"):
        # Tensors that are part of a gradient, or in device memory, have no DLPack capsule that NumPy takes.
        needed = name == "detach" or int(tensor.__dlpack_device__()[0]) not in _HOST_DEVICES
        if needed and hasattr(tensor, name):
            tensor = getattr(tensor, name)()
        if isinstance(tensor, np.ndarray):
            return tensor
    device = int(tensor.__dlpack_device__()[0])
    if device not in _HOST_DEVICES:
        raise ArgumentError(f"the array is on a device that the host cannot read (DLPack device type {device})")
    try:
        array: Array = np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"NumPy cannot take this array through DLPack: {error}") from error
    return array


def compare_arrays(expected: Any, got: Any, tolerance: Tolerance = None) -> ArrayComparison:
    """Compares two arrays by the rule of `kinescope replay --tolerance`.

    Two elements are the same if they are equal, if both are not a number, or if their distance is finite and at most the
    larger of the absolute limit and the relative limit times the expected magnitude. The parts of complex numbers are
    equal one by one, and their distance is that of the complex plane. Distances of integers are exact.

    Elements are compared in the order of their indices, the last one fastest. Shapes may differ in all but the order of
    the same sides.

    Args:
        expected: The expected array, as `to_numpy` takes it.
        got: The other array. If its elements are bytes, they are taken as elements of the expected type.
        tolerance: `None`: equal. A number: limit, absolute and relative. A tuple: absolute and relative limit.

    Raises:
        ArgumentError: The arrays have different numbers of elements, other element types, or elements that are not truth
            values, integers, real or complex numbers; or the tolerance is not valid.
    """
    absolute, relative = _limits(tolerance)
    wanted, other = _to_numbers(to_numpy(expected), "array"), to_numpy(got)
    if other.dtype == np.uint8 and wanted.dtype != np.uint8 and other.nbytes == wanted.nbytes:
        flat = np.ascontiguousarray(other).reshape(-1)
        # A byte of a device is true if it is not 0.
        other = flat != 0 if wanted.dtype.kind == "b" else flat.view(wanted.dtype)
    other = _to_numbers(other, "output")
    if other.size != wanted.size:
        raise ArgumentError(f"the array has {wanted.size} elements, the output has {other.size}")
    if other.dtype != wanted.dtype:
        raise ArgumentError(f"the array has elements of type {wanted.dtype}, the output of type {other.dtype}")
    sides, other_sides = ([side for side in array.shape if side != 1] for array in (wanted, other))
    if wanted.size and sides != other_sides and sorted(sides) == sorted(other_sides):
        shapes = f"the array has the shape {wanted.shape}, the output {other.shape}"
        raise ArgumentError(f"{shapes}: their sides are in another order (transpose one of them)")
    a, b = np.ravel(wanted), np.ravel(other)
    with np.errstate(all="ignore"):
        same = _are_equal(a, b)
        distance, limit = _measure(a, b, absolute, relative)
        seen = distance[np.isfinite(distance)]
        if absolute or relative:
            same |= np.isfinite(distance) & (distance <= limit)
    differing = np.flatnonzero(~same)
    return ArrayComparison(
        elements=int(a.size),
        differing=int(differing.size),
        first=int(differing[0]) if differing.size else None,
        largest=float(seen.max()) if seen.size else 0.0,
        without_distance=int(np.count_nonzero(~same & ~np.isfinite(distance))),
    )


def _to_numbers(array: Array, what: str) -> Array:
    """Returns an array of numbers in the byte order of this machine."""
    if array.dtype.kind not in "biufc":
        kinds = "truth values, integers, real or complex numbers"
        raise ArgumentError(f"the elements of the {what} are no numbers: they are of type {array.dtype} (expected {kinds})")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _are_equal(a: Array, b: Array) -> Array:
    """Returns which elements are equal, or both not a number, in each part."""
    if a.dtype.kind == "c":
        return _are_equal(a.real, b.real) & _are_equal(a.imag, b.imag)
    equal: Array = a == b
    return equal | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else equal


def _measure(a: Array, b: Array, absolute: float, relative: float) -> tuple[Array, Array]:
    """Returns the distance of each pair of elements, and the largest distance that is still the same."""
    if a.dtype.kind in "biu":
        # The difference modulo 2^64 of the larger and the smaller one is their distance, whatever their signs are.
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        low, high = (bound.astype(wide).view(np.uint64) for bound in (np.minimum(a, b), np.maximum(a, b)))
        signed = a.astype(wide)
        magnitude = np.where(signed < 0, -signed.view(np.uint64), signed.view(np.uint64))
        limit = np.maximum(absolute, relative * magnitude.astype(np.float64))
        # Numbers of 64 bits are not compared with a float, which has 53 bits.
        whole = np.where(limit < 2.0**64, limit, 0).astype(np.uint64)
        return high - low, np.where(limit < 2.0**64, whole, np.uint64(2**64 - 1))
    left = a.astype(np.result_type(a.dtype, np.float64))
    return np.abs(left - b), np.maximum(absolute, relative * np.abs(left))


def _limits(tolerance: Tolerance) -> tuple[float, float]:
    """Returns the absolute and the relative limit."""
    limits: tuple[Any, ...] = (0.0, 0.0) if tolerance is None else (tolerance, tolerance)
    if isinstance(tolerance, tuple):
        limits = tolerance
    try:
        valid = len(limits) == 2 and all(_is_number(limit) and 0 <= float(limit) < math.inf for limit in limits)
    except OverflowError:
        valid = False
    if not valid:
        expected = "a number, or a tuple of an absolute and a relative limit, finite and not negative"
        raise ArgumentError(f"{_words.describe(tolerance)} is no tolerance (expected {expected})")
    return float(limits[0]), float(limits[1])


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
