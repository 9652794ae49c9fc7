// Counts words: runs of ASCII letters without case. Prints `COUNT WORD`, the most frequent first, then by the alphabet.
#include "program.h"
#include <stdio.h>

struct word {
    const uint8_t *text;
    uint32_t length, count, hash;
};

static struct word *slots;
static uint32_t slot_count, used;

static struct word *find(const uint8_t *text, uint32_t length, uint32_t hash)
{
    uint32_t at = hash & (slot_count - 1);
    while (slots[at].text) {
        struct word *w = &slots[at];
        if (w->hash == hash && w->length == length && memcmp(w->text, text, length) == 0)
            break;
        at = (at + 1) & (slot_count - 1);
    }
    return &slots[at];
}

static void grow(void)
{
    struct word *old = slots;
    uint32_t old_count = slot_count;
    slot_count = old_count ? old_count * 2 : 256;
    slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        fail("no memory for the words");
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i].text)
            *find(old[i].text, old[i].length, old[i].hash) = old[i];
    free(old);
}

static int compare(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    uint32_t length = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, length);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

int main(void)
{
    struct bytes input = read_input();
    grow();
    for (size_t i = 0; i < input.size;) {
        size_t start = i;
        uint32_t hash = 2166136261u;
        for (; i < input.size; i++) {
            uint8_t c = input.data[i] | 0x20;
            if (c < 'a' || c > 'z')
                break;
            input.data[i] = c;
            hash = (hash ^ c) * 16777619u;
        }
        if (i == start) {
            i++;
            continue;
        }
        struct word *w = find(input.data + start, (uint32_t)(i - start), hash);
        if (!w->text) {
            *w = (struct word){ input.data + start, (uint32_t)(i - start), 0, hash };
            used++;
        }
        w->count++;
        if (used * 2 > slot_count)
            grow();
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < slot_count; i++)
        if (slots[i].text)
            slots[n++] = slots[i];
    qsort(slots, n, sizeof *slots, compare);
    for (uint32_t i = 0; i < n; i++)
        printf("%u %.*s\n", slots[i].count, (int)slots[i].length, slots[i].text);
    return 0;
}
