// Histogram of unsigned numbers: count, minimum, maximum, mean, and percentiles with an error below 1/64.
#include "program.h"
#include <stdio.h>

// 128 exact values, then 64 buckets for each power of two.
enum { BUCKETS = 128 + 57 * 64 };

static uint64_t counts[BUCKETS];

static unsigned bucket_of(uint64_t value)
{
    if (value < 128)
        return (unsigned)value;
    unsigned shift = 57u - (unsigned)__builtin_clzll(value);
    return 128 + (shift - 1) * 64 + (unsigned)(value >> shift) - 64;
}

// The smallest value of a bucket.
static uint64_t value_of(unsigned bucket)
{
    if (bucket < 128)
        return bucket;
    unsigned shift = (bucket - 128) / 64 + 1;
    return (uint64_t)((bucket - 128) % 64 + 64) << shift;
}

int main(void)
{
    struct bytes input = read_input();
    uint64_t count = 0, min = UINT64_MAX, max = 0;
    double sum = 0;
    for (size_t i = 0; i < input.size;) {
        if (input.data[i] < '0' || input.data[i] > '9') {
            i++;
            continue;
        }
        uint64_t value = 0;
        for (; i < input.size && input.data[i] >= '0' && input.data[i] <= '9'; i++)
            value = value * 10 + (input.data[i] - '0');
        counts[bucket_of(value)]++;
        count++;
        sum += (double)value;
        min = value < min ? value : min;
        max = value > max ? value : max;
    }
    if (count == 0)
        fail("the input has no number");
    printf("count %llu\nmin %llu\nmax %llu\nmean %.3f\n", (unsigned long long)count, (unsigned long long)min,
           (unsigned long long)max, sum / (double)count);
    static const unsigned per_mille[] = { 500, 900, 990, 999 };
    for (unsigned p = 0; p < 4; p++) {
        uint64_t rank = (count * per_mille[p] + 999) / 1000, seen = 0;
        unsigned bucket = 0;
        while ((seen += counts[bucket]) < rank)
            bucket++;
        printf("p%u.%u %llu\n", per_mille[p] / 10, per_mille[p] % 10, (unsigned long long)value_of(bucket));
    }
    return 0;
}
