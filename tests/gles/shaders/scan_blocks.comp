#version 310 es
// Computes running sums within blocks of 128 elements, and the sum of each block.
precision highp int;
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, binding = 1) writeonly buffer Sums { uint sums[]; };
layout(std430, binding = 2) writeonly buffer Blocks { uint blocks[]; };
shared uint part[128];

void main() {
    uint l = gl_LocalInvocationIndex;
    part[l] = values[gl_GlobalInvocationID.x];
    barrier();
    for (uint reach = 1u; reach < 128u; reach <<= 1) {
        uint before = l >= reach ? part[l - reach] : 0u;
        barrier();
        part[l] += before;
        barrier();
    }
    sums[gl_GlobalInvocationID.x] = part[l];
    if (l == 127u) blocks[gl_WorkGroupID.x] = part[l];
}
