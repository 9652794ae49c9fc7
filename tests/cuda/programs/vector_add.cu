// Adds two vectors: the smallest program with inputs, a kernel and an output.
#include <vector>

#include "check.h"

__global__ void add(float *c, const float *a, const float *b, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char **argv) {
    const size_t n = start("vector_add", argc, argv, 1 << 20, 1, 1 << 28);
    std::vector<float> a(n), b(n), c(n);
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(scramble((uint32_t)i) >> 8) / 65536.0f;
        b[i] = (float)(scramble(~(uint32_t)i) >> 8) / 4096.0f;
    }

    float *device_a, *device_b, *device_c;
    const size_t bytes = n * sizeof(float);
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_c, bytes));
    CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
    add<<<blocks_for(n, 256), 256>>>(device_c, device_a, device_b, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));

    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        if (memcmp(&sum, &c[i], sizeof(float)) != 0) fail("c[%zu] is %a, not %a", i, c[i], sum);
    }
    give(c.data(), bytes);
    return finish();
}
