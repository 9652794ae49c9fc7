"""The recorder of the package: `python -m kinescope record --with cuda` without an installation of Kinescope."""

import os
import subprocess
import sys
from pathlib import Path

import polars
import pyarrow

import kinescope

RECORDER = "libkinescope_cuda.so"

# The environment that has nothing but the wheel and what it needs; scripts/python.sh makes it.
PYTHON = os.environ.get("KINESCOPE_BARE_PYTHON", sys.executable)


def record(to, *program):
    """Records a program with the command line of the package."""
    words = [PYTHON, "-m", "kinescope", "record", "--with", "cuda", "-o", to, "--", *program]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_package_records_a_program(stand_in, client, tmp_path):
    assert (Path(kinescope.__file__).parent / RECORDER).is_file()
    done = record(tmp_path / "sum.kine", client, "vector_add")
    assert done.returncode == 0, done
    recording = kinescope.open(tmp_path / "sum.kine")
    launches = pyarrow.table(recording.launches()).to_pylist()
    assert [launch["kernel"] for launch in launches] == ["vector_add"]


def test_annotations_of_a_python_program_are_recorded(stand_in, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, kinescope\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "assert driver.cuInit(0) == 0\n"
        "with kinescope.range('step'):\n"
        "    kinescope.mark('here')\n"
        "assert kinescope.is_recorded()\n"
    )
    done = record(tmp_path / "program.kine", PYTHON, program)
    assert done.returncode == 0, done
    recording = kinescope.open(tmp_path / "program.kine")
    assert polars.DataFrame(recording.ranges())["name"].to_list() == ["step"]


def test_doctor_finds_the_recorder_in_the_package():
    words = [PYTHON, "-m", "kinescope", "doctor"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    line = next(line for line in done.stdout.splitlines() if RECORDER in line)
    assert "site-packages/kinescope" in line, line
