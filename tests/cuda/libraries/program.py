"""Programs of PyTorch, Triton, CuPy and JAX, each small, ordinary and deterministic: `program.py NAME`.

Each program does its work once to warm up, then once between the marks `begin` and `end` if there is a recorder. It
prints `ok NAME checksum=<16 hex digits> second=<16 hex digits>` of all results, and of the second results alone.
"""

import contextlib
import ctypes
import os
import resource
import sys
import time

SEED = 20240607


def marker():
    """Returns the recorder's function that sets a mark, if there is a recorder."""
    with contextlib.suppress(AttributeError):
        mark = ctypes.CDLL(None).kinescope_mark
        mark.argtypes = [ctypes.c_char_p]
        return mark
    return lambda text: 0


def checksum(data):
    """Returns an FNV-1a checksum of 64 bits over blocks of eight bytes, which is fast enough in Python."""
    import numpy

    data = bytes(data)
    words = numpy.frombuffer(data + bytes(-len(data) % 8), dtype="<u8")
    value = 0xCBF29CE484222325
    for word in words.tolist():
        value = (value ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def torch_of():
    import torch

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


def bytes_of(tensor):
    return tensor.detach().float().cpu().contiguous().numpy().tobytes()


def inference(net, inputs):
    """Returns a function that runs a net on an input, which it copies to the GPU each time."""
    torch = torch_of()
    net = net.eval().cuda()

    def work():
        with torch.no_grad():
            return bytes_of(net(inputs.cuda()))

    return work


def gpt2():
    torch = torch_of()
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, n_head=8, n_embd=256, vocab_size=2000, n_positions=128)
    net = GPT2LMHeadModel(config).eval().cuda()
    words = torch.randint(0, 2000, (2, 32))

    def work():
        with torch.no_grad():
            return bytes_of(net(words.cuda()).logits)

    return work


def vit():
    torch = torch_of()
    from torchvision.models.vision_transformer import VisionTransformer

    net = VisionTransformer(64, 16, 4, 4, 128, 256, num_classes=10)
    return inference(net, torch.rand(2, 3, 64, 64))


def mobilenet():
    torch = torch_of()
    from torchvision.models import mobilenet_v3_small

    return inference(mobilenet_v3_small(), torch.rand(1, 3, 224, 224))


def resnet18():
    torch = torch_of()
    from torchvision.models import resnet18 as net

    return inference(net(), torch.rand(1, 3, 224, 224))


def training(net, inputs, targets, steps):
    torch = torch_of()
    net = net.cuda()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)

    def work():
        losses = []
        for _ in range(steps):
            adam.zero_grad(set_to_none=True)
            out = net(inputs.cuda())
            out = out[0][:, -1] if isinstance(out, tuple) else out
            loss = torch.nn.functional.mse_loss(out, targets.cuda())
            loss.backward()
            adam.step()
            losses.append(loss.detach())
        return bytes_of(torch.stack(losses))

    return work


def lstm():
    torch = torch_of()
    return training(torch.nn.LSTM(16, 32, batch_first=True), torch.rand(8, 12, 16), torch.rand(8, 32), 5)


def training_of_net(steps=5):
    torch = torch_of()
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 256, 32),
    )
    return training(net, torch.rand(16, 3, 16, 16), torch.rand(16, 32), steps)


def training1000():
    return training_of_net(1000)


def expandable():
    """Trains the net in memory that PyTorch maps itself, in segments that grow."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    torch = torch_of()
    inner = training_of_net()

    def work():
        large = torch.rand(9_000_000).cuda()
        total = bytes_of(large.cumsum(0)[::100000])
        del large
        torch.cuda.empty_cache()
        return total + inner()

    return work


def async_pool():
    """Trains the net in memory of the driver's pool."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"
    return training_of_net()


def cuda_graph():
    torch = torch_of()
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 16)).cuda().eval()
    static_input = torch.zeros(32, 64, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                net(static_input)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = net(static_input)
    inputs = [torch.rand(32, 64) for _ in range(3)]

    def work():
        all = b""
        for one in inputs:
            static_input.copy_(one)
            graph.replay()
            all += bytes_of(out)
        return all

    return work


def compiled():
    torch = torch_of()
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 16))
    net = torch.compile(net.cuda().eval())
    inputs = torch.rand(32, 64)

    def work():
        with torch.no_grad():
            return bytes_of(net(inputs.cuda()))

    return work


