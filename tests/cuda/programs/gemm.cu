// Multiplies matrices of floats and of halves with cuBLAS. The source of the library's kernels is not available.
#include <vector>

#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "check.h"

#define CHECK_CUBLAS(call) check_cublas((call), #call, __LINE__)

static void check_cublas(cublasStatus_t status, const char *call, int line) {
    if (status != CUBLAS_STATUS_SUCCESS) fail("gemm.cu:%d: %s: %s", line, call, cublasGetStatusString(status));
}

// All numbers are small integers, so that sums are exact in any order, also in halves.
static void multiply(std::vector<int> &c, const std::vector<int> &a, const std::vector<int> &b, size_t m, size_t n,
                     size_t k) {
    for (size_t column = 0; column < n; column++) {
        for (size_t i = 0; i < k; i++) {
            const int factor = b[column * k + i];
            for (size_t row = 0; row < m; row++) c[column * m + row] += a[i * m + row] * factor;
        }
    }
}

template <typename T> static T *on_device(const std::vector<T> &values) {
    T *device;
    CHECK(cudaMalloc(&device, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

static void check(const char *which, size_t at, double got, double right) {
    if (got != right) fail("%s: c[%zu] is %g, not %g", which, at, got, right);
}

int main(int argc, char **argv) {
    // Matrices are in column-major order, as in cuBLAS: a is m x k, b is k x n, c is m x n.
    const size_t m = start("gemm", argc, argv, 256, 8, 1024), n = m / 8 * 4, k = m / 8 * 8 + 64;
    std::vector<int> a(m * k), b(k * n), product(m * n, 0);
    for (size_t i = 0; i < a.size(); i++) a[i] = (int)(scramble((uint32_t)i) % 3) - 1;
    for (size_t i = 0; i < b.size(); i++) b[i] = (int)(scramble(~(uint32_t)i) % 3) - 1;
    multiply(product, a, b, m, n, k);

    cublasHandle_t cublas;
    cudaStream_t stream;
    CHECK_CUBLAS(cublasCreate(&cublas));
    CHECK(cudaStreamCreate(&stream));
    CHECK_CUBLAS(cublasSetStream(cublas, stream));

    // c = 2 a b + 3 c; each element of c is 5 before.
    std::vector<float> c(m * n, 5);
    const float two = 2, three = 3;
    float *device_a = on_device(std::vector<float>(a.begin(), a.end()));
    float *device_b = on_device(std::vector<float>(b.begin(), b.end()));
    float *device_c = on_device(c);
    CHECK_CUBLAS(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, (int)m, (int)n, (int)k, &two, device_a, (int)m, device_b,
                             (int)k, &three, device_c, (int)m));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(c.data(), device_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < c.size(); i++) check("floats", i, c[i], 2 * product[i] + 15);
    give(c.data(), c.size() * sizeof(float));

    // The second product uses the same numbers as halves, and sums in floats.
    std::vector<__half> half_a(m * k), half_b(k * n), half_c(m * n);
    for (size_t i = 0; i < a.size(); i++) half_a[i] = __float2half((float)a[i]);
    for (size_t i = 0; i < b.size(); i++) half_b[i] = __float2half((float)b[i]);
    const float one = 1, zero = 0;
    __half *device_half_a = on_device(half_a);
    __half *device_half_b = on_device(half_b);
    __half *device_half_c;
    CHECK(cudaMalloc(&device_half_c, half_c.size() * sizeof(__half)));
    CHECK_CUBLAS(cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, (int)m, (int)n, (int)k, &one, device_half_a, CUDA_R_16F,
                              (int)m, device_half_b, CUDA_R_16F, (int)k, &zero, device_half_c, CUDA_R_16F, (int)m,
                              CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(half_c.data(), device_half_c, half_c.size() * sizeof(__half), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < half_c.size(); i++) check("halves", i, __half2float(half_c[i]), product[i]);
    give(half_c.data(), half_c.size() * sizeof(__half));

    CHECK_CUBLAS(cublasDestroy(cublas));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    CHECK(cudaFree(device_half_a));
    CHECK(cudaFree(device_half_b));
    CHECK(cudaFree(device_half_c));
    return finish();
}
