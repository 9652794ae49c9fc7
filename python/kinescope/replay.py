"""Replays: edits, plans, outcomes and targets."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from . import _calls, _words
from ._calls import Path, Progress
from ._kinescope import Table
from .arrays import Array, ArrayComparison, Tolerance, compare_arrays, to_numpy
from .errors import ArgumentError, Error, ReplayError
from .recordings import Recording, Word


class Edits:
    """New contents of inputs of a recording.

    Attributes:
        recording: The recording.
        inputs: The arrays by the names of their buffers.
    """

    recording: Recording
    inputs: dict[str, np.ndarray[Any, Any]]

    def __init__(self, recording: Recording, inputs: Mapping[str, Any]) -> None:
        self.recording = recording
        if not isinstance(inputs, Mapping):
            got = _words.describe(inputs)
            raise ArgumentError(f"the inputs are {got} (expected a dictionary of names and arrays)", str(recording.path))
        self.inputs = {}
        self._folder = _calls.TemporaryFolder()
        self._arguments: list[str] = []
        self._files: dict[str, FilePath] = {}
        for number, (name, content) in enumerate(inputs.items()):
            if "=" in _words.text(name, "the name of an input") or not name:
                raise ArgumentError(f"'{name}' is no name of a buffer", str(recording.path))
            if isinstance(content, (bytes, bytearray, memoryview)):
                # The memory as it is, whatever the type of its elements.
                self.inputs[name] = np.frombuffer(content, np.uint8)
                file = self._folder.path / f"input{number}.bin"
                file.write_bytes(content)
            else:
                self.inputs[name] = _to_input(name, content, recording)
                file = self._folder.path / f"input{number}.npy"
                np.save(file, np.ascontiguousarray(self.inputs[name]), allow_pickle=False)
            self._files[name] = file
            self._arguments.append(_words.option("--input", f"{name}={file}"))

    def __reduce__(self) -> tuple[Any, ...]:
        return Edits, (self.recording, self._contents())

    def _report(self, verb: str, words: list[str], progress: Progress) -> Any:
        """Returns the report of a verb that takes the edits. An error names an input instead of its temporary file."""
        try:
            return self.recording.report(verb, *words, progress=progress)
        except Error as error:
            text = str(error)
            for name, file in self._files.items():
                text = text.replace(str(file), f"the input {name!r}")
            if text == str(error):
                raise
            raise ArgumentError(text, error.path) from None

    def _contents(self) -> dict[str, Any]:
        """Returns what a new object of this class takes as inputs."""
        is_raw = [argument.endswith(".bin") for argument in self._arguments]
        return {name: array.tobytes() if raw else array for raw, (name, array) in zip(is_raw, self.inputs.items())}

    def plan(self, on: str, *, options: Iterable[Word] = (), progress: Progress = None) -> Plan:
        """Compiles and verifies the replay on a target, without running it.

        Args:
            on: Name of the target; `kinescope.targets` lists them.
            options: More options of `kinescope plan` and `kinescope replay`, such as `["--graph"]`.

        Raises:
            PlanError: The recording has no plan for the target.
            TargetError: The target cannot be used.
            ArgumentError: An option is not valid, or an input does not fit its buffer.
        """
        return Plan(self, _words.text(on, "the target"), _words.raw_words(options, "the options"), progress)

    def __repr__(self) -> str:
        return f"<kinescope.Edits of {', '.join(self.inputs) or 'nothing'}>"


class Plan:
    """A verified replay. `str(plan)` describes it.

    Attributes:
        edits: The edits that it contains.
        target: Name of the target.
        report: The report of `kinescope plan --json`.
    """

    edits: Edits
    target: str
    report: dict[str, Any]

    def __init__(self, edits: Edits, target: str, options: list[str], progress: Progress) -> None:
        self.edits = edits
        self.target = target
        self._options = options
        self.report = edits._report("plan", self._command(), progress)

    def _command(self) -> list[str]:
        # The files of the edits are others in a process that got the plan from another one.
        return [_words.option("--on", self.target), *self.edits._arguments, *self._options]

    @property
    def outputs(self) -> list[str]:
        """The names of the buffers that the replay returns."""
        return list(self.report["outputs"])

    def rewrites(self) -> Table:
        """Returns where the plan differs from the recording: `kind`, `event`, `detail`."""
        return _calls.table("rewrites", self.report["rewrite_list"])

    def run(self, *, options: Iterable[Word] = (), progress: Progress = None) -> Outcome:
        """Replays on the target. The recording is compiled again for the target's current memory.

        Args:
            options: More options of `kinescope replay`, such as `["--tolerance", "out0=f32:1e-5"]`.
            progress: `True` for a bar of tqdm, or a function of the step and its fraction.

        Raises:
            TargetError: The target cannot be used, or was lost.
            KeyboardInterrupt: Ctrl-C stopped the replay.
        """
        folder = _calls.TemporaryFolder()
        at = folder.path
        words = [*self._command(), *_words.raw_words(options, "the options"), "-o", str(at / "outcome.kine")]
        files = {name: at / f"output{number}.npy" for number, name in enumerate(self.outputs)}
        for name, file in files.items():
            words.append(_words.option("--output", f"{name}={file}"))
        report = self.edits._report("replay", words, progress)
        return Outcome(self, report, files, folder)

    def __str__(self) -> str:
        return self.edits.recording.text("plan", *self._command())

    def __repr__(self) -> str:
        counts = f"{self.report['actions']} actions, {self.report['jobs']} jobs"
        return f"<kinescope.Plan for {self.target}: {counts}>"


class Outcome:
    """The outcome of a replay. Its files are removed with the object.

    Attributes:
        plan: The plan.
        report: The report of `kinescope replay --json`.
    """

    plan: Plan
    report: dict[str, Any]

    def __init__(
        self, plan: Plan, report: dict[str, Any], files: dict[str, FilePath], folder: _calls.TemporaryFolder
    ) -> None:
        self.plan = plan
        self.report = report
        self._files = files
        self._folder = folder
        self._recording: Recording | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Its files are removed with this object.
        raise TypeError("an Outcome cannot be pickled: its method save writes it as a recording")

    @property
    def verdict(self) -> str:
        """The result in one line."""
        verdict: str = self.report["verdict"]
        return verdict

    @property
    def matches(self) -> bool:
        """Whether all compared reads and outputs are as recorded."""
        return bool(self.report["outcome"] == "match")

    @property
    def computed(self) -> bool:
        """Whether every job ended and every shader ran."""
        return bool(self.report["computed"])

    @property
    def recording(self) -> Recording:
        """The outcome as a recording.

        Raises:
            ReplayError: The run left no recording.
        """
        if self._recording is None or self._recording.is_closed:
            file = self._folder.path / "outcome.kine"
            if not file.exists():
                reason = self.report["failure"] or "the run left no recording"
                raise ReplayError(reason, str(self.plan.edits.recording.path))
            self._recording = Recording(file)
            # The file lives as long as the recording.
            self._recording._folder = self._folder
        return self._recording

    def output(self, name: str) -> Array:
        """Returns an output as an array with the recorded element type and shape; bytes if the type is not known.

        The array has `__dlpack__`, so `torch.from_dlpack(outcome.output("logits"))` shares its memory.

        Raises:
            ReplayError: The replay left no such output.
        """
        file = self._files.get(name)
        if file is None or not file.exists():
            names = ", ".join(self._files) or "none"
            message = f"the replay left no output '{name}' (the plan has: {names})"
            raise ReplayError(message, str(self.plan.edits.recording.path))
        array: Array = np.load(file, allow_pickle=False)
        return array

    def compare(self, name: str, tensor: Any, *, tolerance: Tolerance = None) -> ArrayComparison:
        """Compares an output with an array of another library, such as a tensor of PyTorch.

        Args:
            name: The output.
            tensor: The expected array; `kinescope.arrays.to_numpy` lists what it may be. The output has as many elements.
                An output of bytes is taken as elements of the array's type.
            tolerance: `None`: equal. A number: absolute and relative limit. A tuple: absolute and relative limit.

        Raises:
            ReplayError: The replay left no such output.
            ArgumentError: The array has another number of elements or another type, or the tolerance is not valid.
        """
        return compare_arrays(tensor, self.output(name), tolerance)

    @property
    def outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """All outputs that the replay left, by name."""
        return {name: self.output(name) for name, file in self._files.items() if file.exists()}

    def divergences(self) -> Table:
        """Returns the reads that differ: `event`, `register`, `expected`, `got`, `class`, `job`."""
        return _calls.table("divergences", self.report["divergences"])

    def job_outcomes(self) -> Table:
        """Returns each submit: `index`, `submit_event`, `head_va`, `done`, `status`, `computed`, `why_not`, `duration_ns`."""
        return _calls.table("job_outcomes", self.report["job_outcomes"])

    def save(self, path: Path) -> None:
        """Writes the outcome as a recording to a file.

        Raises:
            ReplayError: The run left no recording.
            OSError: The file cannot be written.
        """
        to = _words.file_path(path)
        shutil.copyfile(self.recording.path, to)

    def __repr__(self) -> str:
        return f"<kinescope.Outcome: {self.verdict}>"


def _to_input(name: str, content: Any, recording: Recording) -> Array:
    """Returns the content of an input as an array with elements that a buffer can have."""
    try:
        array = to_numpy(content)
    except ArgumentError as error:
        raise ArgumentError(f"input '{name}': {error}", str(recording.path)) from error
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        expected = "integers, or floating-point numbers of 16, 32 or 64 bits; bytes are raw memory"
        text = f"input '{name}' has elements of type {array.dtype} (expected {expected})"
        raise ArgumentError(text, str(recording.path))
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def targets() -> Table:
    """Returns the targets that can replay a recording: `board` (the name), `description`, `state`, `containment`."""
    return _calls.table("targets", _calls.run(["targets"])[0])
