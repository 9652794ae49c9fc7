#version 310 es
// Adds the sums of all earlier blocks to the running sums of a block.
precision highp int;
layout(local_size_x = 128) in;
layout(std430, binding = 1) buffer Sums { uint sums[]; };
layout(std430, binding = 2) readonly buffer Blocks { uint blocks[]; };

void main() {
    uint before = 0u;
    for (uint b = 0u; b < gl_WorkGroupID.x; b++) before += blocks[b];
    sums[gl_GlobalInvocationID.x] += before;
}
