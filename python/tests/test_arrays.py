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


def result(expected, got, tolerance=None):
    """Returns the number of different elements, the first of them, and the largest distance."""
    comparison = compare_arrays(expected, got, tolerance)
    assert comparison.same == bool(comparison) == (comparison.differing == 0) == (comparison.first is None)
    return comparison.differing, comparison.first, comparison.largest


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.clongdouble])
def test_imaginary_parts_are_compared(dtype):
    a = np.array([1 + 2j, 1 + 3j, 5j], dtype)
    assert result(a, a.copy()) == (0, None, 0.0)
    assert result(a, a.real.astype(dtype)) == (3, 0, 5.0)
    assert result(a, a + dtype(1e-3j)) == (3, 0, pytest.approx(1e-3, rel=1e-3))
    # The distance is that of the complex plane.
    assert result(a, a + dtype(3 + 4j), (4.9, 0))[0] == 3 and result(a, a + dtype(3 + 4j), (5.0001, 0))[0] == 0
    assert result(a, a * dtype(1 + 0.5j), (0, 0.5001))[0] == 0 and result(a, a * dtype(1 + 0.5j), (0, 0.4999))[0] == 3
    strange = np.array([complex(np.nan, 1), complex(1, np.inf), complex(np.inf, np.nan)], dtype)
    assert result(strange, strange.copy())[0] == 0
    other = np.array([complex(np.nan, 2), complex(1, -np.inf), complex(np.inf, 0)], dtype)
    for tolerance in (None, 1e6):
        assert result(strange, other, tolerance)[:2] == (3, 0)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_integers_are_compared_exactly(dtype):
    limits = np.iinfo(dtype)
    a = np.array([limits.min, limits.max, limits.max - 1, 0, 7], dtype)
    assert result(a, a.copy(), 0) == (0, None, 0.0)
    assert result(a, a[[0, 2, 1, 3, 4]]) == (2, 1, 1.0)
    assert result(a, a[[0, 2, 1, 3, 4]], (1, 0)) == (0, None, 1.0)
    # The whole range of the type is a distance without overflow.
    whole = int(limits.max) - int(limits.min)
    assert result(a[:1], a[1:2]) == (1, 0, float(whole)) == result(a[:1], a[1:2], (whole * 0.999, 0))
    assert result(a[:1], a[1:2], (float(whole), 0))[0] == 0
    # The relative limit is a part of the expected magnitude: 3.5 and 3.75 of 7.
    assert result(a[4:], a[4:] - dtype(3), (0, 0.5))[0] == 0 and result(a[4:], a[4:] - dtype(4), (0, 0.5))[0] == 1
    if limits.min:
        assert result(a[:1], a[:1] + dtype(1), (0, 1.0))[0] == 0


@pytest.mark.parametrize("tolerance", [None, 0, 0.0, (0, 0), 1e-30, 0.5, (0.999, 0)])
def test_neighbours_of_64_bits_differ(tolerance):
    for value, dtype in ((2**63, np.uint64), (2**53, np.uint64), (2**64 - 2, np.uint64), (2**62, np.int64)):
        a = np.array([value], dtype)
        relative = tolerance == 0.5
        assert result(a, a + dtype(1), tolerance)[::2] == (0 if relative else 1, 1.0), (value, tolerance)
        assert result(a + dtype(1), a, tolerance)[::2] == (0 if relative else 1, 1.0), (value, tolerance)
    low = np.array([-(2**63)], np.int64)
    assert result(low, low + 1, (0.9, 0)) == (1, 0, 1.0)


