"""Paths of the samples and of the program, for all tests."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample-traces"


def all_samples() -> list[Path]:
    """Returns every sample recording."""
    found = sorted(SAMPLES.glob("*.kine")) + sorted(SAMPLES.glob("*/*.kine"))
    found += sorted(SAMPLES.glob("freedreno/*.rd.gz")) + [ROOT / "tests/excerpts/several-spaces.txt"]
    assert len(found) > 20
    return found


@pytest.fixture
def samples() -> Path:
    """Returns the folder of samples."""
    return SAMPLES


@pytest.fixture
def digits() -> Path:
    """Returns the sample of the digit network."""
    return SAMPLES / "digits.kine"


@pytest.fixture(scope="session")
def program() -> Path:
    """Returns the program, which must be built."""
    folder = Path(os.environ.get("KINESCOPE_BIN_DIR", ROOT / "target/debug"))
    path = folder / "kinescope"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.fixture(scope="session")
def run_json(program):
    """Returns a function that runs a verb with `--json`: its value, or `None` and the message."""

    def run(*words):
        done = subprocess.run([program, *map(str, words), "--json"], capture_output=True, text=True, check=False)
        return (json.loads(done.stdout), "") if done.returncode in (0, 1) else (None, done.stderr)

    return run
