"""Worker processes run this package, whatever lies in the current folder."""

import subprocess
import sys

import pytest

# Modules that a worker imports. A file of the user may have such a name.
FOREIGN = ["kinescope", "numpy", "json", "contextlib", "importlib", "site", "encodings"]

PROGRAM = """
import os, sys
import kinescope
recording = kinescope.open(sys.argv[1])
os.chdir(sys.argv[2])
print(len(kinescope.targets()))
outcome = recording.edit().plan(on="cuda:0").run()
assert outcome.matches, outcome.verdict
tuning = kinescope.tune(recording.launch("layer:0"), {"block": [64, 128]}, "f32:1e-5")
assert len(tuning) > 1
print("matches")
"""


@pytest.fixture
def replay(stand_in, samples, tmp_path, monkeypatch):
    """Returns a function that replays in a process whose current folder becomes `folder`, with options of Python."""
    monkeypatch.setenv("STAND_IN_PACE", "1")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(folder, *options):
        words = [sys.executable, *options, program, samples / "cuda/net.kine", folder]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py", "{}/__main__.py"])
def test_files_of_the_current_folder_do_not_run(replay, tmp_path, form):
    folder = tmp_path / "of the user"
    for name in FOREIGN:
        file = folder / form.format(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__file__ + ' ')\nraise SystemExit('a foreign file')\n")
    done = replay(folder)
    assert done.returncode == 0 and "matches" in done.stdout, done
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


@pytest.mark.parametrize("option", ["-I", "-E", "-s", "-B"])
def test_worker_has_the_isolation_of_its_parent(replay, tmp_path, monkeypatch, option):
    foreign = tmp_path / "path"
    foreign.mkdir()
    (foreign / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\n")
    monkeypatch.setenv("PYTHONPATH", str(foreign))
    done = replay(tmp_path, option)
    assert done.returncode == 0 and "matches" in done.stdout, done
    assert (tmp_path / "ran").exists() == (option in ("-s", "-B"))


def test_worker_is_the_package_of_its_parent(replay, tmp_path, monkeypatch):
    """Another package of that name that comes first for a new process is not used."""
    foreign = tmp_path / "path"
    (foreign / "kinescope").mkdir(parents=True)
    (foreign / "kinescope/__init__.py").write_text("raise SystemExit('a foreign package')\n")
    code = f"import kinescope, os, runpy, sys; os.environ['PYTHONPATH'] = {str(foreign)!r}; sys.argv.pop(0)\n"
    code += "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    (tmp_path / "start.py").write_text(code)
    done = replay(tmp_path, tmp_path / "start.py")
    assert done.returncode == 0 and "matches" in done.stdout, done
