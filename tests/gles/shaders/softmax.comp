#version 310 es
// Softmax of rows of 64: a workgroup a row, its greatest value and its sum found in shared memory. The two have memory
// of their own: llvmpipe of Mesa 22.3 may read `top[0]` again behind the barrier that follows its first read.
precision highp float;
precision highp int;
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
shared float top[64];
shared float part[64];

void main() {
    uint l = gl_LocalInvocationIndex;
    uint i = gl_GlobalInvocationID.x;
    float v = x[i];
    top[l] = v;
    barrier();
    for (uint reach = 32u; reach > 0u; reach >>= 1) {
        if (l < reach) top[l] = max(top[l], top[l + reach]);
        barrier();
    }
    float e = exp(v - top[0]);
    part[l] = e;
    barrier();
    for (uint reach = 32u; reach > 0u; reach >>= 1) {
        if (l < reach) part[l] += part[l + reach];
        barrier();
    }
    y[i] = e / part[0];
}
