#version 310 es
// Computes a 3 by 3 convolution with bias and relu. Pixels outside repeat the edge.
precision highp float;
precision highp int;
layout(local_size_x = 16, local_size_y = 4) in;
layout(std140, binding = 0) uniform Kernel { float k[9]; float bias; };
layout(std430, binding = 0) readonly buffer Src { float src[]; };
layout(std430, binding = 1) writeonly buffer Dst { float dst[]; };
uniform ivec2 size;

void main() {
    ivec2 g = ivec2(gl_GlobalInvocationID.xy);
    float sum = bias;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            ivec2 q = clamp(g + ivec2(dx, dy), ivec2(0), size - 1);
            sum += k[(dy + 1) * 3 + dx + 1] * src[q.y * size.x + q.x];
        }
    }
    dst[g.y * size.x + g.x] = max(sum, 0.0);
}
