"""The speed of a million events into polars, relative to reading them from Parquet.

scripts/python.sh runs this file by itself, because other tests would disturb it.
"""

import time

import polars
import pytest
from conftest import write_log

import kinescope

# Vendor and device of a PCI function without and with a register map.
DEVICES = {"without a register map": "1e0f0001", "with a register map": "10025159"}


def measure(work):
    """Returns the best time of three runs in seconds, and the last result."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


@pytest.mark.parametrize("device", DEVICES)
def test_million_events_reach_polars(device, tmp_path):
    write_log(tmp_path / "log.txt", 1_000_000, DEVICES[device])
    kinescope.open(tmp_path / "log.txt").report("import", "-o", str(tmp_path / "log.kine"))
    recording = kinescope.open(tmp_path / "log.kine")
    file = tmp_path / "events.parquet"
    recording.export(file, table="events")
    table = recording.events()
    handed, _ = measure(lambda: polars.DataFrame(table))
    whole, frame = measure(lambda: polars.DataFrame(recording.events()))
    read, other = measure(lambda: polars.read_parquet(file))
    assert len(frame) >= 1_000_000 and frame.equals(other)
    named = frame["register"].null_count() < len(frame)
    assert named == (device == "with a register map")
    print(f"\n{len(frame)} events {device}: built {whole:.3f} s, into polars {handed:.4f} s, Parquet into polars {read:.3f} s")
    print(f"speed relative to Parquet: {read / handed:.2f} for the table, {read / whole:.2f} with building it")
