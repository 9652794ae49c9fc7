"""Events in batches: the rows of the table, in every library, without memory that grows with the recording."""

import gc

import duckdb
import polars
import pyarrow
import pytest

import kinescope


@pytest.fixture(scope="module")
def log(long_log):
    """Returns a recording of a million events and some more."""
    return kinescope.open(long_log)


def read_anonymous_bytes():
    """Returns the memory of this process that is no file, in bytes."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def test_batches_are_the_rows_of_the_table(samples):
    for name in ("vecadd.kine", "cuda/net.kine"):
        recording = kinescope.open(samples / name)
        expected = pyarrow.table(recording.events())
        batches = recording.stream_events()
        assert len(batches) == batches.num_rows == len(expected)
        assert batches.column_names == expected.column_names
        tables = [pyarrow.table(table) for table in batches]
        assert pyarrow.concat_tables(tables) == expected
        # Each consumer begins with the first event.
        assert pyarrow.table(batches) == pyarrow.table(batches) == expected
        assert polars.DataFrame(batches).equals(polars.DataFrame(recording.events()))
        count = duckdb.sql("select count(*) from batches").fetchall()
        assert count == [(len(expected),)]


def test_columns_are_chosen_by_name(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    whole = pyarrow.table(recording.events())
    for names in (["value"], ["register", "event"], ["means", "kind", "time_ns"]):
        assert pyarrow.table(recording.events(columns=names)) == whole.select(names)
        assert pyarrow.table(recording.stream_events(columns=names)) == whole.select(names)
    writes = recording.events("write", columns=["value"])
    assert writes.column_names == ["value"] and 0 < len(writes) < len(whole)
    for call in (recording.events, recording.stream_events):
        for columns, reason in (
            (["address"], "not a column of the events"),
            (["kind", "kind"], "named twice"),
            ([], "no column"),
            ("kind", r"such as \['kind'\]"),
        ):
            with pytest.raises(kinescope.ArgumentError, match=reason):
                call(columns=columns)
        with pytest.raises(kinescope.FilterError):
            call("kind =")


def test_batches_of_a_long_recording_do_not_add_up(log):
    before = read_anonymous_bytes()
    events, used = 0, []
    for table in log.stream_events():
        assert len(table) <= 65536
        events += len(table)
        used.append(read_anonymous_bytes() - before)
    assert events == log.event_count >= 1_000_000 and len(used) == 16
    # Some batches are built ahead; the later ones take the place of the earlier ones.
    first, second = max(used[:8]), max(used[8:])
    assert second < first * 1.25, used
    table = log.events()
    gc.collect()
    assert len(table) == events and max(used) < (read_anonymous_bytes() - before) * 0.75, used


def test_loop_that_ends_early_leaves_no_work(log):
    for _ in range(20):
        batches = iter(log.stream_events())
        first = next(batches)
        assert pyarrow.table(first)["event"][0].as_py() == 0
        del batches
    reader = pyarrow.RecordBatchReader.from_stream(log.stream_events(columns=["event", "value"]))
    assert reader.read_next_batch().num_rows == 65536
    reader.close()
    capsules = [log.stream_events().__arrow_c_stream__() for _ in range(20)]
    del capsules


def test_damaged_recording_ends_the_batches(tmp_path, log):
    file = tmp_path / "damaged.kine"
    log.report("import", "-o", str(file))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x55
    file.write_bytes(content)
    damaged = kinescope.open(file)
    with pytest.raises(kinescope.OpenError, match="damaged"):
        for _ in damaged.stream_events():
            pass
    with pytest.raises(pyarrow.ArrowException, match="damaged"):
        pyarrow.table(damaged.stream_events())
