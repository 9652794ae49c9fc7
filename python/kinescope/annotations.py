"""Annotations of this process for a recorder: named ranges, names of arrays, and notes.

They are for a program that `kinescope record --with cuda` started. In any other process they do nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from . import _words
from .errors import ArgumentError

__all__ = ["is_recorded", "mark", "name", "range"]

# Results of the recorder's functions, as recorders/cuda/include/kinescope.h lists them.
_INVALID = -2
_TOO_MANY = -3

# Element types of recordings, by the kind and the size of an element.
_ELEMENTS = {
    "b1": "u8", "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64",
    "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "f2": "f16", "f4": "f32", "f8": "f64",
}  # fmt: skip
_TORCH_ELEMENTS = {
    "bool": "u8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


class _Memory(NamedTuple):
    """Memory of an array: address, size in bytes, element type and shape as text (`f32:1x10`), or no text."""

    address: int
    bytes: int
    form: str | None


class _Recorder(NamedTuple):
    """The functions of the recorder in this process."""

    mark: Any
    range_begin: Any
    range_end: Any
    name_buffer: Any


@lru_cache(maxsize=1)
def _recorder() -> _Recorder | None:
    """Returns the recorder of this process, or `None`. It is there from the start of the process, or never."""
    process = ctypes.CDLL(None)
    try:
        functions = _Recorder(
            process.kinescope_mark,
            process.kinescope_range_begin,
            process.kinescope_range_end,
            process.kinescope_name_buffer,
        )
    except AttributeError:
        return None
    functions.mark.argtypes = [ctypes.c_char_p]
    functions.range_begin.argtypes = [ctypes.c_char_p]
    functions.range_end.argtypes = []
    functions.name_buffer.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p]
    for function in functions:
        function.restype = ctypes.c_int
    return functions


def is_recorded() -> bool:
    """Returns whether a recorder of CUDA calls is in this process."""
    return _recorder() is not None


def _check_name(text: str, what: str) -> bytes:
    encoded = _words.text(text, f"the name of {what}").encode()
    if not 1 <= len(encoded) <= 200 or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise ArgumentError(f"the name of {what} needs 1 to 200 bytes without control characters: {text!r}")
    return encoded


@contextmanager
def range(name: str) -> Iterator[None]:
    """Marks the calls of this thread inside a `with` block as a range: `with kinescope.range("inference"):`.

    Ranges nest. A range also ends if its block raises. The function is a decorator too.

    Args:
        name: 1 to 200 bytes of UTF-8 without control characters.

    Raises:
        ArgumentError: The name is not valid.
    """
    text = _check_name(name, "a range")
    recorder = _recorder()
    # A range that the recorder did not accept, for example before the recorded part, is not ended.
    begun = recorder is not None and recorder.range_begin(text) == 0
    try:
        yield
    finally:
        if begun and recorder is not None:
            recorder.range_end()


def mark(text: str) -> None:
    """Leaves a note at the current call. With `record --range marks`, `begin` and `end` limit the recorded part.

    Raises:
        ArgumentError: The note is no text.
    """
    encoded = _words.text(text, "a note").encode()
    recorder = _recorder()
    if recorder is not None:
        recorder.mark(encoded.replace(b"\0", b" "))


def name(name: str, tensor: Any) -> None:
    """Names the memory of an array: copies of exactly this memory have the name as inputs and outputs of replays.

    The name holds for copies before and after the call, until the memory gets another name.
    An array in host memory gives its name to the device memory that its bytes are copied to or from later.

    Args:
        name: 1 to 200 bytes of UTF-8. Names such as `in0` and `out0`, which Kinescope itself gives, are refused. A name
            that other memory has gets a number: `x #2`.
        tensor: A tensor of PyTorch, an array of NumPy, or an object with `__cuda_array_interface__` or
            `__array_interface__`. Its elements must be contiguous. Its element type and shape are recorded.

    Raises:
        ArgumentError: The name or the array is not valid, or there are too many names.
    """
    text = _check_name(name, "an array")
    memory = _find_memory(tensor)
    recorder = _recorder()
    if recorder is None:
        return
    form = memory.form.encode() if memory.form else None
    result = recorder.name_buffer(memory.address, memory.bytes, text, form)
    if result == _INVALID:
        raise ArgumentError(f"{name!r} cannot be the name of an array (names such as in0 and out0 are reserved)")
    if result == _TOO_MANY:
        raise ArgumentError("the recording has too many names of arrays")


def _find_memory(tensor: Any) -> _Memory:
    """Returns the memory of an array. Raises `ArgumentError` if it has none that can be named."""
    kind = type(tensor).__name__
    if hasattr(tensor, "data_ptr") and hasattr(tensor, "element_size"):
        return _find_torch_memory(tensor)
    interface = getattr(tensor, "__cuda_array_interface__", None) or getattr(tensor, "__array_interface__", None)
    if not isinstance(interface, dict):
        raise ArgumentError(f"an object of type {kind} has no memory that can be named (expected a tensor or an array)")
    shape = tuple(int(side) for side in interface["shape"])
    typestr = str(interface["typestr"])
    order, code, size = typestr[:1], typestr[1:2], int(typestr[2:])
    strides = interface.get("strides")
    step = size
    for side, stride in zip(reversed(shape), reversed(strides or ())):
        if side > 1 and stride != step:
            raise ArgumentError(f"the elements of this {kind} are not contiguous: name a contiguous copy")
        step *= side
    element = _ELEMENTS.get(f"{code}{size}") if order != ">" else None
    count = 1
    for side in shape:
        count *= side
    return _check_memory(int(interface["data"][0]), count * size, element, shape)


def _find_torch_memory(tensor: Any) -> _Memory:
    device = getattr(getattr(tensor, "device", None), "type", "cpu")
    if device not in ("cpu", "cuda"):
        raise ArgumentError(f"a tensor of the device '{device}' cannot be named (expected cpu or cuda)")
    if not tensor.is_contiguous():
        raise ArgumentError("the elements of this tensor are not contiguous: name `tensor.contiguous()`")
    element = _TORCH_ELEMENTS.get(str(tensor.dtype).rpartition(".")[2])
    shape = tuple(int(side) for side in tensor.shape)
    return _check_memory(int(tensor.data_ptr()), int(tensor.nelement()) * int(tensor.element_size()), element, shape)


def _check_memory(address: int, size: int, element: str | None, shape: tuple[int, ...]) -> _Memory:
    if size == 0 or address == 0:
        raise ArgumentError("an array without elements cannot be named")
    if element is None or len(shape) > 32:
        return _Memory(address, size, None)
    sides = "x".join(str(side) for side in shape)
    return _Memory(address, size, f"{element}:{sides}" if sides else element)
