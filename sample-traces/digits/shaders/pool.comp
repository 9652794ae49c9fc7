#version 310 es
// Second layer: the greatest of each 2x2 pixels, in each of 8 channels.
precision highp float;
precision highp int;
layout(local_size_x = 4, local_size_y = 4, local_size_z = 8) in;
layout(std430, binding = 0) readonly buffer Source { float source[512]; };
layout(std430, binding = 1) writeonly buffer Result { float result[128]; };

void main() {
    uvec3 g = gl_GlobalInvocationID;
    uint at = g.z * 64u + g.y * 16u + g.x * 2u;
    float upper = max(source[at], source[at + 1u]);
    float lower = max(source[at + 8u], source[at + 9u]);
    result[g.z * 16u + g.y * 4u + g.x] = max(upper, lower);
}
