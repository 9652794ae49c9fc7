#version 310 es
// Third layer: a 3x3 convolution of 8 channels of 4x4 into 16, zeros outside, then relu. One workgroup a channel.
precision highp float;
precision highp int;
layout(local_size_x = 4, local_size_y = 4) in;
layout(std430, binding = 0) readonly buffer Source { float source[128]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[1152]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[16]; };
layout(std430, binding = 3) writeonly buffer Result { float result[256]; };

void main() {
    ivec3 g = ivec3(gl_GlobalInvocationID);
    float sum = bias[g.z];
    for (int c = 0; c < 8; c++) {
        for (int dy = 0; dy < 3; dy++) {
            for (int dx = 0; dx < 3; dx++) {
                ivec2 q = g.xy + ivec2(dx, dy) - 1;
                ivec2 inside = clamp(q, 0, 3);
                float value = inside == q ? source[c * 16 + inside.y * 4 + inside.x] : 0.0;
                sum += weight[(g.z * 8 + c) * 9 + dy * 3 + dx] * value;
            }
        }
    }
    result[g.z * 16 + g.y * 4 + g.x] = max(sum, 0.0);
}
