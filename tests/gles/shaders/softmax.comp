#version 310 es
// Computes the softmax of rows of 64. A workgroup finds the maximum and the sum of a row, in separate shared arrays:
// llvmpipe of Mesa 22.3 can read `top[0]` again after the barrier that follows its first read.
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
