"""Recordings of WebAssembly runs: reports, replays on targets without a GPU, other inputs, comparison."""

import subprocess

import pytest

import kinescope
from conftest import ROOT

TEXTS = {"a.txt": b"one two two\n", "b.txt": b"three three three\n"}


@pytest.fixture
def run(program, tmp_path):
    """Returns the recording of a program that counts words, with two inputs."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for name, text in TEXTS.items():
        (inputs / name).write_bytes(text)
    to = tmp_path / "run.kine"
    module = ROOT / "tests/wasm/programs/wordcount.wasm"
    words = [program, "wasm", "run", module, "--inputs", inputs, "-o", tmp_path / "out", "--record", to]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return kinescope.open(to)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_run_replays_and_matches(run, target, tmp_path):
    again, out = tmp_path / "again.kine", tmp_path / "counted"
    words = ["--on", target, "-o", str(again), "--output", f"a.txt.stdout={out}"]
    report = run.report("replay", *words)
    assert (report["outcome"], report["board"]) == ("match", target)
    assert (report["copies"], report["copies_matched"], report["divergence_count"]) == (2, 2, 0)
    assert out.read_bytes() == (tmp_path / "out/a.txt.stdout").read_bytes() == b"2 two\n1 one\n"
    outcome = kinescope.open(again)
    assert not run.diff(outcome)
    # The interpreter has launches, as a GPU has.
    assert (len(outcome.launches()) > 0) == (target == "interpreter")


def test_other_input_diverges(run, tmp_path):
    other = tmp_path / "other.txt"
    other.write_bytes(b"four five six seven\n")
    again = tmp_path / "again.kine"
    report = run.report("replay", "--on", "cpu", "--input", f"b.txt={other}", "-o", str(again))
    assert report["outcome"] == "diverged" and report["replaced_inputs"] == ["b.txt"]
    assert (report["copies_matched"], report["divergence_count"]) == (1, 1)
    difference = run.diff(kinescope.open(again))
    assert difference and "b.txt" in str(difference)


def test_run_has_no_plan_and_other_targets_are_refused(run):
    with pytest.raises(kinescope.Error, match="replay --on cpu"):
        run.edit().plan(on="cpu")
    with pytest.raises(kinescope.Error, match="software:mali-g71"):
        run.report("replay", "--on", "software:mali-g71")
    with pytest.raises(kinescope.Error, match="c.txt"):
        run.report("replay", "--on", "cpu", "--input", "c.txt=/nothing")
