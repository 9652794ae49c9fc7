// Calls of the CUDA runtime that the other programs do not use, and the error codes of wrong calls. With the shared
// runtime (FLAGS=--cudart=shared), the program compares NVIDIA's library with the one of `remote/runtime`.
//
// The kernels have names that the stand-in driver knows, so that the program also runs there.
#include <thread>
#include <vector>

#include "check.h"

#define EXPECT(call, code) expect_code((call), (code), #call, __LINE__)

static void expect_code(cudaError_t error, cudaError_t code, const char *call, int line) {
    if (error != code)
        fail("%d: %s: %s, not %s", line, call, cudaGetErrorName(error), cudaGetErrorName(code));
    // The thread's last error is the same, and reading it clears it.
    if (cudaPeekAtLastError() != code || cudaGetLastError() != code || cudaGetLastError() != cudaSuccess)
        fail("%d: %s: the last error is not %s", line, call, cudaGetErrorName(code));
}

static void expect(bool is_right, const char *what) {
    if (!is_right) fail("%s", what);
}

__constant__ uint32_t weights[4] = {3, 1, 4, 1};
__device__ uint32_t counter = 7;
__device__ uint32_t bank[16] = {100, 101, 102, 103};

extern "C" __global__ void vector_add(float *c, const float *a, const float *b, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void weigh_globals(uint32_t *out, const uint32_t *in, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * weights[i % 4] + counter + bank[i % 16];
}

static void check_launches(float *numbers, size_t n) {
    // Which errors launches give that cannot be depends on the version of the runtime: they are results.
    const struct {
        dim3 grid, block;
        size_t shared;
    } impossible[] = {
        {dim3(0), dim3(32), 0},          {dim3(1), dim3(0), 0},          {dim3(1), dim3(2048), 0},
        {dim3(1), dim3(1, 1, 65), 0},    {dim3(1, 65536), dim3(1), 0},   {dim3(1, 1, 65536), dim3(1), 0},
        {dim3(1), dim3(32), 300 << 10},  {dim3(1), dim3(32), 64 << 10},  {dim3(1), dim3(1024, 2), 0},
    };
    for (const auto &launch : impossible) {
        vector_add<<<launch.grid, launch.block, launch.shared>>>(numbers, numbers, numbers, 0);
        const int32_t errors[] = {cudaPeekAtLastError(), cudaGetLastError(), cudaGetLastError()};
        printf("%d %d %d\n", errors[0], errors[1], errors[2]);
        give(errors, sizeof(errors));
    }
    const int32_t unknown = cudaLaunchKernel((const void *)&n, dim3(1), dim3(1), nullptr, 0, nullptr);
    printf("%d %d\n", unknown, cudaGetLastError());
    give(&unknown, sizeof(unknown));
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, vector_add));
    expect(attributes.maxThreadsPerBlock >= 256 && attributes.numRegs > 0, "attributes of a kernel");
    CHECK(cudaFuncSetAttribute(vector_add, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    vector_add<<<1, 32, 60 << 10>>>(numbers, numbers, numbers, 0);
    CHECK(cudaGetLastError());
    int blocks, grid, block;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vector_add, 128, 0));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, vector_add));
    expect(blocks > 0 && grid > 0 && block > 0, "occupancy");
}

