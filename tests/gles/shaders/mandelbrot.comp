#version 310 es
// Counts steps until a point escapes, in integers with 12 fractional bits. Neighbouring threads diverge early.
precision highp int;
layout(local_size_x = 8, local_size_y = 8) in;
uniform uvec2 size;
layout(std430, binding = 0) writeonly buffer Steps { uint steps[]; };

void main() {
    uvec2 g = gl_GlobalInvocationID.xy;
    int cx = int(g.x) * 12288 / int(size.x) - 8704;
    int cy = int(g.y) * 9216 / int(size.y) - 4608;
    int x = 0;
    int y = 0;
    uint n = 0u;
    while (n < 96u) {
        int xx = (x * x) >> 12;
        int yy = (y * y) >> 12;
        if (xx + yy > 16384) break;
        y = ((x * y) >> 11) + cy;
        x = xx - yy + cx;
        n++;
    }
    steps[g.y * size.x + g.x] = n;
}
