#version 310 es
// Never ends: waits for a number that no other code writes.
precision highp int;
layout(local_size_x = 4) in;
layout(std430, binding = 0) coherent buffer X { uint go; uint x; };

void main() {
    while (atomicAdd(go, 0u) == 0u) {
    }
    x = 1u;
}
