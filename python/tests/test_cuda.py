"""PyTorch on an NVIDIA GPU: a recorded program with a range and names, its replay from Python, and a tuned launch.

Skipped without a device or without PyTorch. `KINESCOPE_BIN_DIR` names the folder of the program and its recorder.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pytest

import kinescope

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not (Path("/dev/nvidiactl").exists() and torch.cuda.is_available()):
    pytest.skip("there is no NVIDIA GPU", allow_module_level=True)

PROGRAM = """
import sys
import torch
import kinescope

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)).cuda().eval()
image = torch.arange(256, dtype=torch.float32).reshape(4, 64).div(256).cuda()
with torch.no_grad(), kinescope.range("inference"):
    kinescope.name("image", image)
    logits = model(image)
    kinescope.name("logits", logits)
torch.save((model.cpu().state_dict(), logits.cpu()), sys.argv[1])
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Returns the recording, the weights and the logits of the recorded program."""
    from conftest import find_built

    folder = tmp_path_factory.mktemp("torch")
    (folder / "program.py").write_text(PROGRAM)
    to, saved = folder / "torch.kine", folder / "saved.pt"
    words = [find_built("kinescope"), "record", "--with", "cuda", "-o", to, "--", sys.executable, folder / "program.py", saved]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return kinescope.open(to), *torch.load(saved, weights_only=True)


def test_range_and_names_of_tensors_are_recorded(recorded):
    recording, _, logits = recorded
    assert polars.DataFrame(recording.ranges())["name"].to_list() == ["inference"]
    names = polars.DataFrame(recording.buffers())["name"].to_list()
    assert "image" in names and "logits" in names
    np.testing.assert_array_equal(recording.buffer("logits").numpy(), logits.numpy())


def test_replay_equals_the_tensor_of_pytorch(recorded):
    recording, _, logits = recorded
    outcome = recording.edit().plan(on="cuda:0").run()
    assert outcome.matches, outcome.verdict
    shared = torch.from_dlpack(outcome.output("logits"))
    assert shared.shape == (4, 10) and torch.equal(shared, logits)
    assert outcome.compare("logits", logits).same
    assert outcome.compare("logits", logits.cuda(), tolerance=1e-6).same


def test_replay_with_another_image_equals_pytorch(recorded):
    recording, weights, _ = recorded
    image = torch.randn(4, 64, generator=torch.Generator().manual_seed(1))
    outcome = recording.edit(image=image.numpy()).plan(on="cuda:0").run()
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    model.load_state_dict(weights)
    with torch.no_grad():
        expected = model.cuda()(image.cuda())
    comparison = outcome.compare("logits", expected, tolerance=1e-4)
    assert comparison, str(comparison)


def test_launch_of_the_model_is_tuned(recorded):
    recording, _, _ = recorded
    launches = polars.DataFrame(recording.launches())
    clamp = launches.filter(polars.col("kernel").str.contains("elementwise"))["event"][-1]
    tuning = kinescope.tune(recording.launch(clamp), {"block": [64, 128, 256]}, "f32:1e-5", on="cuda:0")
    table = polars.DataFrame(tuning)
    assert table["recorded"].any() and table.filter(polars.col("recorded"))["verdict"].item() == "right"
    assert tuning.best is not None and table["median_ns"][0] > 0
