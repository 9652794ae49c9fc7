// A BMP file with 24 bits a pixel and rows from the bottom up.
#ifndef BMP_H
#define BMP_H

#include "program.h"

enum { HEADER_BYTES = 54 };

struct picture {
    uint8_t *pixels;
    uint32_t width, height, row_bytes;
};

// Opens the picture in a file; ends the program if it is no such picture.
static inline struct picture open_picture(struct bytes file)
{
    struct picture p;
    if (file.size < HEADER_BYTES || file.data[0] != 'B' || file.data[1] != 'M')
        fail("the input is no BMP file");
    uint32_t start = read_le32(file.data + 10);
    p.width = read_le32(file.data + 18);
    p.height = read_le32(file.data + 22);
    if ((read_le32(file.data + 26) >> 16) != 24 || read_le32(file.data + 30) != 0)
        fail("the picture does not have 24 bits a pixel");
    if (p.width == 0 || p.height == 0 || p.width > 8192 || p.height > 8192)
        fail("the picture has no size between 1 and 8192");
    p.row_bytes = (p.width * 3 + 3) / 4 * 4;
    if (start > file.size || file.size - start < (size_t)p.row_bytes * p.height)
        fail("the file is too short for its picture");
    p.pixels = file.data + start;
    return p;
}

#endif
