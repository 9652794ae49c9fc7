#version 310 es
// Computes c = a b for square matrices of n rows, one element per invocation, with all reads from memory.
precision highp float;
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
uniform uint n;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };

void main() {
    uvec2 g = gl_GlobalInvocationID.xy;
    float sum = 0.0;
    for (uint i = 0u; i < n; i++) sum += a[g.y * n + i] * b[i * n + g.x];
    c[g.y * n + g.x] = sum;
}
