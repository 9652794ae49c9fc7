#version 310 es
// Doubles each number.
precision highp int;
layout(local_size_x = 64) in;
uniform uint n;
layout(std430, binding = 0) buffer X { uint x[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) x[i] = 2u * x[i];
}
