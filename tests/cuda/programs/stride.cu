// Scales and adds with a kernel that is correct for any number of blocks and threads. A tuner can make it faster.
#include <cmath>
#include <vector>

#include "check.h"

__global__ void scale_add(float *out, const float *x, const float *y, float factor, size_t n) {
    const size_t all = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all) out[i] = fmaf(factor, x[i], y[i]);
}

// Saves buffers to a file like comparable tools around a launch: in multiples of 2 MiB, by copies to the host.
static void dump(const char *folder, const char *name, void *const *at, size_t count, size_t bytes) {
    const size_t step = 2u << 20, rounded = (bytes + step - 1) / step * step;
    std::vector<char> host(rounded);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.bin", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file) fail("%s cannot be written", path);
    for (size_t i = 0; i < count; i++) {
        CHECK(cudaMemcpy(host.data(), at[i], bytes, cudaMemcpyDeviceToHost));
        if (fwrite(host.data(), 1, rounded, file) != rounded) fail("%s cannot be written", path);
    }
    if (fclose(file) != 0) fail("%s cannot be written", path);
}

int main(int argc, char **argv) {
    const char *folder = option(&argc, argv, "--dump");
    const unsigned block = (unsigned)number_option(&argc, argv, "--block", 64, 1, 1024);
    const unsigned grid = (unsigned)number_option(&argc, argv, "--grid", 32, 1, 1 << 20);
    const bool timed = flag(&argc, argv, "--time");
    const size_t n = start("stride", argc, argv, 1 << 22, 1, 1 << 28);
    const float factor = 2.7182817f;
    std::vector<float> x(n), y(n), out(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(scramble((uint32_t)i) >> 8) / 65536.0f - 128;
        y[i] = (float)(scramble(~(uint32_t)i) >> 8) / 4096.0f;
    }

    float *device_x, *device_y, *device_out;
    const size_t bytes = n * sizeof(float);
    CHECK(cudaMalloc(&device_x, bytes));
    CHECK(cudaMalloc(&device_y, bytes));
    CHECK(cudaMalloc(&device_out, bytes));
    CHECK(cudaMemcpy(device_x, x.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_y, y.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_out, 0, bytes));
    void *const all[] = {device_x, device_y, device_out};
    if (folder) dump(folder, "before", all, 3, bytes);
    scale_add<<<grid, block>>>(device_out, device_x, device_y, factor, n);
    CHECK(cudaGetLastError());
    if (folder) dump(folder, "after", all, 3, bytes);
    CHECK(cudaMemcpy(out.data(), device_out, bytes, cudaMemcpyDeviceToHost));
    if (timed) {
        const double time = time_of([&] {
            scale_add<<<grid, block>>>(device_out, device_x, device_y, factor, n);
            CHECK(cudaGetLastError());
        });
        printf("grid %u block %u: %.2f us\n", grid, block, time);
    }
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_y));
    CHECK(cudaFree(device_out));

    for (size_t i = 0; i < n; i++) {
        const float right = std::fmaf(factor, x[i], y[i]);
        if (memcmp(&right, &out[i], sizeof(float)) != 0) fail("out[%zu] is %a, not %a", i, out[i], right);
    }
    give(out.data(), bytes);
    return finish();
}
