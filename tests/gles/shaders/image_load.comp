#version 310 es
// Adds each pixel of an image and the pixel below it. The first row is below the last row.
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
layout(r32ui, binding = 0) readonly uniform highp uimage2D source;
layout(std430, binding = 0) writeonly buffer Sums { uint sums[]; };

void main() {
    ivec2 g = ivec2(gl_GlobalInvocationID.xy);
    ivec2 size = imageSize(source);
    uint here = imageLoad(source, g).x;
    uint below = imageLoad(source, ivec2(g.x, (g.y + 1) % size.y)).x;
    sums[g.y * size.x + g.x] = here + below;
}
