/* A device at the other end of a pipe. Every call is sent on standard output and answered on standard input. So a
 * program for one machine can replay on a device of another machine. A test includes this file and calls its own
 * program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(const void *from, size_t bytes) {
    if (bytes && fwrite(from, 1, bytes, stdout) != bytes) exit(9);
}

static void get(void *to, size_t bytes) {
    if (bytes && fread(to, 1, bytes, stdin) != bytes) exit(9);
}

static void ask(char request, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    uint64_t all[4];
    all[0] = a;
    all[1] = b;
    all[2] = c;
    all[3] = d;
    put(&request, 1);
    put(all, sizeof all);
}

static int answer(uint64_t *value) {
    uint8_t failed;
    fflush(stdout);
    get(&failed, 1);
    get(value, 8);
    return failed;
}

static int device_read(void *context, uint8_t space, uint64_t offset, uint8_t width, uint64_t *value) {
    (void)context;
    ask('r', space, offset, width, 0);
    return answer(value);
}

static int device_write(void *context, uint8_t space, uint64_t offset, uint8_t width, uint64_t value) {
    uint64_t none;
    (void)context;
    ask('w', space, offset, width, value);
    return answer(&none);
}

static int device_wait(void *context, uint32_t lines, uint64_t limit_ns, uint32_t *raised) {
    uint64_t value;
    int failed;
    (void)context;
    ask('i', lines, limit_ns, 0, 0);
    failed = answer(&value);
    *raised = (uint32_t)value;
    return failed;
}

static int device_pause(void *context, uint64_t ns) {
    uint64_t none;
    (void)context;
    ask('p', ns, 0, 0, 0);
    return answer(&none);
}

static uint64_t device_now(void *context) {
    uint64_t value;
    (void)context;
    ask('n', 0, 0, 0, 0);
    if (answer(&value)) exit(9);
    return value;
}

static int device_clear(void *context, uint64_t offset, uint64_t bytes) {
    uint64_t none;
    (void)context;
    ask('c', offset, bytes, 0, 0);
    return answer(&none);
}

static int device_store(void *context, uint64_t offset, const void *from, size_t bytes) {
    uint64_t none;
    (void)context;
    ask('s', offset, bytes, 0, 0);
    put(from, bytes);
    return answer(&none);
}

static int device_load(void *context, uint64_t offset, void *to, size_t bytes) {
    uint64_t none;
    int failed;
    (void)context;
    ask('l', offset, bytes, 0, 0);
    failed = answer(&none);
    if (!failed) get(to, bytes);
    return failed;
}

static const struct kinescope_device device = {0,           device_read, device_write, device_wait, device_pause,
                                               device_now,  device_clear, device_store, device_load};

/* Reads an input: one byte that is 0 if the input is missing, then its bytes. */
static void *read_input(size_t bytes) {
    uint8_t is_present;
    void *to;
    get(&is_present, 1);
    if (!is_present) return NULL;
    to = malloc(bytes);
    if (to == NULL) exit(9);
    get(to, bytes);
    return to;
}

static void finish(enum kinescope_status status, const struct kinescope_report *r) {
    ask('e', (uint64_t)status, r->reads_compared, r->reads_matched, r->divergences);
    ask('e', r->actions, r->writes, r->interrupts, r->event);
    ask('e', r->offset, r->expected, r->got, r->reads_before);
}
