// Ends a program at the first failed call of the CUDA runtime, and prints this call.
#pragma once

#include <cuda_runtime.h>

#include "result.h"

#define CHECK(call) check_call((call), #call, __FILE__, __LINE__)

static inline void check_call(cudaError_t error, const char *call, const char *file, int line) {
    if (error != cudaSuccess)
        fail("%s:%d: %s: %s (%s)", file, line, call, cudaGetErrorString(error),
             cudaGetErrorName(error));
}

static inline unsigned blocks_for(size_t items, unsigned block) {
    return (unsigned)((items + block - 1) / block);
}

// Returns the mean time of a launch in microseconds, after a launch that is not measured.
template <typename Launch> static inline double time_of(Launch launch) {
    const int times = 20;
    cudaEvent_t begin, end;
    float milliseconds;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    launch();
    CHECK(cudaEventRecord(begin, 0));
    for (int i = 0; i < times; i++) launch();
    CHECK(cudaEventRecord(end, 0));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return milliseconds * 1000.0 / times;
}
