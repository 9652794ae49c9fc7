"""Replays and tuning on a CUDA device, which is the stand-in for the driver."""

import json
import os
import subprocess
import sys

import numpy as np
import polars
import pytest

import kinescope
from conftest import press_ctrl_c


@pytest.fixture
def net(samples, stand_in, monkeypatch):
    """Returns the recording of a small network, on a device with computed times."""
    monkeypatch.setenv("STAND_IN_PACE", "1")
    return kinescope.open(samples / "cuda/net.kine")


def test_candidates_are_ranked_by_their_times(net):
    tuning = kinescope.tune(net.launch("layer:0"), {"block": range(32, 257, 32), "grid": [1, 2]}, "f32:1e-5")
    table = polars.DataFrame(tuning)
    assert len(table) == len(tuning) == 16 and table["recorded"].sum() == 1
    assert table["rank"].to_list() == list(range(1, 17)) and table["median_ns"].is_sorted()
    assert table["block"][0].to_list() == tuning.best["block"] == [256, 1, 1]
    assert table["speed_up"][0] == pytest.approx(tuning.speed_up) and tuning.speed_up > 1
    assert "layer" in repr(tuning) and tuning.report["ended"] == "done"


def test_wrong_candidates_have_no_rank(stand_in, client, program, tmp_path):
    to = tmp_path / "wrong.kine"
    words = [program, "record", "--with", "cuda", "-o", to, "--", client, "wrong_for_some"]
    subprocess.run(words, capture_output=True, check=True)
    launch = kinescope.open(to).launch("tile_sums")
    table = polars.DataFrame(kinescope.tune(launch, {"block": "32,48", "grid": [8, 16]}))
    wrong = table.filter(polars.col("verdict") != "right")
    assert 0 < len(wrong) < len(table)
    assert wrong["rank"].null_count() == len(wrong) and wrong["why"].null_count() == 0
    assert table["verdict"][0] == "right"


def test_wrong_arguments_are_refused(net):
    for space, message in [({"blok": [32]}, "no axis"), ({"block": []}, "empty"), ({"block": "x"}, "--block")]:
        with pytest.raises(kinescope.ArgumentError, match=message):
            kinescope.tune(net.launch("layer:0"), space)
    with pytest.raises(kinescope.Error, match="nothing"):
        kinescope.tune(net.launch("nothing"), {"block": [32]})
    with pytest.raises(kinescope.Error):
        kinescope.tune(net.launch("layer:0"), {"block": [32]}, on="software:mali-g71")


def find_bounds(launch, bounds):
    """Returns the launch bounds of the candidates."""
    return [point["launch_bounds"] for point in kinescope.tune(launch, {"launch_bounds": bounds}).report["points"]]


def test_launch_bounds_are_those_of_cuda(net):
    """A tuple is what `__launch_bounds__` takes: maximum threads of a block, minimum blocks on a multiprocessor."""
    launch = net.launch("layer:0")
    for bounds, expected in (
        ((256, 4), [[256, 4]]),
        ((256,), [[256, 0]]),
        (256, [[256, 0]]),
        ("256,4", [[256, 4]]),
        ([256, 512], [[256, 0], [512, 0]]),
        ([(256, 4), [512, 2], 1024, "512,1"], [[256, 4], [512, 2], [1024, 0], [512, 1]]),
        (((256, 4), (512, 2)), [[256, 4], [512, 2]]),
        (range(256, 769, 256), [[256, 0], [512, 0], [768, 0]]),
        (np.int64(256), [[256, 0]]),
        ((np.int32(256), np.int32(4)), [[256, 4]]),
        (np.array([256, 512]), [[256, 0], [512, 0]]),
        (np.array([[256, 4], [512, 2]]), [[256, 4], [512, 2]]),
    ):
        assert find_bounds(launch, bounds) == expected, bounds
    for wrong in ((256, 4, 2), (64, 128, 256, 512), [], (), [()], [(1, 2, 3)], (256, 4.0), (256, -1), None, 1.5, [None]):
        with pytest.raises(kinescope.ArgumentError, match="launch.bound"):
            find_bounds(launch, wrong)


def test_values_of_an_axis_are_numbers_lists_and_texts(net):
    launch = net.launch("layer:0")
    for values in ([64, 128], (64, 128), "64,128", "64..=128", range(64, 129, 64), np.array([64, 128]), {64: 1, 128: 2}):
        points = kinescope.tune(launch, {"block": values}).report["points"]
        assert sorted(point["block"][0] for point in points) == [64, 128], values
    for values in (64, np.int32(64), [np.uint8(64)], iter([64]), "64"):
        points = kinescope.tune(launch, {"block": values}, options=["--repeat", 2]).report["points"]
        assert [point["block"][0] for point in points] == [64], values
    for axis, wrong in (
        ("block", 64.0),
        ("block", [64.0]),
        ("block", None),
        ("block", True),
        ("block", -64),
        ("block", b"64"),
        ("block", np.array([64.0])),
        ("cache", ["l3"]),
        ("cache", 5),
        ("module", []),
        ("module", [5]),
        ("module", 5),
        (5, [64]),
    ):
        with pytest.raises(kinescope.ArgumentError):
            kinescope.tune(launch, {axis: wrong})


def test_recording_replays_in_a_worker_process(net):
    outcome = net.edit().plan(on="cuda:0").run()
    assert outcome.matches and set(outcome.outputs) == {"out0", "out0.1"}
    report = net.report("replay", "--on", "cuda:0", "--graph")
    assert report["calls"]["graph"] is True


TUNE_UNTIL_INTERRUPTED = """
import kinescope, sys
launch = kinescope.open(sys.argv[1]).launch("layer:0")
print("ready", flush=True)
try:
    kinescope.tune(launch, {"block": range(1, 1025)}, options=["--repeat", "10000"])
except KeyboardInterrupt:
    print("stopped")
"""


def test_interrupt_stops_a_tuning(net):
    assert press_ctrl_c(TUNE_UNTIL_INTERRUPTED, net.path) == "stopped\n"


def test_module_is_the_command_line(samples, run_json):
    script = os.path.join(os.path.dirname(sys.executable), "kinescope")
    for command in ([sys.executable, "-m", "kinescope"], [script]):
        words = [*command, "info", str(samples / "vecadd.kine"), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        expected, _ = run_json("info", samples / "vecadd.kine")
        assert done.returncode == 0 and json.loads(done.stdout) == expected, done
    words = [script, "diff", samples / "vecadd.kine", samples / "saxpy.kine"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 1
    refused = subprocess.run([script, "nothing"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "nothing" in refused.stderr
