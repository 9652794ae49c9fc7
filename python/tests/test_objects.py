"""Objects of the package: closing, files that change, threads, pickling, copies and what `repr` shows."""

import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars
import pyarrow
import pytest

import kinescope
from conftest import write_log

TARGET = "software:mali-g71"


@pytest.fixture
def copied(samples, tmp_path, monkeypatch):
    """Returns the recording of a copy, by a relative path."""
    shutil.copy(samples / "vecadd.kine", tmp_path / "copy.kine")
    monkeypatch.chdir(tmp_path)
    return kinescope.open("copy.kine")


def test_closed_recording_refuses_every_call(copied):
    with kinescope.open("copy.kine") as recording:
        table, batches, buffer = recording.events(), recording.stream_events(), recording.buffer("c")
        plan = recording.edit().plan(on=TARGET)
        assert not recording.is_closed
    assert recording.is_closed and "closed" in repr(recording)
    for call in (
        recording.info,
        recording.check,
        recording.events,
        recording.stream_events,
        recording.jobs,
        recording.registers,
        recording.link,
        recording.picture,
        recording.__enter__,
        buffer.numpy,
        plan.run,
        lambda: str(plan),
        lambda: recording.event_count,
        lambda: recording.memory(0x10, 4),
        lambda: recording.references("c"),
        lambda: recording.export("e.csv", table="events"),
        lambda: recording.diff(copied),
        lambda: copied.diff(recording),
    ):
        with pytest.raises(kinescope.ArgumentError, match="copy.kine: the recording is closed") as info:
            call()
        assert info.value.path == "copy.kine"
    # Rows that exist stay.
    assert len(pyarrow.table(table)) == len(pyarrow.table(batches)) == 142
    recording.close()
    with pytest.raises(LookupError), kinescope.open("copy.kine") as recording:
        raise LookupError
    assert recording.is_closed and copied.event_count == 142


def test_closed_outcome_is_opened_again(copied):
    outcome = copied.edit().plan(on=TARGET).run()
    with outcome.recording as recording:
        assert recording.event_count > 0
    assert recording.is_closed and outcome.recording.event_count > 0


