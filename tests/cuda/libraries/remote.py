"""Runs a small kernel with one library, and prints its result: `remote.py NAME`. The part "remote" of make test-cuda
runs it natively and with the device elsewhere."""

import sys

COUNT = 1 << 16
SOURCE = """
extern "C" __global__ void scale(unsigned *values, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = values[i] * 3u + 7u;
}
"""
# Sum of i * 3 + 7.
EXPECTED = 3 * (COUNT * (COUNT - 1) // 2) + 7 * COUNT


def cuda_python():
    """The driver API, with a kernel that NVRTC compiles."""
    import array
    import ctypes

    try:
        from cuda.bindings import driver, nvrtc
    except ImportError:
        from cuda import cuda as driver, nvrtc

    def check(answer):
        error, *values = answer
        if int(error) != 0:
            raise RuntimeError(str(error))
        return values[0] if len(values) == 1 else values

    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    attribute = driver.CUdevice_attribute
    major = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = check(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"scale.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_%d%d" % (major, minor)]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    module = check(driver.cuModuleLoadData(ptx))
    kernel = check(driver.cuModuleGetFunction(module, b"scale"))
    values = array.array("I", range(COUNT))
    memory, size = values.buffer_info()[0], COUNT * values.itemsize
    on_device = check(driver.cuMemAlloc(size))
    check(driver.cuMemcpyHtoD(on_device, memory, size))
    arguments = ((int(on_device), COUNT), (ctypes.c_void_p, ctypes.c_uint))
    check(driver.cuLaunchKernel(kernel, COUNT // 256, 1, 1, 256, 1, 1, 0, 0, arguments, 0))
    check(driver.cuMemcpyDtoH(memory, on_device, size))
    check(driver.cuMemFree(on_device))
    return sum(values)


def numba():
    import numpy
    from numba import cuda

    @cuda.jit
    def scale(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] = values[i] * 3 + 7

    values = cuda.to_device(numpy.arange(COUNT, dtype=numpy.int64))
    scale[COUNT // 256, 256](values)
    return int(values.copy_to_host().sum())


def cupy():
    import cupy as cp

    values = cp.arange(COUNT, dtype=cp.uint32)
    cp.RawKernel(SOURCE, "scale")((COUNT // 256,), (256,), (values, cp.uint32(COUNT)))
    return int(values.astype(cp.uint64).sum())


def triton():
    import torch
    import triton_kernels

    values = torch.arange(COUNT, dtype=torch.int64, device="cuda")
    triton_kernels.scale[(COUNT // 256,)](values, BLOCK=256)
    return int(values.cpu().sum())


def torch():
    import torch

    return int((torch.arange(COUNT, dtype=torch.int64, device="cuda") * 3 + 7).sum())


if __name__ == "__main__":
    name = sys.argv[1]
    result = {"cuda-python": cuda_python, "numba": numba, "cupy": cupy, "triton": triton, "torch": torch}[name]()
    if result != EXPECTED:
        sys.exit(f"{name}: the sum is {result}, not {EXPECTED}")
    print(f"ok {name} sum={result}")
