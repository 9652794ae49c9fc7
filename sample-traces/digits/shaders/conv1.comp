#version 310 es
// First layer: a 3x3 convolution of the image into 8 channels, zeros outside, then relu. One workgroup a channel.
precision highp float;
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer Image { float image[64]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[72]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[8]; };
layout(std430, binding = 3) writeonly buffer Result { float result[512]; };

void main() {
    ivec3 g = ivec3(gl_GlobalInvocationID);
    float sum = bias[g.z];
    for (int dy = 0; dy < 3; dy++) {
        for (int dx = 0; dx < 3; dx++) {
            ivec2 q = g.xy + ivec2(dx, dy) - 1;
            ivec2 inside = clamp(q, 0, 7);
            float pixel = inside == q ? image[inside.y * 8 + inside.x] : 0.0;
            sum += weight[g.z * 9 + dy * 3 + dx] * pixel;
        }
    }
    result[g.z * 64 + g.y * 8 + g.x] = max(sum, 0.0);
}