def test_replaced_file_stays_as_it_was_opened(copied, samples):
    before = pyarrow.table(copied.events())
    shutil.copy(samples / "saxpy.kine", "new.kine")
    os.replace("new.kine", "copy.kine")
    assert pyarrow.table(copied.events()) == before and copied.info()["events"] == 142
    with pytest.warns(kinescope.RecordingWarning, match="copy.kine: the file has changed") as caught:
        assert copied.picture("memory").png
    assert caught[0].filename == __file__
    # The same path is another recording now.
    other = kinescope.open("copy.kine")
    with pytest.raises(kinescope.ArgumentError, match="same path"):
        copied.diff(other)
    assert not other.diff(kinescope.open("copy.kine")) and copied.diff(kinescope.open(samples / "saxpy.kine"))
    os.remove("copy.kine")
    assert pyarrow.table(copied.events()) == before
    with pytest.raises(kinescope.Error, match="copy.kine"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copied.picture("memory")


SHRINK = """
import os, sys
import kinescope
recording = kinescope.open(sys.argv[1])
with open(sys.argv[1], "wb") as file:
    file.write(b"another recording")
for call in (recording.info, recording.events, recording.check, recording.registers, lambda: recording.event_count):
    try:
        call()
    except kinescope.OpenError as error:
        assert "long.kine: another program overwrote the file" in str(error), error
    else:
        raise SystemExit("no exception")
print("alive")
"""


def test_file_that_shrinks_does_not_end_the_process(tmp_path):
    write_log(tmp_path / "long.txt", 300_000)
    kinescope.open(tmp_path / "long.txt").report("import", "-o", tmp_path / "long.kine")
    words = [sys.executable, "-c", SHRINK, tmp_path / "long.kine"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "alive\n", done


def test_current_folder_may_change(copied, samples, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    shutil.copy(samples / "saxpy.kine", tmp_path / "other/copy.kine")
    monkeypatch.chdir(tmp_path / "other")
    warnings.simplefilter("error")
    assert copied.info()["events"] == 142 and copied.picture("memory").png
    assert pickle.loads(pickle.dumps(copied)).event_count == 142
    with pytest.raises(kinescope.ArgumentError, match="same path"):
        copied.diff(kinescope.open("copy.kine"))


def test_threads_use_one_recording(copied):
    events, registers = pyarrow.table(copied.events()), pyarrow.table(copied.registers())
    c, info, difference = copied.buffer("c").numpy(), copied.info(), str(copied.diff(copied))
    start = threading.Barrier(8)

    def work(number):
        start.wait()
        for _ in range(5):
            assert pyarrow.table(copied.events()) == events and pyarrow.table(copied.registers()) == registers
            assert pyarrow.table(copied.stream_events("write")).num_rows == len(copied.events("write"))
            np.testing.assert_array_equal(copied.buffer("c").numpy(), c)
            assert copied.info() == info and str(copied.diff(copied)) == difference
            with pytest.raises(kinescope.FilterError):
                copied.events("kind =")
            if number == 0:
                assert copied.edit().plan(on=TARGET).run().matches
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))


def test_threads_read_one_stream(copied):
    batches = iter(copied.stream_events())
    with ThreadPoolExecutor(4) as pool:
        counts = pool.map(lambda _: sum(len(table) for table in batches), range(4))
        assert sum(counts) == 142


def test_objects_are_pickled(copied, stand_in, samples, monkeypatch):
    again = pickle.loads(pickle.dumps(copied))
    assert again.event_count == 142 and not again.diff(copied)
    buffer = pickle.loads(pickle.dumps(copied.buffer("c")))
    np.testing.assert_array_equal(buffer.numpy(), copied.buffer("c").numpy())
    a = copied.buffer("a").numpy()
    for content in (a, a.tobytes()):
        edits = pickle.loads(pickle.dumps(copied.edit(a=content)))
        np.testing.assert_array_equal(edits.inputs["a"].view(a.dtype), a)
        plan = pickle.loads(pickle.dumps(edits.plan(on=TARGET, options=["--time-limit", 60])))
        del edits
        gc.collect()
        assert plan.run().matches and str(plan)
    difference = pickle.loads(pickle.dumps(copied.diff(kinescope.open(samples / "saxpy.kine"))))
    assert difference and difference.summary in str(difference)
    picture = pickle.loads(pickle.dumps(copied.picture("memory")))
    assert picture.png.startswith(b"\x89PNG")
    monkeypatch.setenv("STAND_IN_PACE", "1")
    launch = pickle.loads(pickle.dumps(kinescope.open(samples / "cuda/net.kine").launch("layer:0")))
    tuning = kinescope.tune(launch, {"block": [64, 128]}, "f32:1e-5")
    other = pickle.loads(pickle.dumps(tuning))
    assert other.report == tuning.report and polars.DataFrame(other).equals(polars.DataFrame(tuning))
    # A table of Arrow is what other processes get.
    with pytest.raises(TypeError, match="Table"):
        pickle.dumps(copied.events())
    os.remove("copy.kine")
    with pytest.raises(kinescope.OpenError, match="copy.kine"):
        pickle.loads(pickle.dumps(copied))


def test_outcome_that_is_pickled_is_refused_with_the_way_out(copied):
    outcome = copied.edit().plan(on=TARGET).run()
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(outcome)
    assert pickle.loads(pickle.dumps(outcome.recording)).event_count > 0


def test_copies_share_the_recording(copied):
    assert copy.copy(copied) is copy.deepcopy(copied) is copied
    assert copy.deepcopy({"a": copied.buffer("c")})["a"].numpy().shape == (1024,)


def test_every_object_shows_what_it_is(copied):
    plan = copied.edit(a=copied.buffer("a").numpy()).plan(on=TARGET)
    for value, text in (
        (copied, "<kinescope.Recording 'copy.kine' of 142 events>"),
        (copied.buffer("it's"), '<kinescope.Buffer "it\'s">'),
        (copied.events(columns=["kind"]), "<kinescope.Table of 142 rows: kind>"),
        (copied.stream_events(columns=["kind"]), "<kinescope.EventBatches of 142 rows: kind>"),
        (kinescope.Picture(b"abc"), "<kinescope.Picture of 3 bytes>"),
        (copied.edit(), "<kinescope.Edits of nothing>"),
        (plan.edits, "<kinescope.Edits of a>"),
        (plan, f"<kinescope.Plan for {TARGET}: 148 actions, 1 jobs>"),
        (plan.run(), "<kinescope.Outcome: match>"),
        (copied.diff(copied), "<kinescope.Difference: No difference.>"),
        (copied.launch("f"), "Launch(recording=<kinescope.Recording 'copy.kine' of 142 events>, place='f')"),
    ):
        assert repr(value) == text


FOLDERS = """
import os, sys, tempfile
import kinescope
recording = kinescope.open(sys.argv[1])
plan = recording.edit(a=recording.buffer("a").numpy()).plan(on="software:mali-g71")
outcome = plan.run()
child = os.fork()
if child == 0:
    del plan, outcome
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert outcome.recording.event_count > 0 and len(os.listdir(tempfile.gettempdir())) == 2
"""


def test_temporary_folders_are_removed_without_a_warning(copied, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = [sys.executable, "-W", "error", "-X", "dev", "-c", FOLDERS, "copy.kine"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and done.stderr == "", done
    assert not list(temporary.iterdir())


def test_temporary_folders_end_with_their_objects(copied):
    outcome = copied.edit().plan(on=TARGET).run()
    recording = outcome.recording
    folder = recording.path.parent
    del outcome
    gc.collect()
    assert folder.exists()
    del recording
    gc.collect()
    assert not folder.exists()
