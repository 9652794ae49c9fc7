#version 310 es
// Computes y = k x + y for the first n elements.
precision highp float;
precision highp int;
layout(local_size_x = 64) in;
uniform float k;
uniform uint n;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) buffer Y { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) y[i] = k * x[i] + y[i];
}
