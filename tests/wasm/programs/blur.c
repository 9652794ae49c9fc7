// Gaussian blur of a BMP, standard deviation 10 (or the argument): a BMP of the same form.
#include "bmp.h"
#include <math.h>

// Blurs one line of `count` values, `step` values apart. Values beyond the ends are those at the ends.
static void blur_line(const float *from, float *to, int count, int step, const float *weights, int radius)
{
    for (int i = 0; i < count; i++) {
        float sum = 0;
        for (int k = -radius; k <= radius; k++) {
            int at = i + k;
            at = at < 0 ? 0 : at >= count ? count - 1 : at;
            sum += from[at * step] * weights[k < 0 ? -k : k];
        }
        to[i * step] = sum;
    }
}

int main(int argc, char **argv)
{
    double deviation = argc > 1 ? strtod(argv[1], NULL) : 10.0;
    if (!(deviation > 0 && deviation <= 50))
        fail("the standard deviation is not between 0 and 50");
    struct bytes file = read_input();
    struct picture picture = open_picture(file);
    int width = (int)picture.width, height = (int)picture.height, radius = (int)ceil(3 * deviation);

    float weights[151];
    double sum = 0;
    for (int k = -radius; k <= radius; k++)
        sum += exp(-k * k / (2 * deviation * deviation));
    for (int k = 0; k <= radius; k++)
        weights[k] = (float)(exp(-k * k / (2 * deviation * deviation)) / sum);

    float *plane = malloc(sizeof(float) * (size_t)width * (size_t)height);
    float *other = malloc(sizeof(float) * (size_t)width * (size_t)height);
    if (!plane || !other)
        fail("no memory for the picture");
    for (int channel = 0; channel < 3; channel++) {
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                plane[y * width + x] = picture.pixels[y * (int)picture.row_bytes + x * 3 + channel];
        for (int y = 0; y < height; y++)
            blur_line(plane + y * width, other + y * width, width, 1, weights, radius);
        for (int x = 0; x < width; x++)
            blur_line(other + x, plane + x, height, width, weights, radius);
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                float value = plane[y * width + x] + 0.5f;
                picture.pixels[y * (int)picture.row_bytes + x * 3 + channel] = (uint8_t)(value > 255 ? 255 : value);
            }
    }
    write_output(file.data, file.size);
    return 0;
}
