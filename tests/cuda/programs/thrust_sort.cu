// Sorts and sums by key with Thrust, which uses many kernels from templates, and allocates and frees memory often.
#include <algorithm>
#include <exception>
#include <numeric>
#include <vector>

#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include "check.h"

static void run(uint32_t n) {
    std::vector<uint32_t> words(n), keys(n), values(n);
    for (uint32_t i = 0; i < n; i++) {
        words[i] = scramble(i);
        keys[i] = scramble(~i) % 1000;
        values[i] = i;
    }

    thrust::device_vector<uint32_t> device_words(words.begin(), words.end());
    thrust::sort(device_words.begin(), device_words.end());
    std::vector<uint32_t> sorted_words(n);
    thrust::copy(device_words.begin(), device_words.end(), sorted_words.begin());
    std::sort(words.begin(), words.end());
    for (uint32_t i = 0; i < n; i++)
        if (sorted_words[i] != words[i]) fail("sorted word %u is %08x, not %08x", i, sorted_words[i], words[i]);
    give(sorted_words.data(), n * sizeof(uint32_t));

    thrust::device_vector<uint32_t> device_keys(keys.begin(), keys.end()), device_values(values.begin(), values.end());
    thrust::stable_sort_by_key(device_keys.begin(), device_keys.end(), device_values.begin());
    std::vector<uint32_t> sorted_values(n), order(n);
    thrust::copy(device_values.begin(), device_values.end(), sorted_values.begin());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    for (uint32_t i = 0; i < n; i++)
        if (sorted_values[i] != order[i]) fail("value %u by key is %u, not %u", i, sorted_values[i], order[i]);
    give(sorted_values.data(), n * sizeof(uint32_t));

    thrust::device_vector<uint32_t> device_groups(n), device_sums(n);
    const auto ends = thrust::reduce_by_key(device_keys.begin(), device_keys.end(), device_values.begin(),
                                            device_groups.begin(), device_sums.begin());
    const size_t groups = ends.first - device_groups.begin();
    std::vector<uint32_t> got_groups(groups), got_sums(groups), right_sums(1000, 0), present(1000, 0);
    thrust::copy(device_groups.begin(), ends.first, got_groups.begin());
    thrust::copy(device_sums.begin(), ends.second, got_sums.begin());
    for (uint32_t i = 0; i < n; i++) {
        right_sums[keys[i]] += values[i];
        present[keys[i]] = 1;
    }
    size_t at = 0;
    for (uint32_t key = 0; key < 1000; key++) {
        if (!present[key]) continue;
        if (at == groups) fail("only %zu keys came back", groups);
        if (got_groups[at] != key || got_sums[at] != right_sums[key])
            fail("key %u adds up to %u, not key %u to %u", got_groups[at], got_sums[at], key, right_sums[key]);
        at++;
    }
    if (at != groups) fail("%zu keys came back, not %zu", groups, at);
    give(got_groups.data(), groups * sizeof(uint32_t));
    give(got_sums.data(), groups * sizeof(uint32_t));
}

int main(int argc, char **argv) {
    const uint32_t n = (uint32_t)start("thrust_sort", argc, argv, 1 << 18, 1, 1 << 26);
    try {
        run(n);
    } catch (const std::exception &error) {
        fail("%s", error.what());
    }
    return finish();
}
