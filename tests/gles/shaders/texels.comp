#version 310 es
// Writes the texels of a texture of colours as bytes.
precision highp float;
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) uniform highp sampler2D colours;
layout(std430, binding = 0) writeonly buffer O { uint o[]; };

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    ivec2 size = textureSize(colours, 0);
    // In the centre of a texel, the filter returns only this texel.
    vec4 filtered = textureLod(colours, (vec2(at) + 0.5) / vec2(size), 0.0);
    uvec4 bytes = uvec4(filtered * 255.0 + 0.5);
    uvec4 fetched = uvec4(texelFetch(colours, at, 0) * 255.0 + 0.5);
    uint texel = fetched.r | fetched.g << 8 | fetched.b << 16 | fetched.a << 24;
    o[at.y * size.x + at.x] = all(equal(bytes, fetched)) ? texel : ~texel;
}
