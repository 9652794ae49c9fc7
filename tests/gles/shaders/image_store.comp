#version 310 es
// Mirrors a texture into an image, and inverts some bits.
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
uniform highp usampler2D source;
layout(r32ui, binding = 0) writeonly uniform highp uimage2D target;

void main() {
    ivec2 g = ivec2(gl_GlobalInvocationID.xy);
    int last = int(gl_NumWorkGroups.x * gl_WorkGroupSize.x) - 1;
    uint v = texelFetch(source, ivec2(last - g.x, g.y), 0).x;
    imageStore(target, g, uvec4(v ^ 0x00ff00ffu, 0u, 0u, 0u));
}
