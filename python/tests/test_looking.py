"""Opening, tables, memory, registers, comparison and export."""

import sqlite3
import subprocess
import sys

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import kinescope


def test_sample_opens_with_information(digits):
    recording = kinescope.open(digits)
    assert recording.event_count == len(recording.events()) == 246
    assert isinstance(recording.info(), dict)
    assert recording.check().column_names == ["kind", "severity", "place", "message"]
    assert "digits.kine" in repr(recording)


def test_table_goes_to_every_library(samples):
    events = table = kinescope.open(samples / "vecadd.kine").events()
    assert len(table) == 142
    frames = {
        "polars": polars.DataFrame(table).rows(named=True),
        "pyarrow": pyarrow.table(table).to_pylist(),
        "duckdb": pyarrow.table(duckdb.sql("select * from events").arrow()).to_pylist(),
    }
    assert frames["polars"] == frames["pyarrow"] == frames["duckdb"]
    assert pandas.DataFrame.from_arrow(table).shape == (142, 10)
    assert pyarrow.schema(table).names == table.column_names
    # A stream is consumed once, and the table gives another one.
    assert pyarrow.table(table) == pyarrow.table(table)


def test_capsule_that_nobody_consumes_is_released(samples):
    table = kinescope.open(samples / "vecadd.kine").events()
    for _ in range(100):
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
    assert len(pyarrow.table(table)) == 142


def test_filter_selects_events(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    writes = polars.DataFrame(recording.events(where="write"))
    assert set(writes["kind"]) == {"write"}
    assert polars.DataFrame(recording.events()).filter(polars.col("kind") == "write").equals(writes)
    assert len(recording.events(where="job = 99")) == 0


def test_exported_table_is_the_table(samples, tmp_path):
    recording = kinescope.open(samples / "vecadd.kine")
    for name in ("events", "jobs", "registers", "pages", "mappings", "buffers", "shaders"):
        file = tmp_path / f"{name}.parquet"
        report = recording.export(file, table=name)
        assert pyarrow.parquet.read_table(file).to_pylist() == pyarrow.table(recording.table(name)).to_pylist()
        assert report["rows"] == len(recording.table(name))


def test_buffer_has_its_type_and_shape(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    a, b, c = (recording.buffer(name).numpy() for name in "abc")
    assert a.dtype == np.float32 or a.dtype.kind in "iu"
    np.testing.assert_array_equal(a + b, c)
    before = recording.buffer("c").numpy(event=0)
    assert before.shape == c.shape and not np.array_equal(before, c)


def test_memory_is_the_content_of_a_buffer(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    row = next(r for r in pyarrow.table(recording.buffers()).to_pylist() if r["name"] == "c")
    assert recording.memory(row["va"], row["bytes"]) == recording.buffer("c").numpy().tobytes()
    with pytest.warns(kinescope.RecordingWarning, match="not mapped"):
        assert recording.memory(0x10, 4) == bytes(4)


def test_registers_hold_the_last_access(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    events = polars.DataFrame(recording.events())
    state = polars.DataFrame(recording.registers(95))
    before = events.filter((polars.col("event") < 95) & polars.col("kind").is_in(["read", "write"]))
    expected = before.group_by("space", "offset").agg(polars.col("value").last(), polars.col("event").last())
    keys = ["space", "offset", "value", "event"]
    assert state.select(keys).sort(keys).equals(expected.select(keys).sort(keys))
    assert len(recording.registers(0)) == 0
    assert len(recording.registers()) >= len(state)


def test_references_name_the_writer(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    found = polars.DataFrame(recording.references("c"))
    assert "write" in set(found["access"])
    assert recording.report("last-writer", "c")


def test_launches_have_grids(samples):
    launches = pyarrow.table(kinescope.open(samples / "cuda/net.kine").launches()).to_pylist()
    assert launches and all(len(launch["grid"]) == 3 for launch in launches)


def test_difference_names_the_cause(samples, digits):
    a, b = kinescope.open(samples / "vecadd.kine"), kinescope.open(samples / "saxpy.kine")
    difference = kinescope.diff(a, b)
    assert difference and not difference.same and difference.event is not None
    assert difference.summary in str(difference)
    same = kinescope.open(digits).diff(kinescope.open(digits))
    assert not same and same.event is None


def test_link_opens_at_an_event(samples):
    assert kinescope.open(samples / "vecadd.kine").link(95).startswith("kinescope:")


def test_picture_is_png(samples):
    picture = kinescope.open(samples / "vecadd.kine").picture("page-tables", event=95)
    assert picture._repr_png_().startswith(b"\x89PNG") and len(picture.png) > 1000


def test_warnings_do_not_go_to_standard_error(digits):
    code = f"import kinescope; kinescope.open({str(digits)!r}).info(); kinescope.targets()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "" and done.stderr == ""


def test_other_file_is_refused(tmp_path):
    file = tmp_path / "a.db"
    sqlite3.connect(file).execute("create table t (x)")
    with pytest.raises(kinescope.OpenError):
        kinescope.open(file)
