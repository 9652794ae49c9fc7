#version 310 es
// Computes in arithmetic that can use 16-bit floats.
precision mediump float;
precision highp int;
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer O { float o[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    mediump float x = a[i];
    mediump float y = b[i];
    mediump float product = max(x * y + 0.5, -2.0);
    mediump float between = mix(x, y, 0.25);
    o[i] = x < y ? product : min(abs(between), 3.0) - product;
}