def test_long_doubles_keep_their_digits():
    a = np.array([1], np.longdouble)
    if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps:
        near = np.nextafter(a, np.longdouble(2))
        assert result(a, near)[0] == 1 and result(a, near, 1e-30)[0] == 1 and result(a, near, 1e-15)[0] == 0
    assert result(a, a.copy()) == (0, None, 0.0) and result(a, a + 1) == (1, 0, 1.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_numbers_that_are_not_finite(dtype):
    a = np.array([np.nan, np.inf, -np.inf, np.inf, np.nan, 1, 0], dtype)
    assert result(a, a.copy()) == (0, None, 0.0)
    b = np.array([1, 1, np.inf, np.nan, np.inf, np.nan, -0.0], dtype)
    for tolerance in (None, 1e9, (1e300, 1e300)):
        assert result(a, b, tolerance) == (6, 0, 0.0)
    assert result(np.array([-np.nan], dtype), np.array([np.nan], dtype))[0] == 0
    # A distance that no number holds is not within a limit.
    far = np.array([np.finfo(np.float64).max])
    assert result(far, -far, (0, 10.0))[0] == 1


def test_truth_values_are_compared():
    a = np.array([True, False, True])
    assert result(a, a.copy()) == (0, None, 0.0) and result(a, ~a) == (3, 0, 1.0)
    assert result(a, ~a, 1)[0] == 0
    # Bytes of a device are true if they are not 0.
    assert result(a, np.array([255, 0, 1], np.uint8))[0] == 0 and result(a, np.array([255, 1, 0], np.uint8))[:2] == (2, 1)


@pytest.mark.parametrize("dtype", "?bBhHiIqQefdgFDG")
def test_empty_arrays_are_the_same(dtype):
    for shape in ((0,), (3, 0), (0, 4)):
        for tolerance in (None, 1.0):
            assert result(np.zeros(shape, dtype), np.zeros(0, dtype), tolerance) == (0, None, 0.0)
    with pytest.raises(kinescope.ArgumentError, match="0 elements"):
        compare_arrays(np.zeros(0, dtype), np.zeros(1, dtype))


def test_shapes_may_differ_in_all_but_the_order_of_sides():
    a = np.arange(12, dtype=np.float32)
    for shape in ((12,), (1, 12), (3, 4), (2, 6), (1, 3, 4), (3, 2, 2)):
        assert result(a.reshape(shape), a)[0] == result(a, a.reshape(shape))[0] == 0
        assert result(a.reshape(3, 4), a.reshape(shape))[0] == 0
    # The order is that of the indices, whatever the memory is.
    assert result(np.asfortranarray(a.reshape(3, 4)), a)[0] == 0 and result(a.reshape(3, 4).T, a)[0] == 10
    assert result(a[::-1], a[::-1].copy())[0] == 0 and result(np.float32(3), a[3:4])[0] == 0
    with pytest.raises(kinescope.ArgumentError, match=r"\(4, 3\).*\(3, 4\).*order"):
        compare_arrays(a.reshape(4, 3), a.reshape(3, 4))
    with pytest.raises(kinescope.ArgumentError, match="12 elements.*11"):
        compare_arrays(a, a[:11])


def test_other_byte_orders_are_compared_by_value():
    a = np.array([1.5, -2, 3e7], np.float32)
    assert result(a.astype(">f4"), a)[0] == result(a, a.astype(">f4"))[0] == 0
    # The bytes of a device are little-endian.
    assert result(a.astype(">f4"), a.view(np.uint8))[0] == 0


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, "i4,f4"),
        np.array([1, None], object),
        np.array(["a", "b"]),
        np.array([b"a", b"b"]),
        np.array([1, 2], "datetime64[s]"),
        np.array([1, 2], "timedelta64[s]"),
        np.zeros(2, "V4"),
    ],
    ids=lambda a: str(a.dtype),
)
def test_elements_that_are_no_numbers_are_refused(array):
    for tolerance in (None, 1.0):
        with pytest.raises(kinescope.ArgumentError, match="no numbers"):
            compare_arrays(array, array.copy(), tolerance)
    with pytest.raises(kinescope.ArgumentError):
        compare_arrays(array, np.zeros(2, np.float32))
    if not array.dtype.hasobject:
        with pytest.raises(kinescope.ArgumentError, match="no numbers"):
            compare_arrays(array, np.zeros(array.nbytes, np.uint8))


def test_tolerances_that_are_none_are_refused():
    a = np.zeros(3, np.float32)
    for tolerance in (
        [1e-6, 1e-4],
        [1e-6],
        [],
        (),
        (1.0, 2.0, 3.0),
        (1.0, None),
        ("1", "2"),
        "1e-5",
        b"1",
        True,
        (False, True),
        1j,
        np.inf,
        (0.0, np.inf),
        -1,
        (0, -1e-9),
        {"absolute": 1},
        np.array([1.0, 2.0]),
        np.array(1.0),
        10**400,
        object(),
    ):
        with pytest.raises(kinescope.ArgumentError, match="no tolerance"):
            compare_arrays(a, a, tolerance)
    for tolerance in (np.float32(0.5), np.int64(1), (np.float16(0.5), 0), 10**300):
        assert compare_arrays(a, a + np.float32(0.25), tolerance).same


def test_objects_that_are_no_arrays_are_refused():
    for wrong in ([[1], [1, 2]], [1, "a", None], object(), None):
        with pytest.raises(kinescope.ArgumentError):
            compare_arrays(wrong, np.zeros(2))
        with pytest.raises(kinescope.ArgumentError):
            compare_arrays(np.zeros(2), wrong)


def test_text_of_a_comparison_names_elements_without_a_distance():
    a = np.array([1, 2, 3, 4], np.float32)
    b = np.array([1, np.nan, np.inf, 4.5], np.float32)
    comparison = kinescope.arrays.compare_arrays(a, b)
    assert (comparison.differing, comparison.without_distance, comparison.largest) == (3, 2, 0.5)
    assert str(comparison).endswith("is 0.5 without 2 where one of the two is infinite or not a number")
    assert kinescope.arrays.compare_arrays(b, b).without_distance == 0
