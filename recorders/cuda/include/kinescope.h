/*
 * Annotations of a program that `kinescope record --with cuda` records: marks, named ranges, names of memory.
 *
 * The program links no library of Kinescope, only -ldl where the C library needs it.
 * Outside a recording, the functions do nothing and return KINESCOPE_NOT_RECORDED.
 * They may be called from each thread. They never end the program.
 */
#ifndef KINESCOPE_H
#define KINESCOPE_H

#include <dlfcn.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results. */
#define KINESCOPE_ACCEPTED 0
#define KINESCOPE_NOT_RECORDED (-1) /* No recorder is in this process, or it records nothing now. */
#define KINESCOPE_INVALID (-2)      /* An argument is not valid, such as a text or name that is a null pointer. */
#define KINESCOPE_TOO_MANY (-3)     /* More than 65,536 names, or 4,096 names of host memory. */

/* Returns a function of the recorder in this process, or a null pointer. */
static inline void *kinescope_find_function(const char *name)
{
    return dlsym((void *)0 /* RTLD_DEFAULT */, name);
}

/*
 * Leaves a note. With `record --range marks`, "begin" and "end" begin and end the recorded part.
 * A null pointer is KINESCOPE_INVALID.
 */
static inline int kinescope_leave_mark(const char *text)
{
    int (*mark)(const char *);
    *(void **)&mark = kinescope_find_function("kinescope_mark");
    return mark ? mark(text) : KINESCOPE_NOT_RECORDED;
}

/* Begins a range of this thread. Ranges nest. The name has 1 to 200 bytes of UTF-8 without control characters. */
static inline int kinescope_begin(const char *name)
{
    int (*begin)(const char *);
    *(void **)&begin = kinescope_find_function("kinescope_range_begin");
    return begin ? begin(name) : KINESCOPE_NOT_RECORDED;
}

/* Ends the range of this thread that began last. */
static inline int kinescope_end(void)
{
    int (*end)(void);
    *(void **)&end = kinescope_find_function("kinescope_range_end");
    return end ? end() : KINESCOPE_NOT_RECORDED;
}

/*
 * Names memory. Copies of exactly these bytes have the name as inputs and outputs of replays.
 * address: a device address (CUdeviceptr, or a pointer of cudaMalloc), or host memory: then the device memory that it is
 *          copied to or from gets the name.
 * type:    element type and shape, such as "f32:1x10", or a null pointer. Types: u8, i8, u16, i16, u32, i32, u64, i64,
 *          f16, bf16, f32, f64. Type and shape must fill the bytes.
 */
static inline int kinescope_name(uint64_t address, uint64_t bytes, const char *name, const char *type)
{
    int (*name_buffer)(uint64_t, uint64_t, const char *, const char *);
    *(void **)&name_buffer = kinescope_find_function("kinescope_name_buffer");
    return name_buffer ? name_buffer(address, bytes, name, type) : KINESCOPE_NOT_RECORDED;
}

#ifdef __cplusplus
}
#endif

#endif
