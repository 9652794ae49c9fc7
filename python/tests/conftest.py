"""Paths of the samples and of the program, for all tests."""

import json
import os
import signal
import subprocess
import sys
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


def find_built(name: str) -> Path:
    """Returns a program or a library of the build, or skips the test."""
    path = Path(os.environ.get("KINESCOPE_BIN_DIR", ROOT / "target/debug")) / name
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.fixture(scope="session")
def program() -> Path:
    """Returns the program, which must be built."""
    return find_built("kinescope")


@pytest.fixture(scope="session")
def client() -> Path:
    """Returns the program with small CUDA programs."""
    return find_built("cuda-client")


@pytest.fixture
def stand_in(tmp_path, monkeypatch) -> Path:
    """Makes the stand-in for the CUDA driver the driver of the processes that a test starts. Returns its folder."""
    folder = tmp_path / "driver"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(find_built("libcuda_stand_in.so"))
    find_built("libkinescope_cuda.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("KINESCOPE_CUDA_LIBRARY", str(folder / "libcuda.so.1"))
    monkeypatch.setenv("KINESCOPE_KEYS", str(folder))
    return folder


@pytest.fixture(scope="session")
def run_json(program):
    """Returns a function that runs a verb with `--json`: its value, or `None` and the message."""

    def run(*words):
        done = subprocess.run([program, *map(str, words), "--json"], capture_output=True, text=True, check=False)
        return (json.loads(done.stdout), "") if done.returncode in (0, 1) else (None, done.stderr)

    return run


def write_log(path: Path, rows: int, device: str = "1e0f0001") -> None:
    """Writes a log of mmiotrace with this number of accesses. `device` is the vendor and the device of a PCI function."""
    head = f"VERSION 20070824\nPCIDEV 0200 {device} 10 0 0 d0000000 0 0 0 0 0 0 1000000 0 0 0 0 sample\n"
    head += "MAP 3.000000 1 0xd0000000 0xffffc90000100000 0x1000000 0x0 0\n"
    line = "{} 4 {}.{:06} 1 {:#x} {:#x} 0x0 0\n".format
    with path.open("w") as file:
        file.write(head)
        for n in range(rows):
            at = 4_000_000 + n
            file.write(
                line(
                    "RW"[n % 3 == 0], at // 1_000_000, at % 1_000_000, 0xD0000000 + n % 4096 * 4, n * 2654435761 % 2**32
                )
            )


@pytest.fixture(scope="session")
def long_log(tmp_path_factory) -> Path:
    """Returns a log of a million accesses."""
    path = tmp_path_factory.mktemp("log") / "long.txt"
    write_log(path, 1_000_000)
    return path


def press_ctrl_c(code, *arguments):
    """Runs code in a process of its own, presses Ctrl-C there, and returns what it prints.

    The code prints `ready` before its long call. Python ignores an interrupt that reaches it in a destructor, so this presses
    again every five seconds, as a person would.
    """
    words = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            pause = 0.5
            for _ in range(12):
                try:
                    process.wait(pause)
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGINT)
                    pause = 5
            return process.communicate(timeout=60)[0]
        finally:
            process.kill()
