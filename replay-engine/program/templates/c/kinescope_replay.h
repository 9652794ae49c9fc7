/* Replays a recording on a device: freestanding C99, no heap, no C library. Made by Kinescope. */
#ifndef KINESCOPE_REPLAY_H
#define KINESCOPE_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the program needs of the machine. Each function but `now` returns 0 when it did what it was asked, and anything
 * else to end the run. `context` is passed on to all of them. */
struct kinescope_device {
    void *context;
    /* Read or write `width` (1, 2, 4 or 8) bytes at `offset` of a space: 0 is the device's registers. Values are
     * zero-extended. */
    int (*read)(void *context, uint8_t space, uint64_t offset, uint8_t width, uint64_t *value);
    int (*write)(void *context, uint8_t space, uint64_t offset, uint8_t width, uint64_t value);
    /* Wait at most `limit_ns` until one of `lines` (bit n: line n) is raised. `raised` gets a bit for every raised line,
     * or 0 when the limit passed. */
    int (*wait)(void *context, uint32_t lines, uint64_t limit_ns, uint32_t *raised);
    /* Let time pass. */
    int (*pause)(void *context, uint64_t ns);
    /* Nanoseconds on a clock; only differences mean something. */
    uint64_t (*now)(void *context);
    /* The memory that the device shares with the program. What `clear` and `store` put there the device must see (clean
     * the caches), and `load` must see what the device wrote (invalidate them). */
    int (*clear)(void *context, uint64_t offset, uint64_t bytes);
    int (*store)(void *context, uint64_t offset, const void *from, size_t bytes);
    int (*load)(void *context, uint64_t offset, void *to, size_t bytes);
};

/* How a run ended. Everything but the first two leaves the device as it is: reset it. */
enum kinescope_status {
    KINESCOPE_MATCH = 0,         /* everything that was compared was as recorded */
    KINESCOPE_DIVERGED = 1,      /* it came to its end, and some values differ */
    KINESCOPE_NO_INTERRUPT = 2,  /* an interrupt did not come in its time */
    KINESCOPE_DEVICE = 3,        /* the device or its memory failed: a function of yours said so */
    KINESCOPE_ACTION_BUDGET = 4, /* more actions than the budget allows */
    KINESCOPE_TIME_BUDGET = 5,   /* more time than the budget allows */
    KINESCOPE_DAMAGED = 6,       /* the program's own data are damaged */
    KINESCOPE_NO_STATUS = 7      /* a status that is waited for did not come in its time */
};

/* What a run did. Every recorded read counts once. */
struct kinescope_report {
    uint64_t actions;
    uint64_t writes;
    uint64_t reads_compared;
    uint64_t reads_matched;
    /* Reads that showed other state of from before the recording: not compared. */
    uint64_t reads_before;
    uint64_t interrupts;
    uint64_t divergences;
    /* The first divergence, or where the run broke off: event of the recording, space, offset, values. */
    uint32_t event;
    uint8_t space;
    uint64_t offset;
    uint64_t expected;
    uint64_t got;
};

/* Below: what the program's own file hands over. */

struct kinescope_run {
    uint64_t offset;
    uint32_t bytes;
};

struct kinescope_piece {
    uint32_t buffer;
    uint64_t at;
    uint64_t bytes;
    uint64_t offset;
};

struct kinescope_image_piece {
    uint32_t image;
    uint32_t place;
    uint32_t buffer;
    uint64_t at;
    uint64_t bytes;
};

struct kinescope_program {
    uint64_t memory_bytes;
    uint64_t actions;
    uint64_t time_ns;
    const uint8_t *body;
    size_t body_bytes;
    const uint8_t *memory;
    const struct kinescope_run *runs;
    size_t run_count;
    const uint8_t *images;
    /* The input without which an image is left alone, or -1. */
    const int32_t *owners;
    size_t image_count;
    const struct kinescope_piece *input_pieces;
    size_t input_piece_count;
    const struct kinescope_image_piece *image_pieces;
    size_t image_piece_count;
    const struct kinescope_piece *output_pieces;
    size_t output_piece_count;
};

/* Runs a program. `inputs` and `outputs` have a pointer for each of its buffers, NULL for one that is as recorded or not
 * wanted. `report` may be NULL. */
enum kinescope_status kinescope_replay(const struct kinescope_program *program, const struct kinescope_device *device,
                                       const void *const *inputs, void *const *outputs,
                                       struct kinescope_report *report);

#ifdef __cplusplus
}
#endif

#endif
