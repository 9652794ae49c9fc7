#version 310 es
// Writes one colour.
precision highp float;
layout(location = 0) out vec4 colour;

void main() {
    colour = vec4(1.0, 128.0 / 255.0, 0.0, 1.0);
}
