// Launches a small kernel many times, and prints the microseconds of a launch on the host: what a recorder adds to.
#include <time.h>

#include "check.h"

__global__ void add_one(uint32_t *values) { values[threadIdx.x] += 1; }

static double now_us() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
    const uint32_t launches = (uint32_t)start("launch_cost", argc, argv, 2000, 1, 1 << 20);
    const unsigned THREADS = 32;
    uint32_t *values, got[THREADS];
    CHECK(cudaMalloc(&values, sizeof got));
    CHECK(cudaMemset(values, 0, sizeof got));
    add_one<<<1, THREADS>>>(values);
    CHECK(cudaDeviceSynchronize());
    const double begin = now_us();
    for (uint32_t n = 1; n < launches; n++) add_one<<<1, THREADS>>>(values);
    const double submitted = now_us();
    CHECK(cudaDeviceSynchronize());
    const double end = now_us();
    CHECK(cudaMemcpy(got, values, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(values));
    for (unsigned i = 0; i < THREADS; i++)
        if (got[i] != launches) fail("value %u is %u, not %u", i, got[i], launches);
    give(got, sizeof got);
    fprintf(stderr, "launch_us=%.2f with_work_us=%.2f\n", (submitted - begin) / launches, (end - begin) / launches);
    return finish();
}
