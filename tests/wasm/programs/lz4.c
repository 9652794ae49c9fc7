// LZ4 block compressor: the size of the input (32 bits, little endian), then one block.
#include "program.h"

enum { MIN_MATCH = 4, LAST_LITERALS = 5, MATCH_LIMIT = 12, HASH_BITS = 12, MAX_DISTANCE = 65535 };

static uint32_t positions[1 << HASH_BITS];

static uint8_t *put_length(uint8_t *to, size_t length)
{
    for (; length >= 255; length -= 255)
        *to++ = 255;
    *to++ = (uint8_t)length;
    return to;
}

// Writes literals, and a match if `match` is not 0.
static uint8_t *put_sequence(uint8_t *to, const uint8_t *literals, size_t count, size_t match, size_t distance)
{
    size_t rest = match ? match - MIN_MATCH : 0;
    *to++ = (uint8_t)((count < 15 ? count : 15) << 4 | (rest < 15 ? rest : 15));
    if (count >= 15)
        to = put_length(to, count - 15);
    memcpy(to, literals, count);
    to += count;
    if (match) {
        *to++ = (uint8_t)distance;
        *to++ = (uint8_t)(distance >> 8);
        if (rest >= 15)
            to = put_length(to, rest - 15);
    }
    return to;
}

int main(void)
{
    struct bytes input = read_input();
    uint8_t *out = malloc(input.size + input.size / 255 + 32), *to = out;
    if (!out)
        fail("no memory for the output");
    write_le32(to, (uint32_t)input.size);
    to += 4;
    const uint8_t *data = input.data;
    size_t anchor = 0, at = 0;
    while (at + MATCH_LIMIT < input.size) {
        uint32_t word = read_le32(data + at);
        uint32_t slot = word * 2654435761u >> (32 - HASH_BITS);
        // Positions are stored plus 1: 0 is an empty slot.
        size_t before = positions[slot];
        positions[slot] = (uint32_t)at + 1;
        if (before == 0 || at - (before - 1) > MAX_DISTANCE || read_le32(data + before - 1) != word) {
            at++;
            continue;
        }
        before--;
        size_t length = MIN_MATCH, max = input.size - LAST_LITERALS - at;
        while (length < max && data[before + length] == data[at + length])
            length++;
        to = put_sequence(to, data + anchor, at - anchor, length, at - before);
        at += length;
        anchor = at;
    }
    to = put_sequence(to, data + anchor, input.size - anchor, 0, 0);
    write_output(out, (size_t)(to - out));
    return 0;
}