static void check_symbols(uint32_t *out, const uint32_t *in, uint32_t n) {
    uint32_t word = 9, words[16];
    size_t bytes;
    void *at;
    CHECK(cudaMemcpyToSymbol(weights, &word, sizeof(word), 2 * sizeof(word)));
    CHECK(cudaMemcpyFromSymbol(words, weights, sizeof(weights)));
    expect(words[1] == 1 && words[2] == 9, "words of a constant");
    CHECK(cudaGetSymbolAddress(&at, bank));
    CHECK(cudaGetSymbolSize(&bytes, bank));
    expect(bytes == sizeof(words), "size of a variable");
    CHECK(cudaMemset(at, 0, 4));
    weigh_globals<<<blocks_for(n, 128), 128>>>(out, in, n);
    CHECK(cudaGetLastError());
    EXPECT(cudaMemcpyToSymbol(weights, words, 16, 4), cudaErrorInvalidValue);
    EXPECT(cudaMemcpyToSymbol((const void *)&word, words, 4), cudaErrorInvalidSymbol);
    EXPECT(cudaMemcpyToSymbol(weights, words, 4, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
}

static void check_rows() {
    unsigned char rows[7][20], back[7][20], cube_bytes[2][3][16];
    size_t pitch;
    void *device;
    for (int i = 0; i < 140; i++) rows[i / 20][i % 20] = (unsigned char)i;
    CHECK(cudaMallocPitch(&device, &pitch, 20, 7));
    CHECK(cudaMemset2D(device, pitch, 0x11, 20, 7));
    CHECK(cudaMemcpy2D(device, pitch, rows, 20, 20, 6, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(back, 20, device, pitch, 20, 7, cudaMemcpyDefault));
    expect(memcmp(rows, back, 120) == 0 && back[6][19] == 0x11, "rows");
    EXPECT(cudaMemcpy2D(back, 8, device, pitch, 20, 7, cudaMemcpyDeviceToHost), cudaErrorInvalidPitchValue);
    cudaPitchedPtr cube;
    cudaExtent extent = make_cudaExtent(16, 3, 2);
    CHECK(cudaMalloc3D(&cube, extent));
    CHECK(cudaMemset3D(cube, 7, extent));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = cube;
    copy.dstPtr = make_cudaPitchedPtr(cube_bytes, 16, 16, 3);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    expect(cube_bytes[0][0][0] == 7 && cube_bytes[1][2][15] == 7, "slices");
    CHECK(cudaFree(cube.ptr));
    CHECK(cudaFree(device));
    give(back, sizeof(back));
}

static void check_addresses(void *device) {
    cudaPointerAttributes attributes;
    void *pinned;
    CHECK(cudaPointerGetAttributes(&attributes, device));
    expect(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == device, "device memory");
    CHECK(cudaPointerGetAttributes(&attributes, &attributes));
    expect(attributes.type == cudaMemoryTypeUnregistered, "memory of the host");
    CHECK(cudaMallocHost(&pinned, 64));
    CHECK(cudaPointerGetAttributes(&attributes, pinned));
    expect(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned, "pinned memory");
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaMalloc(&pinned, 0));
    expect(pinned == nullptr, "an allocation without bytes");
    CHECK(cudaFree(nullptr));
}

static void add_in_own_stream(const float *a, float *c, size_t n) {
    cudaStream_t stream;
    float *device;
    expect(cudaGetLastError() == cudaSuccess, "the last error of a new thread");
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocAsync((void **)&device, n * sizeof(float), stream));
    CHECK(cudaMemcpyAsync(device, a, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    vector_add<<<blocks_for(n, 64), 64, 0, stream>>>(device, device, device, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(c, device, n * sizeof(float), cudaMemcpyDefault, stream));
    CHECK(cudaFreeAsync(device, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
    const size_t n = start("runtime_calls", argc, argv, 4096, 64, 1 << 20);
    std::vector<uint32_t> words(n);
    std::vector<float> numbers(n), sums(n);
    for (size_t i = 0; i < n; i++) {
        words[i] = scramble((uint32_t)i);
        numbers[i] = (float)(words[i] >> 8);
    }
    cudaDeviceProp properties;
    int value;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    expect(properties.multiProcessorCount == value && properties.warpSize == 32, "properties of the device");
    EXPECT(cudaSetDevice(1000), cudaErrorInvalidDevice);

    uint32_t *device;
    CHECK(cudaMalloc(&device, 2 * n * sizeof(uint32_t)));
    CHECK(cudaMemcpy(device, words.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    check_launches((float *)device, n);
    check_symbols(device + n, device, (uint32_t)n);
    CHECK(cudaMemcpy(words.data(), device + n, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    give(words.data(), n * sizeof(uint32_t));
    check_rows();
    check_addresses(device);
    std::thread thread(add_in_own_stream, numbers.data(), sums.data(), n);
    thread.join();
    for (size_t i = 0; i < n; i++)
        if (sums[i] != numbers[i] + numbers[i]) fail("sum %zu is %a", i, sums[i]);
    give(sums.data(), n * sizeof(float));

    // A reset frees memory and gives variables their first values.
    uint32_t first[4];
    CHECK(cudaDeviceReset());
    CHECK(cudaMemcpyFromSymbol(first, weights, sizeof(first)));
    expect(first[2] == 4, "first value of a constant");
    return finish();
}
