// scrypt with N=1024, r=1, p=1: for each line `PASSWORD<tab>SALT`, 64 bytes in hex.
#include "program.h"

enum { COST = 1024, WORDS = 32 };

static uint32_t table[COST * WORDS];

static uint32_t rotate(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

// Salsa20/8 on 64 bytes.
static void salsa(uint32_t b[16])
{
    uint32_t x[16];
    memcpy(x, b, sizeof x);
#define QUARTER(a, b, c, d)         \
    x[b] ^= rotate(x[a] + x[d], 7); \
    x[c] ^= rotate(x[b] + x[a], 9); \
    x[d] ^= rotate(x[c] + x[b], 13); \
    x[a] ^= rotate(x[d] + x[c], 18);
    for (int i = 0; i < 4; i++) {
        QUARTER(0, 4, 8, 12)
        QUARTER(5, 9, 13, 1)
        QUARTER(10, 14, 2, 6)
        QUARTER(15, 3, 7, 11)
        QUARTER(0, 1, 2, 3)
        QUARTER(5, 6, 7, 4)
        QUARTER(10, 11, 8, 9)
        QUARTER(15, 12, 13, 14)
    }
    for (int i = 0; i < 16; i++)
        b[i] += x[i];
}

// BlockMix for r=1: the second half goes through the mixer first.
static void mix(uint32_t x[WORDS])
{
    for (int i = 0; i < 16; i++)
        x[i] ^= x[16 + i];
    salsa(x);
    for (int i = 0; i < 16; i++)
        x[16 + i] ^= x[i];
    salsa(x + 16);
}

int main(void)
{
    struct bytes input = read_input(), password, salt;
    while (next_pair(&input, &password, &salt)) {
        uint8_t block[WORDS * 4], key[64];
        uint32_t x[WORDS];
        pbkdf2_sha256(password, salt, 1, block, sizeof block);
        for (int i = 0; i < WORDS; i++)
            x[i] = read_le32(block + 4 * i);
        for (int i = 0; i < COST; i++) {
            memcpy(table + i * WORDS, x, sizeof x);
            mix(x);
        }
        for (int i = 0; i < COST; i++) {
            const uint32_t *row = table + (x[16] & (COST - 1)) * WORDS;
            for (int j = 0; j < WORDS; j++)
                x[j] ^= row[j];
            mix(x);
        }
        for (int i = 0; i < WORDS; i++)
            write_le32(block + 4 * i, x[i]);
        pbkdf2_sha256(password, (struct bytes){ block, sizeof block }, 1, key, sizeof key);
        write_hex_line(key, sizeof key);
    }
    return 0;
}
