#version 310 es
// Computes c = a b for square matrices of n rows (a multiple of 8), with tiles of 8 by 8 in shared memory.
precision highp float;
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
uniform uint n;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
shared float left[64];
shared float top[64];

void main() {
    uvec2 l = gl_LocalInvocationID.xy;
    uvec2 g = gl_GlobalInvocationID.xy;
    float sum = 0.0;
    for (uint tile = 0u; tile < n; tile += 8u) {
        left[l.y * 8u + l.x] = a[g.y * n + tile + l.x];
        top[l.y * 8u + l.x] = b[(tile + l.y) * n + g.x];
        barrier();
        for (uint i = 0u; i < 8u; i++) sum += left[l.y * 8u + i] * top[i * 8u + l.x];
        barrier();
    }
    c[g.y * n + g.x] = sum;
}
