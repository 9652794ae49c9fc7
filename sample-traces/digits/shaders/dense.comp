#version 310 es
// Last layer: ten scores, each a weighted sum of all 256 values. A workgroup a score; its sum goes through shared memory.
precision highp float;
precision highp int;
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Source { float source[256]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[2560]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[10]; };
layout(std430, binding = 3) writeonly buffer Logits { float logits[10]; };
shared float part[64];

void main() {
    uint l = gl_LocalInvocationIndex;
    uint score = gl_WorkGroupID.x;
    float sum = 0.0;
    for (uint i = l; i < 256u; i += 64u) sum += weight[score * 256u + i] * source[i];
    part[l] = sum;
    barrier();
    for (uint reach = 32u; reach > 0u; reach >>= 1) {
        if (l < reach) part[l] += part[l + reach];
        barrier();
    }
    if (l == 0u) logits[score] = part[0] + bias[score];
}
