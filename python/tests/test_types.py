"""The package has complete types: mypy finds nothing in its strict mode, and the stub is that of the extension module."""

import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_package_passes_mypy_strict(tmp_path, version):
    words = [sys.executable, "-m", "mypy", "--strict", "--python-version", version, "--cache-dir", tmp_path, "kinescope"]
    done = subprocess.run(words, cwd=ROOT / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_stub_is_that_of_the_extension_module(tmp_path):
    words = [sys.executable, "-m", "mypy.stubtest", "kinescope._kinescope"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


USE = """
from pathlib import Path

import numpy as np

import kinescope

with kinescope.open(Path("a.kine"), progress=True) as recording:
    table: kinescope.Table = recording.events("write", columns=["kind"])
    content: bytes = recording.memory(0x1000, np.int32(16), event=np.uint64(3))
    for batch in recording.stream_events():
        names: list[str] = batch.column_names
    recording.report("link", "--at", 5, progress=lambda step, fraction: print(step, fraction))
    recording.export(b"e.csv", table="events")
    outcome = recording.edit(a=np.zeros(4), b=b"raw").plan("cuda:0", options=["--time-limit", 5, Path("x")]).run()
    same: bool = outcome.compare("c", np.zeros(4), tolerance=(1e-6, 0)).same
    outcome.save(Path("b.kine"))
    launch = recording.launch("layer:0")
    space = {"block": range(32, 65), "launch_bounds": [(256, 4), (128, 8)], "module": Path("x.ptx"), "grid": 4}
    tuning = kinescope.tune(launch, space, ["f32:1e-5"], inputs={"a": np.zeros(4)})
    difference: bool = bool(kinescope.diff(recording, outcome.recording, tolerance="buffer c absolute 1"))
closed: bool = recording.is_closed
recording.events(where=5)  # error
recording.memory("0x10", 4)  # error
kinescope.open(5)  # error
kinescope.diff(recording, "a.kine")  # error
"""


def test_programs_that_use_the_package_pass_mypy(tmp_path):
    file = tmp_path / "use.py"
    file.write_text(USE)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", file]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    expected = {n for n, line in enumerate(USE.splitlines(), 1) if "# error" in line}
    assert found == expected, done.stdout
