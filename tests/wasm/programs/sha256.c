// SHA-256, HMAC and PBKDF2.
#include "program.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t START[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void compress(uint32_t state[8], const uint32_t block[16])
{
    uint32_t w[16];
    memcpy(w, block, sizeof w);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t x = w[i & 15];
        uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + x;
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
        uint32_t y = w[(i + 1) & 15], z = w[(i + 14) & 15];
        w[i & 15] = x + w[(i + 9) & 15] + (rotate(y, 7) ^ rotate(y, 18) ^ y >> 3) + (rotate(z, 17) ^ rotate(z, 19) ^ z >> 10);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

static void load_block(uint32_t block[16], const uint8_t *data)
{
    for (int i = 0; i < 16; i++)
        block[i] = __builtin_bswap32(read_le32(data + 4 * i));
}

// Hashes data after `before` bytes (a multiple of 64) that `state` already has.
static void finish(uint32_t state[8], uint64_t before, const uint8_t *data, size_t size)
{
    uint32_t block[16];
    uint64_t bits = (before + size) * 8;
    for (; size >= 64; data += 64, size -= 64) {
        load_block(block, data);
        compress(state, block);
    }
    uint8_t last[128] = { 0 };
    memcpy(last, data, size);
    last[size] = 0x80;
    size_t blocks = size < 56 ? 1 : 2;
    for (int i = 0; i < 8; i++)
        last[blocks * 64 - 1 - (size_t)i] = (uint8_t)(bits >> (8 * i));
    for (size_t i = 0; i < blocks; i++) {
        load_block(block, last + 64 * i);
        compress(state, block);
    }
}

void hmac_start(const uint8_t *key, size_t size, uint32_t inner[8], uint32_t outer[8])
{
    uint32_t block[16], pad[16];
    if (size > 64) {
        uint32_t hash[8];
        memcpy(hash, START, sizeof hash);
        finish(hash, 0, key, size);
        memset(block, 0, sizeof block);
        memcpy(block, hash, sizeof hash);
    } else {
        uint8_t padded[64] = { 0 };
        memcpy(padded, key, size);
        load_block(block, padded);
    }
    for (int i = 0; i < 16; i++)
        pad[i] = block[i] ^ 0x36363636;
    memcpy(inner, START, 32);
    compress(inner, pad);
    for (int i = 0; i < 16; i++)
        pad[i] = block[i] ^ 0x5c5c5c5c;
    memcpy(outer, START, 32);
    compress(outer, pad);
}

// One hash of 32 bytes under a key: two compressions.
static void hmac_hash(const uint32_t inner[8], const uint32_t outer[8], uint32_t value[8])
{
    uint32_t block[16] = { 0 };
    block[8] = 0x80000000;
    block[15] = (64 + 32) * 8;
    for (int turn = 0; turn < 2; turn++) {
        memcpy(block, value, 32);
        memcpy(value, turn ? outer : inner, 32);
        compress(value, block);
    }
}

void pbkdf2_sha256(struct bytes password, struct bytes salt, uint32_t rounds, uint8_t *out, size_t size)
{
    uint32_t inner[8], outer[8];
    hmac_start(password.data, password.size, inner, outer);
    uint8_t *message = malloc(salt.size + 4);
    if (!message)
        fail("no memory for the salt");
    memcpy(message, salt.data, salt.size);
    for (uint32_t number = 1; size; number++) {
        uint32_t value[8], sum[8], block[16] = { 0 };
        write_le32(message + salt.size, __builtin_bswap32(number));
        memcpy(value, inner, 32);
        finish(value, 64, message, salt.size + 4);
        memcpy(block, value, 32);
        block[8] = 0x80000000;
        block[15] = (64 + 32) * 8;
        memcpy(value, outer, 32);
        compress(value, block);
        memcpy(sum, value, 32);
        for (uint32_t i = 1; i < rounds; i++) {
            hmac_hash(inner, outer, value);
            for (int j = 0; j < 8; j++)
                sum[j] ^= value[j];
        }
        size_t part = size < 32 ? size : 32;
        for (size_t i = 0; i < part; i++)
            out[i] = (uint8_t)(sum[i / 4] >> (24 - 8 * (i % 4)));
        out += part;
        size -= part;
    }
    free(message);
}
