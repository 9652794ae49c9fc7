// Block hash of a BMP: 8 by 8 blocks, a bit for each block that is brighter than the median of its band of two rows of
// blocks; 16 hex digits.
#include "bmp.h"

enum { SIDE = 8, BLOCKS = SIDE * SIDE, BAND = BLOCKS / 4 };

static void sort(uint64_t *values, int count)
{
    for (int i = 1; i < count; i++) {
        uint64_t value = values[i];
        int j = i;
        for (; j > 0 && values[j - 1] > value; j--)
            values[j] = values[j - 1];
        values[j] = value;
    }
}

int main(void)
{
    struct picture picture = open_picture(read_input());
    if (picture.width < SIDE || picture.height < SIDE)
        fail("the picture is smaller than 8 by 8");
    uint32_t block_width = picture.width / SIDE, block_height = picture.height / SIDE;
    uint64_t sums[BLOCKS] = { 0 };
    for (uint32_t y = 0; y < block_height * SIDE; y++) {
        // Rows are stored from the bottom up.
        const uint8_t *row = picture.pixels + (picture.height - 1 - y) * picture.row_bytes;
        for (uint32_t x = 0; x < block_width * SIDE; x++)
            sums[y / block_height * SIDE + x / block_width] += row[3 * x] + row[3 * x + 1] + row[3 * x + 2];
    }
    uint8_t hash[BLOCKS / 8] = { 0 };
    for (int band = 0; band < BLOCKS; band += BAND) {
        uint64_t sorted[BAND];
        memcpy(sorted, sums + band, sizeof sorted);
        sort(sorted, BAND);
        // Twice the median, so that it is an integer.
        uint64_t median = sorted[BAND / 2 - 1] + sorted[BAND / 2];
        for (int i = band; i < band + BAND; i++)
            hash[i / 8] |= (uint8_t)((2 * sums[i] > median) << (7 - i % 8));
    }
    write_hex_line(hash, sizeof hash);
    return 0;
}
