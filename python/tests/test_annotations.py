"""Ranges and names of a recorded program: in a process of the stand-in driver, and in a process without a recorder."""

import subprocess
import sys

import numpy as np
import polars
import pytest

import kinescope

# A program that copies an input through the device. Its tensors look like those of PyTorch.
PROGRAM = """
import ctypes, sys, threading
import numpy as np
import kinescope

driver = ctypes.CDLL("libcuda.so.1")
u64 = ctypes.c_uint64
for name in ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2"):
    pointers = {"H": ctypes.c_void_p, "D": u64}
    getattr(driver, name).argtypes = [pointers[name[11]], pointers[name[8]], ctypes.c_size_t]

class Tensor:
    def __init__(self, address, shape):
        self.address, self.shape, self.dtype = address, shape, "torch.float32"
        self.device = type("device", (), {"type": "cuda"})
    def data_ptr(self): return self.address
    def element_size(self): return 4
    def nelement(self): return int(np.prod(self.shape))
    def is_contiguous(self): return True

def check(result):
    assert result == 0, result

assert kinescope.is_recorded() == (sys.argv[1] == "recorded")
with kinescope.range("start"):
    check(driver.cuInit(0))
    device, context, base = ctypes.c_int(), ctypes.c_void_p(), u64()
    check(driver.cuDeviceGet(ctypes.byref(device), 0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(driver.cuCtxSetCurrent(context))
    check(driver.cuMemAlloc_v2(ctypes.byref(base), ctypes.c_size_t(4096)))

x = np.arange(10, dtype=np.float32).reshape(2, 5)
bias = np.ones(4, np.float32)
logits, result = base.value + 512, np.zeros((2, 5), np.float32)

@kinescope.range("upload")
def upload():
    kinescope.name("bias", bias)
    check(driver.cuMemcpyHtoD_v2(base.value + 1024, bias.ctypes.data, bias.nbytes))
    check(driver.cuMemcpyHtoD_v2(base.value, x.ctypes.data, x.nbytes))
    kinescope.name("x", Tensor(base.value, (2, 5)))

upload()
try:
    with kinescope.range("inference"):
        thread = threading.Thread(target=upload)
        thread.start()
        thread.join()
        check(driver.cuMemcpyDtoD_v2(logits, base.value, x.nbytes))
        kinescope.name("logits", Tensor(logits, (2, 5)))
        raise LookupError
except LookupError:
    kinescope.mark("an exception")
check(driver.cuMemcpyDtoH_v2(result.ctypes.data, logits, x.nbytes))
assert (result == x).all()
for wrong in ("in0", ""):
    try:
        kinescope.name(wrong, x)
        assert not kinescope.is_recorded() and wrong
    except kinescope.ArgumentError:
        pass
check(driver.cuCtxSynchronize())
print("done")
"""


@pytest.fixture
def recorded(stand_in, program, tmp_path):
    """Returns the recording of the program."""
    (tmp_path / "program.py").write_text(PROGRAM)
    to = tmp_path / "program.kine"
    words = [program, "record", "--with", "cuda", "-o", to, "--", sys.executable, tmp_path / "program.py", "recorded"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "done" in done.stdout, done
    return kinescope.open(to)


def test_ranges_and_names_are_recorded(recorded):
    ranges = polars.DataFrame(recorded.ranges())
    assert ranges["name"].to_list() == ["start", "upload", "inference"]
    assert ranges["times"].to_list() == [1, 2, 1]
    assert (ranges["first_event"] < ranges["last_event"]).all()
    buffers = {row["name"]: row for row in polars.DataFrame(recorded.buffers()).iter_rows(named=True)}
    assert {name: row["type"] for name, row in buffers.items()} == {"bias": "f32", "x": "f32", "logits": "f32"}
    assert buffers["logits"]["va"] - buffers["x"]["va"] == 512
    x = recorded.buffer("x").numpy()
    np.testing.assert_array_equal(x, np.arange(10, dtype=np.float32).reshape(2, 5))
    np.testing.assert_array_equal(recorded.buffer("bias").numpy(), np.ones(4, np.float32))
    notes = polars.DataFrame(recorded.events()).filter(polars.col("means") == 'mark "an exception"')
    inference = ranges.row(2, named=True)
    assert notes["event"].item() > inference["last_event"]


def test_named_input_changes_the_named_output_on_a_device(recorded):
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    outcome = recorded.edit(x=x).plan(on="cuda:0").run()
    logits = outcome.output("logits")
    assert (logits.dtype, logits.shape) == (np.float32, (2, 5))
    np.testing.assert_array_equal(np.from_dlpack(logits), x)
    assert outcome.compare("logits", x).same and not outcome.compare("logits", x + 1).same
    assert polars.DataFrame(outcome.recording.ranges())["name"].to_list() == ["start", "upload", "inference"]


def test_annotations_do_nothing_without_a_recorder(stand_in, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, tmp_path / "program.py", "alone"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "done\n", done


def test_arrays_that_cannot_be_named_are_refused():
    matrix = np.zeros((4, 4), np.float32)
    with pytest.raises(kinescope.ArgumentError, match="not contiguous"):
        kinescope.name("matrix", matrix.T[1:])
    with pytest.raises(kinescope.ArgumentError, match="without elements"):
        kinescope.name("nothing", matrix[:0])
    with pytest.raises(kinescope.ArgumentError, match="list"):
        kinescope.name("list", [1, 2])
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(kinescope.ArgumentError, match="1 to 200"):
            kinescope.name(name, matrix)
        with pytest.raises(kinescope.ArgumentError, match="1 to 200"), kinescope.range(name):
            pass
