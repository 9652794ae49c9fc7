// Two streams alternate work by events and copies from pinned memory. Another order gives another result.
#include <vector>

#include "check.h"

const unsigned BLOCK = 256;
const unsigned ROUNDS = 8;
const unsigned STEPS = 4000;

// This function is slow, so that a missing wait gives a wrong result. Each step depends on the previous step.
__host__ __device__ static uint32_t churn(uint32_t x, unsigned steps) {
    for (unsigned i = 0; i < steps; i++) x = x * 1664525u + 1013904223u + (x >> 16);
    return x;
}

__global__ void first(uint32_t *state, const uint32_t *input, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) state[i] = churn(state[i] * 31 + input[i], STEPS);
}

__global__ void second(uint32_t *sum, const uint32_t *state, uint32_t n, uint32_t round) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = churn(sum[i] ^ state[(i + 1) % n], STEPS) + round;
}

struct Filling {
    uint32_t *staging;
    uint32_t n;
    uint32_t round;
};

static uint32_t input_at(uint32_t round, uint32_t i) { return scramble(round * 0x01000193u + i); }

static void fill(void *data) {
    const Filling *filling = (const Filling *)data;
    for (uint32_t i = 0; i < filling->n; i++) filling->staging[i] = input_at(filling->round, i);
}

int main(int argc, char **argv) {
    // With this flag, a function in the stream fills the pinned memory before the copy, but after the copy's call.
    const bool late = flag(&argc, argv, "--host-function");
    const uint32_t n = (uint32_t)start("streams", argc, argv, 1 << 12, 1, 1 << 20);
    const size_t bytes = n * sizeof(uint32_t);

    uint32_t *staging, *results, *input, *state, *sum;
    CHECK(cudaMallocHost(&staging, bytes));
    CHECK(cudaHostAlloc(&results, ROUNDS * bytes, cudaHostAllocDefault));
    CHECK(cudaMalloc(&input, bytes));
    CHECK(cudaMalloc(&state, bytes));
    CHECK(cudaMalloc(&sum, bytes));
    // Neither stream waits for the default stream or for the other stream.
    cudaStream_t one, two;
    cudaEvent_t zeroed, copied, stated, summed;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&zeroed, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&stated, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&summed));

    CHECK(cudaMemsetAsync(state, 0, bytes, two));
    CHECK(cudaMemsetAsync(sum, 0x5a, bytes, two));
    CHECK(cudaEventRecord(zeroed, two));
    CHECK(cudaStreamWaitEvent(one, zeroed, 0));
    std::vector<Filling> fillings(ROUNDS);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        // Every round uses the same staging memory, after the copy of the previous round is done.
        fillings[round] = {staging, n, round};
        if (late) {
            CHECK(cudaLaunchHostFunc(one, fill, &fillings[round]));
        } else {
            if (round > 0) CHECK(cudaEventSynchronize(copied));
            fill(&fillings[round]);
        }
        CHECK(cudaMemcpyAsync(input, staging, bytes, cudaMemcpyHostToDevice, one));
        CHECK(cudaEventRecord(copied, one));
        // The state must not change while the second stream still reads it.
        if (round > 0) CHECK(cudaStreamWaitEvent(one, summed, 0));
        first<<<blocks_for(n, BLOCK), BLOCK, 0, one>>>(state, input, n);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(stated, one));
        CHECK(cudaStreamWaitEvent(two, stated, 0));
        second<<<blocks_for(n, BLOCK), BLOCK, 0, two>>>(sum, state, n, round);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(summed, two));
        CHECK(cudaMemcpyAsync(results + (size_t)round * n, sum, bytes, cudaMemcpyDeviceToHost, two));
    }
    CHECK(cudaStreamSynchronize(two));
    CHECK(cudaStreamSynchronize(one));

    std::vector<uint32_t> right_state(n, 0), right_sum(n, 0x5a5a5a5au);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < n; i++) right_state[i] = churn(right_state[i] * 31 + input_at(round, i), STEPS);
        for (uint32_t i = 0; i < n; i++) {
            right_sum[i] = churn(right_sum[i] ^ right_state[(i + 1) % n], STEPS) + round;
            const uint32_t got = results[(size_t)round * n + i];
            if (got != right_sum[i]) fail("round %u: %u is %08x, not %08x", round, i, got, right_sum[i]);
        }
    }
    give(results, ROUNDS * bytes);

    CHECK(cudaEventDestroy(zeroed));
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaEventDestroy(stated));
    CHECK(cudaEventDestroy(summed));
    CHECK(cudaStreamDestroy(one));
    CHECK(cudaStreamDestroy(two));
    CHECK(cudaFree(input));
    CHECK(cudaFree(state));
    CHECK(cudaFree(sum));
    CHECK(cudaFreeHost(staging));
    CHECK(cudaFreeHost(results));
    return finish();
}
