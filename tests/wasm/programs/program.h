// Parts that the test programs share: input, output, numbers in bytes, SHA-256 with HMAC and PBKDF2.
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bytes {
    uint8_t *data;
    size_t size;
};

// Ends the program with a message and exit code 2.
static inline void fail(const char *message)
{
    write(2, message, strlen(message));
    write(2, "\n", 1);
    exit(2);
}

// Reads standard input to its end. A zero byte follows the data.
static inline struct bytes read_input(void)
{
    struct bytes input = { NULL, 0 };
    size_t capacity = 0;
    for (;;) {
        if (capacity - input.size < 2) {
            capacity = capacity ? capacity * 2 : 8192;
            input.data = realloc(input.data, capacity);
            if (!input.data)
                fail("no memory for the input");
        }
        ssize_t n = read(0, input.data + input.size, capacity - input.size - 1);
        if (n < 0)
            fail("standard input cannot be read");
        if (n == 0)
            break;
        input.size += (size_t)n;
    }
    input.data[input.size] = 0;
    return input;
}

static inline void write_output(const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        ssize_t n = write(1, at, size);
        if (n <= 0)
            fail("standard output cannot be written");
        at += n;
        size -= (size_t)n;
    }
}

static inline void write_hex_line(const uint8_t *data, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char line[129];
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        line[n++] = digits[data[i] >> 4];
        line[n++] = digits[data[i] & 15];
    }
    line[n++] = '\n';
    write_output(line, n);
}

static inline uint32_t read_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void write_le32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

// The next line of the form `PASSWORD<tab>SALT`; returns 0 at the end of the input.
static inline int next_pair(struct bytes *input, struct bytes *password, struct bytes *salt)
{
    if (input->size == 0)
        return 0;
    uint8_t *end = memchr(input->data, '\n', input->size);
    size_t length = end ? (size_t)(end - input->data) : input->size;
    uint8_t *tab = memchr(input->data, '\t', length);
    password->data = input->data;
    password->size = tab ? (size_t)(tab - input->data) : length;
    salt->data = tab ? tab + 1 : input->data;
    salt->size = tab ? length - password->size - 1 : 0;
    length += end != NULL;
    input->data += length;
    input->size -= length;
    return 1;
}

void hmac_start(const uint8_t *key, size_t size, uint32_t inner[8], uint32_t outer[8]);
void pbkdf2_sha256(struct bytes password, struct bytes salt, uint32_t rounds, uint8_t *out, size_t size);

#endif
