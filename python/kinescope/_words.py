"""Words of commands: arguments of functions, checked, in a form that no verb takes for an option."""

from __future__ import annotations

import numbers
import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import Any, Union

import numpy as np

from .errors import ArgumentError

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# A word of the command line.
Word = Union[str, float, Path]

# Addresses, events and numbers of bytes have 64 bits.
MAX_NUMBER = 2**64 - 1


def file_path(path: Path, what: str = "the path") -> FilePath:
    """Returns a path. `what` names the argument in the text of the exception.

    Raises:
        ArgumentError: It is no path, it is empty, or it contains the character 0.
    """
    try:
        text = os.fsdecode(path)
    except (TypeError, UnicodeError) as error:
        raise ArgumentError(f"{what} is {describe(path)} (expected a text, bytes or an object such as Path)") from error
    if not text or "\0" in text:
        raise ArgumentError(f"{what} is {text!r}, which no file can have")
    return FilePath(text)


def path_word(path: Path, what: str = "the path") -> str:
    """Returns a path as a positional argument. `./` comes before a relative path that begins with `-`."""
    word = str(file_path(path, what))
    return f"./{word}" if word.startswith("-") else word


def text(value: Any, what: str) -> str:
    """Returns a text. `what` names the argument in the text of the exception.

    Raises:
        ArgumentError: It is no text, or it is not valid Unicode.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"{what} is {describe(value)} (expected a text)")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{what} is {value!r}, which is not valid Unicode") from error
    # Subclasses such as numpy.str_ become plain texts.
    return str(value)


def optional_text(value: Any, what: str) -> str | None:
    """Returns a text, or `None` for `None`. Raises as `text` does."""
    return None if value is None else text(value, what)


def texts(values: Any, what: str) -> list[str]:
    """Returns texts as a list. A single text is a list of one.

    Raises:
        ArgumentError: One of them is no text.
    """
    if isinstance(values, str):
        return [text(values, what)]
    return [text(value, f"an item of {what}") for value in items(values, what, "a text or a list of texts")]


def items(values: Any, what: str, expected: str) -> list[Any]:
    """Returns the items of a list or of another iterable. Bytes have no items.

    Raises:
        ArgumentError: It has no items. The exception says what is `expected`.
    """
    if isinstance(values, (bytes, bytearray)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{what} is {describe(values)} (expected {expected})")
    try:
        return list(values)
    except TypeError as error:
        # An array of NumPy without dimensions.
        raise ArgumentError(f"{what} is {describe(values)} (expected {expected})") from error


def number(value: Any, what: str, maximum: int = MAX_NUMBER) -> int:
    """Returns a whole number from 0. Integers of NumPy are numbers, `True` and `5.0` are not.

    Raises:
        ArgumentError: It is no such number, or it is larger than `maximum`.
    """
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{what} is {describe(value)} (expected a whole number)")
    try:
        whole = operator.index(value)
    except TypeError as error:
        # Arrays of NumPy have the method, and only some of them are numbers.
        raise ArgumentError(f"{what} is {describe(value)} (expected a whole number)") from error
    if not 0 <= whole <= maximum:
        raise ArgumentError(f"{what} is {whole} (expected 0 to {maximum})")
    return whole


def option(name: str, value: Any) -> str:
    """Returns an option with its value in one word, so that a value such as `-1` is no option."""
    return f"{name}={value}"


def raw_words(values: Any, what: str) -> list[str]:
    """Returns words that the caller wrote for the command line: texts, numbers and paths.

    Raises:
        ArgumentError: It is a single text, or one of them is something else.
    """
    if isinstance(values, str):
        raise ArgumentError(f"{what} is a text (expected a list of words, such as {values.split()!r})")
    return [_raw_word(value, what) for value in items(values, what, "a list of words")]


def _raw_word(value: Any, what: str) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, os.PathLike)):
        return path_word(value, f"a word of {what}")
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return str(value)
    raise ArgumentError(f"a word of {what} is {describe(value)} (expected a text, a number or a path)")


def column_names(columns: Sequence[str] | None) -> list[str] | None:
    """Returns names of columns as a list. A single text would be a list of letters."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise ArgumentError(f"the columns are a text (expected a list of names, such as [{columns!r}])")
    return [text(name, "the name of a column") for name in items(columns, "the argument 'columns'", "a list of names")]


def describe(value: Any) -> str:
    """Returns a value for the text of an exception: itself if it is short, and its type."""
    if value is None:
        return "None"
    shown = repr(value)
    kind = type(value).__name__
    return f"{shown} of type {kind}" if len(shown) <= 60 and "\n" not in shown else f"an object of type {kind}"
