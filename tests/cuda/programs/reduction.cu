// Reduces an array by atomics. Integer results do not depend on the order; float results, with --float-out, do.
#include <algorithm>
#include <cmath>
#include <vector>

#include "check.h"

const unsigned BLOCK = 256;
const unsigned BINS = 256;

struct Totals {
    unsigned long long sum;
    unsigned largest;
    unsigned mixed;
    unsigned bins[BINS];
};

__global__ void reduce(Totals *totals, const uint32_t *values, size_t n) {
    __shared__ unsigned long long sums[BLOCK];
    __shared__ unsigned bins[BINS];
    const unsigned lane = threadIdx.x;
    for (unsigned i = lane; i < BINS; i += BLOCK) bins[i] = 0;
    __syncthreads();

    unsigned long long sum = 0;
    unsigned largest = 0, mixed = 0;
    for (size_t i = (size_t)blockIdx.x * BLOCK + lane; i < n; i += (size_t)gridDim.x * BLOCK) {
        const uint32_t value = values[i];
        sum += value;
        largest = max(largest, value);
        mixed ^= value;
        atomicAdd(&bins[value % BINS], 1u);
    }
    sums[lane] = sum;
    __syncthreads();
    for (unsigned step = BLOCK / 2; step > 0; step /= 2) {
        if (lane < step) sums[lane] += sums[lane + step];
        __syncthreads();
    }
    if (lane == 0) atomicAdd(&totals->sum, sums[0]);
    atomicMax(&totals->largest, largest);
    atomicXor(&totals->mixed, mixed);
    for (unsigned i = lane; i < BINS; i += BLOCK) atomicAdd(&totals->bins[i], bins[i]);
}

// Every thread adds its own rounded sum, so that the last bits depend on the order of the threads.
__global__ void reduce_floats(float *total, const uint32_t *values, size_t n) {
    float sum = 0;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (size_t)gridDim.x * BLOCK)
        sum += 1.0f / (float)(1 + values[i] % 1000);
    atomicAdd(total, sum);
}

int main(int argc, char **argv) {
    const char *float_out = option(&argc, argv, "--float-out");
    const size_t n = start("reduction", argc, argv, 1 << 20, 1, 1 << 28);
    std::vector<uint32_t> values(n);
    Totals right = {};
    double float_right = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t value = values[i] = scramble((uint32_t)i);
        right.sum += value;
        right.largest = std::max(right.largest, value);
        right.mixed ^= value;
        right.bins[value % BINS]++;
        float_right += 1.0 / (1 + value % 1000);
    }

    uint32_t *device_values;
    Totals *device_totals, totals;
    CHECK(cudaMalloc(&device_values, n * sizeof(uint32_t)));
    CHECK(cudaMalloc(&device_totals, sizeof(Totals)));
    CHECK(cudaMemcpy(device_values, values.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_totals, 0, sizeof(Totals)));
    const unsigned grid = std::min(blocks_for(n, BLOCK), 512u);
    reduce<<<grid, BLOCK>>>(device_totals, device_values, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&totals, device_totals, sizeof(Totals), cudaMemcpyDeviceToHost));

    if (float_out != NULL) {
        float *device_total, total;
        CHECK(cudaMalloc(&device_total, sizeof(float)));
        CHECK(cudaMemset(device_total, 0, sizeof(float)));
        reduce_floats<<<grid, BLOCK>>>(device_total, device_values, n);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&total, device_total, sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(device_total));
        if (!(std::fabs(total - float_right) <= 1e-3 * float_right))
            fail("the float sum is %.9g, far from %.9g", total, float_right);
        FILE *file = fopen(float_out, "wb");
        if (file == NULL || fwrite(&total, sizeof(float), 1, file) != 1 || fclose(file) != 0)
            fail("%s: %s", float_out, strerror(errno));
        printf("order-dependent float sum %a, not in the checksum\n", total);
    }
    CHECK(cudaFree(device_values));
    CHECK(cudaFree(device_totals));

    if (totals.sum != right.sum) fail("the sum is %llu, not %llu", totals.sum, right.sum);
    if (totals.largest != right.largest) fail("the largest is %u, not %u", totals.largest, right.largest);
    if (totals.mixed != right.mixed) fail("the exclusive or is %u, not %u", totals.mixed, right.mixed);
    for (unsigned i = 0; i < BINS; i++)
        if (totals.bins[i] != right.bins[i]) fail("bin %u holds %u, not %u", i, totals.bins[i], right.bins[i]);
    give(&totals, sizeof(Totals));
    return finish();
}
