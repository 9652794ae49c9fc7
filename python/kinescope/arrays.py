"""Arrays of other libraries through DLPack, and comparisons of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import numpy as np

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
        first: Index of the first of them in the order of memory, or `None`.
        largest: The largest absolute difference of two elements, also of those within the tolerance.
    """

    elements: int
    differing: int
    first: int | None
    largest: float

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
        return np.asarray(tensor)
    for name, call in (("detach", True), ("cpu", True), ("get", True)):
        # Tensors that are part of a gradient, or in device memory, have no DLPack capsule that NumPy takes.
        needed = name == "detach" or int(tensor.__dlpack_device__()[0]) not in _HOST_DEVICES
        if call and needed and hasattr(tensor, name):
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


def compare_arrays(expected: Any, got: Array, tolerance: Tolerance = None) -> ArrayComparison:
    """Compares two arrays by the rule of `kinescope replay --tolerance`.

    Two elements are the same if they are equal, if both are not a number, or if both are finite and their distance is at
    most the larger of the absolute limit and the relative limit times the expected magnitude.

    Args:
        expected: The expected array, as `to_numpy` takes it.
        got: The other array. If its elements are bytes, they are taken as elements of the expected type.
        tolerance: `None`: equal. A number: limit, absolute and relative. Two numbers: absolute and relative limit.

    Raises:
        ArgumentError: The arrays have different numbers of elements or other element types, or the tolerance is not valid.
    """
    wanted = to_numpy(expected)
    if got.dtype == np.uint8 and wanted.dtype != np.uint8 and got.nbytes == wanted.nbytes:
        got = np.ascontiguousarray(got).reshape(-1).view(wanted.dtype)
    if got.size != wanted.size:
        raise ArgumentError(f"the array has {wanted.size} elements, the output has {got.size}")
    if got.dtype != wanted.dtype:
        raise ArgumentError(f"the array has elements of type {wanted.dtype}, the output of type {got.dtype}")
    absolute, relative = _limits(tolerance)
    a, b = np.ravel(wanted), np.ravel(got)
    same = a == b
    if a.dtype.kind == "f":
        same |= np.isnan(a) & np.isnan(b)
    # Integers of 64 bits keep all their digits in the wider type.
    wide: Any = np.longdouble if a.dtype.kind in "iu" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        left: Any = a.astype(wide)
        right: Any = b.astype(wide)
        distance = np.abs(left - right)
        finite = np.isfinite(left) & np.isfinite(right)
        same |= finite & (distance <= np.maximum(absolute, relative * np.abs(left)))
    differing = np.flatnonzero(~same)
    seen = distance[np.isfinite(distance)]
    return ArrayComparison(
        elements=int(a.size),
        differing=int(differing.size),
        first=int(differing[0]) if differing.size else None,
        largest=float(seen.max()) if seen.size else 0.0,
    )


def _limits(tolerance: Tolerance) -> tuple[float, float]:
    limits = tolerance if isinstance(tolerance, tuple) else (tolerance or 0.0, tolerance or 0.0)
    if len(limits) != 2 or not all(np.isfinite(limit) and limit >= 0 for limit in limits):
        raise ArgumentError(f"{tolerance!r} is no tolerance (expected a number, or an absolute and a relative one)")
    return float(limits[0]), float(limits[1])
