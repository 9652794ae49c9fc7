/* The executor: reads encoded actions in place and does them on a device, with bounded waits and comparisons. */
#include "kinescope_replay.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "buffers are little-endian: this program is for little-endian machines"
#endif

enum { SLOTS = 8, PAGE = 4096, CLOCK_EVERY = 1024 };
/* Nanoseconds between two reads of a poll. */
static const uint64_t POLL_STEP_NS = 1000;

enum operation {
    WRITE = 1,
    WRITE_SLOT = 2,
    READ_EQUAL = 3,
    READ_MASKED = 4,
    READ_ANY = 5,
    READ_FEEDS = 6,
    UNTIL = 7,
    WAIT = 8,
    PAUSE = 9,
    READ_BEFORE = 10,
    PUT = 11,
    COPY = 12
};

struct run {
    const struct kinescope_program *program;
    const struct kinescope_device *device;
    const void *const *inputs;
    struct kinescope_report report;
    const uint8_t *at;
    const uint8_t *end;
    uint64_t slots[SLOTS];
    uint64_t started;
    uint32_t event;
};

/* Returns 0 and the next bytes of the body, if it has them. */

static int take(struct run *r, unsigned width, uint64_t *value) {
    unsigned i;
    if ((size_t)(r->end - r->at) < width) return -1;
    *value = 0;
    for (i = 0; i < width; i++) *value |= (uint64_t)r->at[i] << (8 * i);
    r->at += width;
    return 0;
}

/* Seven bits a byte, the lowest first, in the shortest form. */
static int number(struct run *r, uint64_t *value) {
    unsigned shift;
    *value = 0;
    for (shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (r->at == r->end) return -1;
        byte = *r->at++;
        if (shift == 63 && byte > 1) return -1;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return byte == 0 && shift != 0 ? -1 : 0;
    }
    return -1;
}

static int number32(struct run *r, uint64_t *value) {
    return number(r, value) || *value > UINT32_MAX ? -1 : 0;
}

static int slot(struct run *r, uint64_t *value) {
    return take(r, 1, value) || *value >= SLOTS ? -1 : 0;
}

static void place(struct run *r, uint8_t space, uint64_t offset, uint64_t expected, uint64_t got) {
    r->report.event = r->event;
    r->report.space = space;
    r->report.offset = offset;
    r->report.expected = expected;
    r->report.got = got;
}

static enum kinescope_status broke(struct run *r, enum kinescope_status why, uint8_t space, uint64_t offset) {
    place(r, space, offset, 0, 0);
    return why;
}

static void differs(struct run *r, uint8_t space, uint64_t offset, uint64_t expected, uint64_t got) {
    if (r->report.divergences++ == 0) place(r, space, offset, expected, got);
}

static enum kinescope_status clock_left(struct run *r) {
    uint64_t now = r->device->now(r->device->context);
    uint64_t since = now > r->started ? now - r->started : 0;
    return since > r->program->time_ns ? broke(r, KINESCOPE_TIME_BUDGET, 0, 0) : KINESCOPE_MATCH;
}

/* Bytes of an image go into memory, and those of inputs over them. */
static enum kinescope_status copy(struct run *r, uint64_t offset, uint64_t bytes, uint64_t image) {
    const struct kinescope_program *p = r->program;
    const struct kinescope_device *d = r->device;
    uint64_t from = offset % PAGE;
    uint64_t to = from + bytes;
    size_t low = 0;
    size_t high = p->image_piece_count;
    if (image >= p->image_count || to > PAGE) return broke(r, KINESCOPE_DAMAGED, 1, offset);
    if (p->owners[image] >= 0 && (r->inputs == NULL || r->inputs[p->owners[image]] == NULL)) return KINESCOPE_MATCH;
    if (d->store(d->context, offset, p->images + image * PAGE + from, (size_t)bytes))
        return broke(r, KINESCOPE_DEVICE, 1, offset);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->image_pieces[middle].image < image) low = middle + 1;
        else high = middle;
    }
    for (; low < p->image_piece_count && p->image_pieces[low].image == image; low++) {
        const struct kinescope_image_piece *q = &p->image_pieces[low];
        uint64_t first = q->place > from ? q->place : from;
        uint64_t last = q->place + q->bytes < to ? q->place + q->bytes : to;
        const uint8_t *given = r->inputs ? (const uint8_t *)r->inputs[q->buffer] : NULL;
        if (first >= last || given == NULL) continue;
        if (d->store(d->context, offset - from + first, given + q->at + (first - q->place), (size_t)(last - first)))
            return broke(r, KINESCOPE_DEVICE, 1, offset);
    }
    return KINESCOPE_MATCH;
}

