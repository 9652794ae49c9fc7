#version 310 es
// Counts the values in each of 64 bins, first in shared memory, then in the bins.
precision highp int;
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, binding = 1) buffer Bins { uint bins[64]; };
shared uint mine[64];

void main() {
    uint l = gl_LocalInvocationIndex;
    if (l < 64u) mine[l] = 0u;
    barrier();
    uint v = values[gl_GlobalInvocationID.x] * 2654435761u;
    atomicAdd(mine[v >> 26], 1u);
    barrier();
    if (l < 64u && mine[l] != 0u) atomicAdd(bins[l], mine[l]);
}
