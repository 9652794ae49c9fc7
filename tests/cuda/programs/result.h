// Shared code of the programs, in plain C: arguments, result bytes, and the last output line.
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct result {
    const char *name;
    FILE *out;
    const char *out_path;
    uint64_t checksum;
};

static struct result result = {"program", NULL, NULL, UINT64_C(0xcbf29ce484222325)};

// Prints an error and ends the program.
__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...) {
    va_list values;
    fflush(stdout);
    fprintf(stderr, "%s: ", result.name);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

static inline void remove_arguments(int *argc, char **argv, int at, int count) {
    int i;
    for (i = at; i + count <= *argc; i++) argv[i] = argv[i + count];
    *argc -= count;
}

// Returns whether the arguments contain the flag, and removes it from them.
static inline int flag(int *argc, char **argv, const char *name) {
    int i;
    for (i = 1; i < *argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            remove_arguments(argc, argv, i, 1);
            return 1;
        }
    }
    return 0;
}

// Returns the text after the option, or NULL. Removes both from the arguments.
static inline const char *option(int *argc, char **argv, const char *name) {
    int i;
    for (i = 1; i < *argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            const char *value = argv[i + 1];
            if (i + 1 == *argc) fail("%s needs a value", name);
            remove_arguments(argc, argv, i, 2);
            return value;
        }
    }
    return NULL;
}

static inline size_t number(const char *text, const char *name, size_t min, size_t max) {
    char *end;
    unsigned long long value;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (end == text || *end != 0 || *text == '-' || errno != 0 || value < min || value > max)
        fail("%s: '%s' is not a number from %zu to %zu", name, text, min, max);
    return (size_t)value;
}

static inline size_t number_option(int *argc, char **argv, const char *name, size_t otherwise,
                                   size_t min, size_t max) {
    const char *text = option(argc, argv, name);
    return text == NULL ? otherwise : number(text, name, min, max);
}

// Parses `[SIZE] [--out FILE]` and returns the size. A program removes its own options before this call.
static inline size_t start(const char *name, int argc, char **argv, size_t otherwise, size_t min,
                           size_t max) {
    result.name = name;
    result.out_path = option(&argc, argv, "--out");
    if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
        fail("'%s' is not known; use: %s [SIZE] [--out FILE], and the options in the README",
             argv[argc > 2 ? 2 : 1], name);
    if (result.out_path != NULL) {
        result.out = fopen(result.out_path, "wb");
        if (result.out == NULL) fail("%s: %s", result.out_path, strerror(errno));
    }
    return argc == 2 ? number(argv[1], "the size", min, max) : otherwise;
}

// Adds bytes that were copied back from the GPU to the checksum (FNV-1a, 64 bits) and to the file.
static inline void give(const void *bytes, size_t count) {
    const unsigned char *at = (const unsigned char *)bytes;
    size_t i;
    for (i = 0; i < count; i++) result.checksum = (result.checksum ^ at[i]) * UINT64_C(0x100000001b3);
    if (result.out != NULL && fwrite(bytes, 1, count, result.out) != count)
        fail("%s: %s", result.out_path, strerror(errno));
}

// Prints the last output line of a program with a correct result.
static inline int finish(void) {
    if (result.out != NULL && fclose(result.out) != 0) fail("%s: %s", result.out_path, strerror(errno));
    printf("ok %s checksum=%016" PRIx64 "\n", result.name, result.checksum);
    return 0;
}

// Returns a fixed pseudo-random number for an index. Inputs are made from these numbers.
static inline uint32_t scramble(uint32_t index) {
    uint32_t x = index + UINT32_C(0x9e3779b9);
    x = (x ^ (x >> 16)) * UINT32_C(0x85ebca6b);
    x = (x ^ (x >> 13)) * UINT32_C(0xc2b2ae35);
    return x ^ (x >> 16);
}