static int read_value(struct run *r, uint8_t space, uint64_t offset, unsigned width, uint64_t *value) {
    const struct kinescope_device *d = r->device;
    uint8_t bytes[8];
    unsigned i;
    if (space != 1) return d->read(d->context, space, offset, (uint8_t)width, value);
    if (d->load(d->context, offset, bytes, width)) return -1;
    *value = 0;
    for (i = 0; i < width; i++) *value |= (uint64_t)bytes[i] << (8 * i);
    return 0;
}

static enum kinescope_status write_value(struct run *r, uint8_t space, uint64_t offset, unsigned width,
                                         uint64_t value) {
    const struct kinescope_device *d = r->device;
    int failed;
    if (space == 1) {
        uint8_t bytes[8];
        unsigned i;
        for (i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> (8 * i));
        failed = d->store(d->context, offset, bytes, width);
    } else {
        failed = d->write(d->context, space, offset, (uint8_t)width, value);
    }
    if (failed) return broke(r, KINESCOPE_DEVICE, space, offset);
    r->report.writes++;
    return KINESCOPE_MATCH;
}

/* Reads until the masked value is there. A passed limit ends the run: of the device's clock, or of the
 * pauses if the clock stands still. */
static enum kinescope_status until(struct run *r, uint8_t space, uint64_t offset, unsigned width, uint64_t expected,
                                   uint64_t mask, uint64_t reads, uint64_t limit) {
    const struct kinescope_device *d = r->device;
    uint64_t start = d->now(d->context);
    uint64_t paused = 0;
    r->report.reads_compared += reads;
    for (;;) {
        uint64_t got;
        uint64_t now;
        uint64_t passed;
        enum kinescope_status status;
        if (read_value(r, space, offset, width, &got)) return broke(r, KINESCOPE_DEVICE, space, offset);
        if (((got ^ expected) & mask) == 0) {
            r->report.reads_matched += reads;
            return clock_left(r);
        }
        now = d->now(d->context);
        passed = now > start ? now - start : 0;
        if (passed < paused) passed = paused;
        if (passed >= limit) {
            /* The later actions are verified only for a device that reached this state. */
            differs(r, space, offset, expected, got);
            place(r, space, offset, expected, got);
            return KINESCOPE_NO_STATUS;
        }
        status = clock_left(r);
        if (status != KINESCOPE_MATCH) return status;
        if (d->pause(d->context, POLL_STEP_NS)) return broke(r, KINESCOPE_DEVICE, space, offset);
        paused += POLL_STEP_NS;
    }
}

static enum kinescope_status access(struct run *r, unsigned op, unsigned width, uint8_t space) {
    uint64_t all = width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * width)) - 1;
    uint64_t offset;
    uint64_t value = 0;
    uint64_t mask = all;
    uint64_t which = 0;
    uint64_t reads = 0;
    uint64_t limit = 0;
    uint64_t got;
    int bad = number(r, &offset);
    if (op == WRITE_SLOT) {
        bad = bad || slot(r, &which);
    } else {
        bad = bad || take(r, width, &value);
        if (op == READ_MASKED || op == READ_BEFORE || op == UNTIL) bad = bad || take(r, width, &mask);
        if (op == READ_FEEDS) bad = bad || slot(r, &which);
        if (op == UNTIL) bad = bad || number32(r, &reads) || number(r, &limit);
    }
    if (bad) return broke(r, KINESCOPE_DAMAGED, space, 0);
    if (op == WRITE) return write_value(r, space, offset, width, value);
    if (op == WRITE_SLOT) return write_value(r, space, offset, width, r->slots[which] & all);
    if (op == UNTIL) return until(r, space, offset, width, value, mask, reads, limit);
    if (read_value(r, space, offset, width, &got)) return broke(r, KINESCOPE_DEVICE, space, offset);
    if (op == READ_ANY) return KINESCOPE_MATCH;
    if (op == READ_FEEDS) {
        r->slots[which] = got;
        return KINESCOPE_MATCH;
    }
    if (((got ^ value) & mask) == 0) {
        r->report.reads_compared++;
        r->report.reads_matched++;
    } else if (op == READ_BEFORE) {
        r->report.reads_before++;
    } else {
        r->report.reads_compared++;
        differs(r, space, offset, value, got);
    }
    return KINESCOPE_MATCH;
}

