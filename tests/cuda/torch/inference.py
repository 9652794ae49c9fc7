"""Shared code of the programs here: one inference of a net on the GPU, with options, marks and times.

The program copies the weights to the GPU first. An inference is one copy of the input to the GPU, the net, and one copy
of the output back. The arithmetic settings give the same bytes in each run.
"""

import argparse
import ast
import contextlib
import ctypes
import os
import statistics
import struct
import sys
import time
import warnings

LOADED = time.perf_counter()
WEIGHTS_SEED = 20240607
MAGIC = b"\x93NUMPY"


def options_of(name):
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--input", metavar="F.npy", help="the input, instead of one from the seed")
    parser.add_argument("--output", metavar="F.npy", help="file for the output")
    parser.add_argument("--seed", type=int, default=1, help="seed of the input (1)")
    parser.add_argument("--iterations", type=int, default=1, metavar="N", help="inferences, the marked one first (1)")
    parser.add_argument("--warmup", type=int, default=0, metavar="N", help="inferences before the marked one (0)")
    parser.add_argument(
        "--precision",
        choices=["ieee", "tf32"],
        default="tf32",
        help="precision of convolutions: factors rounded to TF32, which is PyTorch's default (tf32), "
        "or IEEE single precision (ieee)",
    )
    parser.add_argument("--pinned", action="store_true", help="input and output in pinned memory of the host")
    parser.add_argument("--time", action="store_true", help="print times; needs more than one iteration")
    parser.add_argument("--check", action="store_true", help="compare with the same net on the processor")
    options = parser.parse_args()
    if options.iterations < 1 or options.warmup < 0:
        parser.error("--iterations needs one or more, --warmup zero or more")
    return options


def fail(name, text):
    sys.exit(f"{name}: {text}")


def since_process_start():
    """Returns the seconds since the start of this process, or since the import of this file if that is unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        with open("/proc/self/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        passed = time.clock_gettime(time.CLOCK_BOOTTIME) - started
        if 0 < passed < 24 * 3600:
            return passed
    return time.perf_counter() - LOADED


def read_npy(path):
    """Returns the shape and the bytes of an array of floats, without numpy."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != MAGIC or len(data) < 12:
        raise ValueError("not an .npy file")
    wide = data[6] > 1
    (length,) = struct.unpack_from("<I" if wide else "<H", data, 8)
    start = 12 if wide else 10
    header = ast.literal_eval(data[start : start + length].decode("latin1"))
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError("not little-endian floats of 4 bytes in C order")
    return tuple(header["shape"]), data[start + length :]


def write_npy(path, shape, data):
    header = repr({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(MAGIC) + 4 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1") + data)


def checksum(data):
    """Returns the FNV-1a checksum of 64 bits, as in the other programs."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def marker():
    """Returns the recorder's function that sets a mark, if there is a recorder and marks are requested."""
    if os.environ.get("KINESCOPE_MARKS") == "1":
        with contextlib.suppress(AttributeError):
            mark = ctypes.CDLL(None).kinescope_mark
            mark.argtypes = [ctypes.c_char_p]
            mark.restype = ctypes.c_int
            return mark
    return lambda text: 0


def same_each_time(torch, precision):
    """Disables nondeterministic algorithms and choices by speed, and sets the precision of convolutions."""
    backends = torch.backends
    backends.cudnn.deterministic = True
    backends.cudnn.benchmark = False
    # Old names are set before new names, so that code that reads an old name finds equal settings.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backends.cudnn.allow_tf32 = precision == "tf32"
        backends.cuda.matmul.allow_tf32 = False
    if hasattr(backends.cudnn, "conv"):
        backends.cudnn.conv.fp32_precision = precision
        backends.cudnn.rnn.fp32_precision = "ieee"
        backends.cuda.matmul.fp32_precision = "ieee"


def bytes_of(tensor):
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def times_of(work, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - begin) / 1000)
    return times


def describe(name, times):
    return (
        f"{name}_us mean={statistics.fmean(times):.1f} median={statistics.median(times):.1f} "
        f"min={min(times):.1f} count={len(times)}"
    )


def run(name, make_net, input_shape, output_shape):
    options = options_of(name)
    import torch

    imported = since_process_start()
    if not torch.cuda.is_available():
        fail(name, "PyTorch finds no CUDA device")
    same_each_time(torch, options.precision)
    mark = marker()

    def new_net():
        torch.manual_seed(WEIGHTS_SEED)
        return make_net(torch).eval()

    if options.input:
        try:
            shape, data = read_npy(options.input)
        except (OSError, ValueError, KeyError, SyntaxError, struct.error) as error:
            fail(name, f"{options.input}: {error}")
        count = 4 * torch.Size(input_shape).numel()
        if shape != tuple(input_shape) or len(data) != count:
            fail(name, f"{options.input}: shape {shape}, not {tuple(input_shape)}")
        host_input = torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(input_shape)
    else:
        host_input = torch.rand(input_shape, generator=torch.Generator().manual_seed(options.seed))
    host_output = torch.zeros(output_shape)
    if options.pinned:
        host_input = host_input.pin_memory()
        host_output = host_output.pin_memory()

    with torch.no_grad():
        net = new_net().to("cuda")
        device_input = torch.empty(input_shape, device="cuda")
        torch.cuda.synchronize()

        def infer():
            device_input.copy_(host_input, non_blocking=options.pinned)
            host_output.copy_(net(device_input), non_blocking=options.pinned)
            torch.cuda.synchronize()

        def forward():
            net(device_input)
            torch.cuda.synchronize()

        first_output = None
        for _ in range(options.warmup):
            infer()
            first_output = first_output or since_process_start()
        mark(b"begin")
        infer()
        mark(b"end")
        first_output = first_output or since_process_start()
        output = bytes_of(host_output)

        steady = times_of(infer, options.iterations - 1)
        if bytes_of(host_output) != output:
            fail(name, "the last output differs from the first")
        if options.time:
            line = f"time first_output_s={first_output:.3f} import_s={imported:.3f}"
            if steady:
                line += f" {describe('inference', steady)} {describe('forward', times_of(forward, len(steady)))}"
            print(line)

        if options.check:
            right = new_net()(host_input)
            if not torch.allclose(host_output, right, rtol=1e-3, atol=1e-3 * float(right.abs().max())):
                fail(name, f"the output is {float((host_output - right).abs().max()):g} off the processor's")

    if options.output:
        write_npy(options.output, output_shape, output)
    print(f"ok {name} checksum={checksum(output):016x}")
