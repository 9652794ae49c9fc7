"""The package has complete types: mypy finds nothing in its strict mode."""

import subprocess
import sys

from conftest import ROOT


def test_package_passes_mypy_strict(tmp_path):
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "kinescope"]
    done = subprocess.run(words, cwd=ROOT / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
