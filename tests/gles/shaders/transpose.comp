#version 310 es
// Transposes a matrix through tiles of 8 by 8 in shared memory.
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
uniform uvec2 size;
layout(std430, binding = 0) readonly buffer Src { uint src[]; };
layout(std430, binding = 1) writeonly buffer Dst { uint dst[]; };
shared uint tile[8 * 9];

void main() {
    uvec2 l = gl_LocalInvocationID.xy;
    uvec2 w = gl_WorkGroupID.xy * 8u;
    tile[l.y * 9u + l.x] = src[(w.y + l.y) * size.x + w.x + l.x];
    barrier();
    dst[(w.x + l.y) * size.y + w.y + l.x] = tile[l.x * 9u + l.y];
}
