"""Exceptions, hostile files, progress and Ctrl-C."""

import os
import threading
import time

import pytest

import kinescope
from conftest import press_ctrl_c, write_log


def test_every_exception_is_an_error():
    for name in (
        "ArgumentError",
        "OpenError",
        "FilterError",
        "PlanError",
        "TargetError",
        "ReplayError",
        "InternalError",
    ):
        assert issubclass(getattr(kinescope, name), kinescope.Error)
    assert issubclass(kinescope.FilterError, ValueError)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(kinescope.OpenError, match="missing.kine") as info:
        kinescope.open(tmp_path / "missing.kine")
    assert info.value.path.endswith("missing.kine")


def test_filter_error_marks_its_position(samples):
    with pytest.raises(kinescope.FilterError, match=r"\^"):
        kinescope.open(samples / "vecadd.kine").events(where="reg =~ ")


def test_wrong_arguments_are_refused(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    for call in (
        lambda: recording.table("nothing"),
        lambda: recording.report("record"),
        lambda: recording.report("info", "--nothing"),
        lambda: recording.picture("nothing"),
        lambda: recording.picture(size=(1, 1)),
        lambda: recording.memory(-1, 4),
    ):
        with pytest.raises(kinescope.ArgumentError):
            call()
    for call in (
        lambda: recording.registers(10**9),
        lambda: recording.buffer("nothing").numpy(),
        lambda: recording.memory(0, 1 << 40),
        recording.launches,
    ):
        with pytest.raises(kinescope.Error):
            call()
    with pytest.raises((kinescope.Error, OverflowError)):
        recording.registers(1 << 70)


def test_damaged_and_truncated_files_raise_or_open(samples, tmp_path):
    whole = (samples / "vecadd.kine").read_bytes()
    step = max(1, len(whole) // 60)
    file = tmp_path / "a.kine"
    for at in range(0, len(whole), step):
        for content in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            file.write_bytes(content)
            try:
                recording = kinescope.open(file)
                recording.info()
                recording.events()
                recording.mappings()
                recording.registers()
            except kinescope.InternalError:
                raise
            except kinescope.Error as error:
                assert str(error)
    file.write_bytes(os.urandom(4096))
    with pytest.raises(kinescope.OpenError):
        kinescope.open(file)


def test_warnings_have_the_place_of_their_caller(samples, tmp_path):
    """The place is the line outside the package, whether the package or its extension module warns."""
    recording = kinescope.open(samples / "vecadd.kine")
    with pytest.warns(kinescope.RecordingWarning, match="not mapped") as caught:
        recording.memory(0x10, 4)
    places = [(warning.filename, warning.lineno) for warning in caught]
    assert places == [(__file__, places[0][1])]
    log = tmp_path / "cut.txt"
    write_log(log, 100)
    log.write_text(log.read_text() + "W 4 9.9 1 0xd00")
    with pytest.warns(kinescope.RecordingWarning) as caught:
        kinescope.open(log).check()
    assert {warning.filename for warning in caught} == {__file__}


OPEN_UNTIL_INTERRUPTED = """
import kinescope, sys, time
print("ready", flush=True)
start = time.monotonic()
try:
    while time.monotonic() - start < 60:
        kinescope.open(sys.argv[1])
except KeyboardInterrupt:
    # The interpreter goes on.
    print("stopped", kinescope.open(sys.argv[1]).event_count >= 1_000_000)
"""


def test_ctrl_c_stops_long_work(long_log):
    assert press_ctrl_c(OPEN_UNTIL_INTERRUPTED, long_log) == "stopped True\n"


def test_other_threads_run_and_progress_is_reported(long_log):
    ticks, steps = [], []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    kinescope.open(long_log, progress=lambda step, fraction: steps.append((step, fraction)))
    stop.set()
    thread.join()
    assert len(ticks) > 5
    assert steps and steps[0][0] == "reading" and all(f is None or 0 <= f <= 1 for _, f in steps)


def test_observer_that_raises_stops_the_work(long_log):
    def fail(step, fraction):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        kinescope.open(long_log, progress=fail)


def test_recording_that_was_not_opened_has_a_description(tmp_path):
    """A traceback of pytest shows it."""
    recording = kinescope.Recording.__new__(kinescope.Recording)
    with pytest.raises(kinescope.OpenError):
        recording.__init__(tmp_path / "missing.kine")
    assert "missing.kine" in repr(recording) and recording.is_closed