def triton_matmul():
    torch = torch_of()
    import triton_kernels

    a, b = torch.rand(256, 192), torch.rand(192, 128)
    return lambda: bytes_of(triton_kernels.matmul(torch, a.cuda(), b.cuda()))


def cupy_work():
    import cupy
    import numpy

    random = numpy.random.default_rng(SEED)
    values, matrix = random.random(20000, dtype=numpy.float32), random.random((96, 96), dtype=numpy.float32)
    kernel = cupy.RawKernel(
        r"""extern "C" __global__ void twice(const float* in, float* out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = 2.0f * in[i] + i;
        }""",
        "twice",
    )

    def work():
        device, square = cupy.asarray(values), cupy.asarray(matrix)
        out = cupy.empty_like(device)
        kernel((len(values) // 128 + 1,), (128,), (device, out, numpy.int32(len(values))))
        parts = [out, cupy.sort(device), cupy.cumsum(device), cupy.abs(cupy.fft.fft(device)), square @ square]
        return b"".join(cupy.asnumpy(p).astype(numpy.float32).tobytes() for p in parts)

    return work


def cupy_managed():
    """Uses managed memory that the host writes between launches, and pinned memory that a kernel reads directly."""
    import cupy
    import numpy

    cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)
    random = numpy.random.default_rng(SEED)
    values = random.random(4096, dtype=numpy.float32)
    managed = cupy.zeros(4096, dtype=cupy.float32)
    view = numpy.ctypeslib.as_array(ctypes.cast(managed.data.ptr, ctypes.POINTER(ctypes.c_float)), (4096,))
    pinned = numpy.frombuffer(cupy.cuda.alloc_pinned_memory(4096 * 4), numpy.float32, 4096)
    kernel = cupy.RawKernel(
        r"""extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = a[i] + 3.0f * b[i];
        }""",
        "add",
    )
    out = cupy.zeros(4096, dtype=cupy.float32)

    def work():
        all = b""
        for n in range(3):
            cupy.cuda.Device().synchronize()
            view[:] = values * (n + 1)
            pinned[:] = values[::-1]
            kernel((32,), (128,), (managed, ctypes.c_void_p(pinned.ctypes.data).value, out, numpy.int32(4096)))
            cupy.cuda.Device().synchronize()
            all += cupy.asnumpy(out).tobytes()
        return all

    def by_address():
        return work()

    return by_address


def jax_grad():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    import jax
    import jax.numpy as jnp
    import numpy

    random = numpy.random.default_rng(SEED)
    weights = [random.standard_normal(s).astype(numpy.float32) / 8 for s in [(32, 64), (64, 8)]]
    inputs, targets = random.random((16, 32), dtype=numpy.float32), random.random((16, 8), dtype=numpy.float32)

    @jax.jit
    def step(weights, x, y):
        def loss(weights):
            return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

        value, gradient = jax.value_and_grad(loss)(weights)
        return value, [w - 0.1 * g for w, g in zip(weights, gradient)]

    def work():
        now, losses = [jnp.asarray(w) for w in weights], []
        for _ in range(4):
            value, now = step(now, jnp.asarray(inputs), jnp.asarray(targets))
            losses.append(value)
        return b"".join(numpy.asarray(v, dtype=numpy.float32).tobytes() for v in losses + now)

    return work


PROGRAMS = {
    "gpt2": gpt2,
    "vit": vit,
    "mobilenet": mobilenet,
    "lstm": lstm,
    "expandable": expandable,
    "async_pool": async_pool,
    "cuda_graph": cuda_graph,
    "compiled": compiled,
    "triton": triton_matmul,
    "cupy": cupy_work,
    "cupy_managed": cupy_managed,
    "jax": jax_grad,
    "resnet18": resnet18,
    "training1000": training1000,
}


def main():
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in PROGRAMS:
        sys.exit(f"program.py: no program is named; expected one of {', '.join(PROGRAMS)}")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    work = PROGRAMS[name]()
    first = work()
    mark = marker()
    mark(b"begin")
    begun = time.perf_counter()
    second = work()
    took = time.perf_counter() - begun
    mark(b"end")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"figure work_s={took:.4f} peak_mib={peak // 1024}", file=sys.stderr, flush=True)
    print(f"ok {name} checksum={checksum(first + second):016x} second={checksum(second):016x}", flush=True)


if __name__ == "__main__":
    main()
