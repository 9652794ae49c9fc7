// Kernels use data in __constant__ and __device__ variables, which include pointers to allocated memory.
#include <vector>

#include "check.h"

const unsigned BLOCK = 256;
const unsigned TABLE = 256;
const unsigned ROUNDS = 3;

struct Settings {
    uint32_t factor;
    uint32_t offset;
    const uint32_t *lookup;
};

// Some variables have initial values in the program's file, others are zero.
__constant__ uint32_t weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ Settings settings;
__device__ uint32_t table[TABLE];
__device__ uint32_t *buffer;
__device__ unsigned long long total = 1000;
__device__ uint32_t rounds;

__global__ void mix(uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const uint32_t value = (settings.lookup[i] ^ table[i % TABLE]) * settings.factor * weights[i % 8] + settings.offset;
    buffer[i] += value;
    atomicAdd(&total, (unsigned long long)value);
    if (i == 0) rounds++;
}

// Changes the table on the GPU. The next round reads it.
__global__ void turn_table() {
    const uint32_t value = table[(threadIdx.x + 1) % TABLE];
    __syncthreads();
    table[threadIdx.x] = value + rounds;
}

int main(int argc, char **argv) {
    const uint32_t n = (uint32_t)start("globals", argc, argv, 1 << 16, 1, 1 << 26);
    std::vector<uint32_t> lookup(n), values(n), right(n, 0), right_table(TABLE), got_table(TABLE);
    for (uint32_t i = 0; i < n; i++) lookup[i] = scramble(i);
    for (uint32_t i = 0; i < TABLE; i++) right_table[i] = scramble(~i);

    uint32_t *device_lookup, *device_values;
    CHECK(cudaMalloc(&device_lookup, n * sizeof(uint32_t)));
    CHECK(cudaMalloc(&device_values, n * sizeof(uint32_t)));
    CHECK(cudaMemcpy(device_lookup, lookup.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_values, 0, n * sizeof(uint32_t)));
    CHECK(cudaMemcpyToSymbol(buffer, &device_values, sizeof(device_values)));
    // One copy writes the second half of the table by symbol and offset, another writes the first half by address.
    void *table_address;
    const size_t half = TABLE / 2 * sizeof(uint32_t);
    CHECK(cudaMemcpyToSymbol(table, right_table.data() + TABLE / 2, half, half));
    CHECK(cudaGetSymbolAddress(&table_address, table));
    CHECK(cudaMemcpy(table_address, right_table.data(), half, cudaMemcpyHostToDevice));

    unsigned long long right_total = 1000;
    uint32_t right_weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const Settings now = {2 * round + 7, round * 1000003, device_lookup};
        CHECK(cudaMemcpyToSymbolAsync(settings, &now, sizeof(now), 0, cudaMemcpyHostToDevice, stream));
        if (round == 2) {
            right_weights[5] = 11;
            CHECK(cudaMemcpyToSymbolAsync(weights, &right_weights[5], sizeof(uint32_t), 5 * sizeof(uint32_t),
                                          cudaMemcpyHostToDevice, stream));
        }
        mix<<<blocks_for(n, BLOCK), BLOCK, 0, stream>>>(n);
        CHECK(cudaGetLastError());
        turn_table<<<1, TABLE, 0, stream>>>();
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));

        for (uint32_t i = 0; i < n; i++) {
            const uint32_t mixed = lookup[i] ^ right_table[i % TABLE];
            const uint32_t value = mixed * now.factor * right_weights[i % 8] + now.offset;
            right[i] += value;
            right_total += value;
        }
        const uint32_t first = right_table[0];
        for (uint32_t i = 0; i < TABLE; i++)
            right_table[i] = (i + 1 < TABLE ? right_table[i + 1] : first) + round + 1;
    }
    CHECK(cudaStreamDestroy(stream));

    unsigned long long got_total;
    uint32_t got_rounds;
    CHECK(cudaMemcpy(values.data(), device_values, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyFromSymbol(got_table.data(), table, TABLE * sizeof(uint32_t)));
    CHECK(cudaMemcpyFromSymbol(&got_total, total, sizeof(got_total)));
    CHECK(cudaMemcpyFromSymbol(&got_rounds, rounds, sizeof(got_rounds)));
    CHECK(cudaFree(device_lookup));
    CHECK(cudaFree(device_values));

    for (uint32_t i = 0; i < n; i++)
        if (values[i] != right[i]) fail("value %u is %08x, not %08x", i, values[i], right[i]);
    for (uint32_t i = 0; i < TABLE; i++)
        if (got_table[i] != right_table[i])
            fail("entry %u of the table is %08x, not %08x", i, got_table[i], right_table[i]);
    if (got_total != right_total) fail("the total is %llu, not %llu", got_total, right_total);
    if (got_rounds != ROUNDS) fail("%u rounds were counted, not %u", got_rounds, ROUNDS);
    give(values.data(), n * sizeof(uint32_t));
    give(got_table.data(), TABLE * sizeof(uint32_t));
    give(&got_total, sizeof(got_total));
    give(&got_rounds, sizeof(got_rounds));
    return finish();
}
