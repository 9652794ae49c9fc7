"""SAXPY on WebGPU: y = a * x + y for 4096 floats, checked against the processor.

Needs `pip install wgpu==0.32.0 numpy`. Prints the adapter and one line with the result.
"""

import sys

import numpy as np
import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

COUNT = 4096
WORKGROUP = 64
A = 2.5

SHADER = f"""
@group(0) @binding(0) var<uniform> a: vec4<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size({WORKGROUP})
fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {{
    let i = id.x;
    if (i < {COUNT}u) {{
        y[i] = a.x * x[i] + y[i];
    }}
}}
"""


def main() -> int:
    # OpenGL only: a Vulkan driver of this machine would bypass the simulator.
    set_instance_extras(backends=["GL"])
    adapter = wgpu.gpu.request_adapter_sync()
    print(f"adapter: {adapter.info['device']}, {adapter.info['description']}")
    device = adapter.request_device_sync()

    # Multiples of 1/4, so that every result is exact and the check needs no tolerance.
    x = np.arange(COUNT, dtype=np.float32) / 4
    y = np.arange(COUNT, dtype=np.float32)[::-1].copy()
    expected = np.float32(A) * x + y

    storage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    constants = np.array([A, 0, 0, 0], dtype=np.float32)
    a_buffer = device.create_buffer_with_data(data=constants, usage=wgpu.BufferUsage.UNIFORM)
    x_buffer = device.create_buffer_with_data(data=x, usage=storage)
    y_buffer = device.create_buffer_with_data(data=y, usage=storage)

    pipeline = device.create_compute_pipeline(
        layout="auto",
        compute={"module": device.create_shader_module(code=SHADER), "entry_point": "saxpy"},
    )
    buffers = enumerate([a_buffer, x_buffer, y_buffer])
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": n, "resource": {"buffer": b, "offset": 0, "size": b.size}} for n, b in buffers],
    )

    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(COUNT // WORKGROUP)
    compute.end()
    device.queue.submit([encoder.finish()])

    result = np.frombuffer(device.queue.read_buffer(y_buffer), dtype=np.float32)
    wrong = int(np.count_nonzero(result != expected))
    if wrong:
        first = int(np.flatnonzero(result != expected)[0])
        print(f"saxpy: {wrong} of {COUNT} values are wrong, first y[{first}] = {result[first]}, not {expected[first]}")
        return 1
    print(f"saxpy: {COUNT} values are correct, y[{COUNT - 1}] = {result[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