static enum kinescope_status step(struct run *r) {
    const struct kinescope_device *d = r->device;
    uint8_t tag = *r->at++;
    unsigned op = tag & 0x0f;
    unsigned width = 1u << (tag >> 4 & 3);
    uint64_t event;
    uint64_t a;
    uint64_t b;
    uint64_t c;
    if ((tag & 0x80) || number(r, &event) || event > UINT32_MAX - r->event) return broke(r, KINESCOPE_DAMAGED, 0, 0);
    r->event += (uint32_t)event;
    switch (op) {
    case WRITE: case WRITE_SLOT: case READ_EQUAL: case READ_MASKED: case READ_ANY: case READ_FEEDS: case UNTIL:
    case READ_BEFORE:
        a = 0;
        if ((tag & 0x40) && (take(r, 1, &a) || a == 0)) return broke(r, KINESCOPE_DAMAGED, 0, 0);
        return access(r, op, width, (uint8_t)a);
    case WAIT: {
        uint32_t raised = 0;
        if ((tag & 0xf0) || number32(r, &a) || number(r, &b)) return broke(r, KINESCOPE_DAMAGED, 0, 0);
        if (d->wait(d->context, (uint32_t)a, b, &raised)) return broke(r, KINESCOPE_DEVICE, 0, 0);
        if (raised == 0) return broke(r, KINESCOPE_NO_INTERRUPT, 0, 0);
        r->report.interrupts++;
        return clock_left(r);
    }
    case PAUSE:
        if ((tag & 0xf0) || number(r, &a)) return broke(r, KINESCOPE_DAMAGED, 0, 0);
        if (d->pause(d->context, a)) return broke(r, KINESCOPE_DEVICE, 0, 0);
        return clock_left(r);
    case PUT:
        if ((tag & 0x40) || number(r, &a) || take(r, width, &b)) return broke(r, KINESCOPE_DAMAGED, 0, 0);
        return write_value(r, 1, a, width, b);
    case COPY: {
        enum kinescope_status status;
        if ((tag & 0xf0) || number(r, &a) || number32(r, &b) || number32(r, &c))
            return broke(r, KINESCOPE_DAMAGED, 0, 0);
        status = copy(r, a, b, c);
        if (status == KINESCOPE_MATCH) r->report.writes++;
        return status;
    }
    default:
        return broke(r, KINESCOPE_DAMAGED, 0, 0);
    }
}

/* The recorded memory, and the inputs over it. */
static enum kinescope_status put_in_place(struct run *r) {
    const struct kinescope_program *p = r->program;
    const struct kinescope_device *d = r->device;
    const uint8_t *from = p->memory;
    size_t i;
    if (p->memory_bytes && d->clear(d->context, 0, p->memory_bytes)) return broke(r, KINESCOPE_DEVICE, 1, 0);
    for (i = 0; i < p->run_count; i++) {
        if (d->store(d->context, p->runs[i].offset, from, p->runs[i].bytes))
            return broke(r, KINESCOPE_DEVICE, 1, p->runs[i].offset);
        from += p->runs[i].bytes;
    }
    for (i = 0; i < p->input_piece_count; i++) {
        const struct kinescope_piece *q = &p->input_pieces[i];
        const uint8_t *given = r->inputs ? (const uint8_t *)r->inputs[q->buffer] : NULL;
        if (given != NULL && d->store(d->context, q->offset, given + q->at, (size_t)q->bytes))
            return broke(r, KINESCOPE_DEVICE, 1, q->offset);
    }
    return KINESCOPE_MATCH;
}

static enum kinescope_status take_outputs(struct run *r, void *const *outputs) {
    const struct kinescope_program *p = r->program;
    size_t i;
    for (i = 0; outputs != NULL && i < p->output_piece_count; i++) {
        const struct kinescope_piece *q = &p->output_pieces[i];
        uint8_t *to = (uint8_t *)outputs[q->buffer];
        if (to != NULL && r->device->load(r->device->context, q->offset, to + q->at, (size_t)q->bytes))
            return broke(r, KINESCOPE_DEVICE, 1, q->offset);
    }
    return KINESCOPE_MATCH;
}

static enum kinescope_status actions(struct run *r) {
    const struct kinescope_program *p = r->program;
    r->started = r->device->now(r->device->context);
    while (r->at != r->end) {
        enum kinescope_status status = KINESCOPE_MATCH;
        if (r->report.actions >= p->actions) return broke(r, KINESCOPE_ACTION_BUDGET, 0, 0);
        if (r->report.actions % CLOCK_EVERY == 0) status = clock_left(r);
        r->report.actions++;
        if (status == KINESCOPE_MATCH) status = step(r);
        if (status != KINESCOPE_MATCH) return status;
    }
    return KINESCOPE_MATCH;
}

enum kinescope_status kinescope_replay(const struct kinescope_program *program, const struct kinescope_device *device,
                                       const void *const *inputs, void *const *outputs,
                                       struct kinescope_report *report) {
    struct run run;
    enum kinescope_status status;
    uint8_t *zero = (uint8_t *)&run;
    size_t i;
    for (i = 0; i < sizeof run; i++) zero[i] = 0;
    run.program = program;
    run.device = device;
    run.inputs = inputs;
    run.at = program->body;
    run.end = program->body + program->body_bytes;
    status = put_in_place(&run);
    if (status == KINESCOPE_MATCH) status = actions(&run);
    if (status == KINESCOPE_MATCH) status = take_outputs(&run, outputs);
    if (status == KINESCOPE_MATCH && run.report.divergences) status = KINESCOPE_DIVERGED;
    if (report != NULL) *report = run.report;
    return status;
}
