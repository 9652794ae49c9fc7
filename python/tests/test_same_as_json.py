"""Every report and table has the values of `--json`, on every sample."""

import warnings

import pyarrow
import pytest

import kinescope
from conftest import all_samples


def number(value):
    """Returns the number of a `0x…` text, or the value."""
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def compare(name, table, rows, keys):
    """Compares columns of a table with keys of JSON rows, which may be absent."""
    got = pyarrow.table(table).to_pylist()
    assert len(got) == len(rows), name
    for left, right in zip(got, rows):
        for key in keys:
            expected = right.get(key) if isinstance(left[key], str) else number(right.get(key))
            assert left[key] == expected, (name, key, left, right)


# Arguments after the recording of each report that the package gives.
REPORTS = [
    ["info"],
    ["check"],
    ["jobs"],
    ["launches"],
    ["kernels"],
    ["objects"],
    ["channels"],
    ["pushbuffer"],
    ["shader"],
    ["stats"],
    ["pagetables"],
    ["references", "0x1000", "--space", "0"],
    ["memory", "0x1000", "--bytes", "16"],
    ["link", "--at", "0"],
    ["verify"],
    ["plan", "--on", "software:mali-g71"],
]


@pytest.mark.parametrize("sample", all_samples(), ids=lambda p: p.name[:40])
def test_answers_are_those_of_the_program(sample, run_json, tmp_path):
    warnings.simplefilter("ignore", kinescope.RecordingWarning)
    recording = kinescope.open(sample)
    if sample.suffix != ".kine":
        # Each report of the program would import the file again.
        expected, _ = run_json("info", sample)
        assert recording.info() == expected
        recording.report("import", "-o", str(tmp_path / "imported.kine"))
        sample = tmp_path / "imported.kine"
        recording = kinescope.open(sample)
    reports = {}
    for words in REPORTS:
        expected, message = run_json(words[0], sample, *words[1:])
        try:
            reports[words[0]] = recording.report(*words)
        except kinescope.Error as error:
            assert expected is None, (words, error)
            assert str(error).strip() in message.replace("kinescope: ", ""), words
        else:
            assert reports[words[0]] == expected, words

    events, _ = run_json("events", sample)
    time = "time_ns" if "time_ns" in recording.events().column_names else "time_ticks"
    keys = ["event", "kind", time, "thread", "space", "offset", "register", "width", "value"]
    compare("events", recording.events(), events, keys)
    writes, _ = run_json("events", sample, "--where", "write")
    compare("events", recording.events(where="write"), writes, keys)
    if "jobs" in reports:
        # The table describes job chains: a command stream has no type there.
        jobs = [job | {"type": None} if job["type"] == "command stream" else job for job in reports["jobs"]]
        compare(
            "jobs", recording.jobs(), jobs, ["index", "submit_event", "done_event", "head_va", "type", "duration_ns"]
        )
    if "pagetables" in reports:
        runs = ["address_space", "va", "end", "pages", "rights", "attribute", "pa"]
        compare("mappings", recording.mappings(), reports["pagetables"], runs)
    if "launches" in reports:
        launches = reports["launches"]
        compare("launches", recording.launches(), launches, ["launch", "event", "kernel", "grid", "block", "result"])
    if "check" in reports:
        compare("check", recording.check(), reports["check"], ["kind", "severity", "place", "message"])
    if "references" in reports:
        rows = reports["references"]["references"]
        compare("references", recording.references(0x1000), rows, ["kind", "access", "event", "description", "va"])
