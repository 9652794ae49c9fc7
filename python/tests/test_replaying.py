"""Edits, plans, outcomes, targets, and the plugin for pytest."""

import numpy as np
import polars
import pyarrow
import pytest

import kinescope

TARGET = "software:mali-g71"


def test_simulators_are_targets():
    names = polars.DataFrame(kinescope.targets())["board"].to_list()
    assert TARGET in names


def test_other_digit_has_other_scores(samples, digits):
    recording = kinescope.open(digits)
    digit = np.load(samples / "digits/digit.npy")
    plan = recording.edit(image=digit).plan(on=TARGET)
    assert "Actions" in str(plan) and plan.outputs == ["logits"]
    assert plan.rewrites().column_names == ["kind", "event", "detail"] and len(plan.rewrites()) > 0
    steps = []
    outcome = plan.run(progress=lambda step, fraction: steps.append((step, fraction)))
    assert outcome.matches and outcome.computed and outcome.report["reads_matched"] == 101
    assert outcome.output("logits").argmax() == 7
    assert recording.buffer("logits").numpy().argmax() == 2
    assert len(outcome.divergences()) == 0
    assert all(row["computed"] is not False for row in pyarrow.table(outcome.job_outcomes()).to_pylist())
    assert all(isinstance(step, str) for step, _ in steps)
    difference = kinescope.diff(recording, outcome.recording)
    assert "image" in difference.summary and "logits" in difference.summary
    np.testing.assert_array_equal(outcome.recording.buffer("image").numpy().ravel(), digit.ravel())


def test_outcome_recording_outlives_its_outcome(samples, tmp_path):
    outcome = kinescope.open(samples / "vecadd.kine").edit().plan(on=TARGET).run()
    outcome.save(tmp_path / "saved.kine")
    recording = outcome.recording
    del outcome
    assert recording.info() and kinescope.open(tmp_path / "saved.kine").event_count == recording.event_count


def test_wrong_inputs_and_targets_are_named(samples):
    recording = kinescope.open(samples / "vecadd.kine")
    with pytest.raises(kinescope.Error, match="nothing"):
        recording.edit(nothing=np.zeros(4, np.float32)).plan(on=TARGET)
    with pytest.raises(kinescope.Error):
        recording.edit(a=np.zeros(3, np.float32)).plan(on=TARGET)
    with pytest.raises(kinescope.TargetError):
        recording.edit().plan(on="software:nothing")
    with pytest.raises(kinescope.Error) as info:
        kinescope.open(samples / "cuda/net.kine").edit().plan(on=TARGET)
    assert isinstance(info.value, (kinescope.PlanError, kinescope.TargetError))
    assert info.value.path.endswith("net.kine")


def test_plugin_names_the_first_difference(pytester, samples):
    pytester.makepyfile(
        f"""
        import numpy as np

        def test_same(replay, assert_same):
            assert_same({str(samples / "vecadd.kine")!r}, replay({str(samples / "vecadd.kine")!r}, on={TARGET!r}))

        def test_other(replay, assert_same):
            path = {str(samples / "digits.kine")!r}
            digit = np.load({str(samples / "digits/digit.npy")!r})
            assert_same(path, replay(path, on={TARGET!r}, image=digit))
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*nput image*logits*"])


def test_input_that_does_not_fit_is_named(digits):
    """The error named a temporary file."""
    edits = kinescope.open(digits).edit(image=np.zeros((8, 8)))
    with pytest.raises(kinescope.ArgumentError, match="the input 'image'") as info:
        edits.plan(on="software:mali-g71")
    assert "input0" not in str(info.value)
