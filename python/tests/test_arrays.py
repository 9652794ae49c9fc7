"""Outputs as arrays of other libraries, and comparisons with a tolerance."""

import numpy as np
import pytest

import kinescope
from kinescope.arrays import compare_arrays, to_numpy


class OnlyDlpack:
    """An array of another library that offers nothing but DLPack."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class OnDevice(OnlyDlpack):
    """An array in device memory, as PyTorch has them."""

    def __init__(self, array):
        super().__init__(array, (2, 0))

    def __dlpack__(self, **options):
        raise BufferError("the host cannot read this memory")

    def cpu(self):
        return OnlyDlpack(self.array)


def test_output_is_compared_with_arrays_of_other_libraries(digits):
    outcome = kinescope.open(digits).edit().plan(on="software:mali-g71").run()
    logits = outcome.output("logits")
    shared = np.from_dlpack(logits)
    assert np.shares_memory(shared, logits)
    for tensor in (OnlyDlpack(logits), OnDevice(logits), logits, logits.tolist()):
        expected = np.asarray(tensor, np.float32) if isinstance(tensor, list) else tensor
        assert outcome.compare("logits", expected).same
    other = logits.copy()
    other.flat[3] += np.float32(0.5)
    comparison = outcome.compare("logits", OnDevice(other))
    assert not comparison and (comparison.differing, comparison.first) == (1, 3)
    assert comparison.largest == pytest.approx(0.5) and "element 3" in str(comparison)
    assert outcome.compare("logits", OnlyDlpack(other), tolerance=(0.51, 0.0))
    with pytest.raises(kinescope.ReplayError, match="no output"):
        outcome.compare("nothing", logits)


def test_array_on_an_unknown_device_is_refused():
    array = np.ones(3, np.float32)
    with pytest.raises(kinescope.ArgumentError, match="device type 10"):
        to_numpy(OnlyDlpack(array, (10, 0)))


def test_tolerance_is_the_rule_of_the_program():
    a = np.array([1.0, 100.0, np.nan, np.inf, -0.0], np.float32)
    assert compare_arrays(a, a.copy()).same
    near = np.array([1.00001, 100.0005, np.nan, np.inf, 0.0], np.float32)
    assert compare_arrays(a, near).differing == 2
    # The larger limit counts: 1e-5 of 100 is 1e-3.
    assert compare_arrays(a, near, 1.1e-5).same
    assert compare_arrays(a, near, (1e-3, 0.0)).same
    assert compare_arrays(a, near, (1e-6, 0.0)).differing == 2
    assert compare_arrays(np.array([np.inf]), np.array([1e300]), 1.0).differing == 1
    large = np.array([2**63 + 1], np.uint64)
    assert compare_arrays(large, large - 1).differing == 1 and compare_arrays(large, large - 1, (1, 0)).same
    # Bytes are taken as elements of the expected type.
    assert compare_arrays(a, a.view(np.uint8)).same
    for wrong in (np.zeros(3, np.float32), a.astype(np.float64)):
        with pytest.raises(kinescope.ArgumentError):
            compare_arrays(a, wrong)
    for tolerance in (-1.0, float("nan"), (1.0,)):
        with pytest.raises(kinescope.ArgumentError, match="tolerance"):
            compare_arrays(a, a, tolerance)
