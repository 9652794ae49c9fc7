// Sums tiles with a kernel that is correct only for 1, 2, 4, ... 256 threads per block. Tuners must reject other sizes.
#include <vector>

#include "check.h"

const unsigned SHARED = 256;
const unsigned TILE = 2048;

// Any number of blocks is correct. The number of threads must be a power of two, because the halving must include every
// sum. It must be at most 256, because the sums of later threads are lost. No access is out of bounds.
__global__ void tile_sums(uint32_t *sums, const uint32_t *values, uint32_t tiles) {
    __shared__ uint32_t partial[SHARED];
    const unsigned lane = threadIdx.x;
    const unsigned lanes = blockDim.x < SHARED ? blockDim.x : SHARED;
    for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        uint32_t sum = 0;
        for (unsigned i = lane; i < TILE; i += blockDim.x) {
            const uint32_t value = values[(size_t)tile * TILE + i];
            sum += value * value + 1;
        }
        if (lane < SHARED) partial[lane] = sum;
        __syncthreads();
        for (unsigned step = lanes / 2; step > 0; step /= 2) {
            if (lane < step) partial[lane] += partial[lane + step];
            __syncthreads();
        }
        if (lane == 0) sums[tile] = partial[0];
        __syncthreads();
    }
}

int main(int argc, char **argv) {
    const unsigned block = (unsigned)number_option(&argc, argv, "--block", 32, 1, 1024);
    const unsigned grid = (unsigned)number_option(&argc, argv, "--grid", 64, 1, 1 << 20);
    const bool timed = flag(&argc, argv, "--time");
    const uint32_t tiles = (uint32_t)start("wrong_for_some", argc, argv, 1 << 11, 1, 1 << 17);
    const size_t n = (size_t)tiles * TILE;
    std::vector<uint32_t> values(n), sums(tiles);
    for (size_t i = 0; i < n; i++) values[i] = scramble((uint32_t)i);

    uint32_t *device_values, *device_sums;
    CHECK(cudaMalloc(&device_values, n * sizeof(uint32_t)));
    CHECK(cudaMalloc(&device_sums, tiles * sizeof(uint32_t)));
    CHECK(cudaMemcpy(device_values, values.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_sums, 0, tiles * sizeof(uint32_t)));
    tile_sums<<<grid, block>>>(device_sums, device_values, tiles);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums.data(), device_sums, tiles * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    if (timed) {
        const double time = time_of([&] {
            tile_sums<<<grid, block>>>(device_sums, device_values, tiles);
            CHECK(cudaGetLastError());
        });
        printf("grid %u block %u: %.2f us\n", grid, block, time);
    }
    CHECK(cudaFree(device_values));
    CHECK(cudaFree(device_sums));

    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t right = 0;
        for (unsigned i = 0; i < TILE; i++) {
            const uint32_t value = values[(size_t)tile * TILE + i];
            right += value * value + 1;
        }
        if (sums[tile] != right)
            fail("with blocks of %u, the sum of tile %u is %08x, not %08x", block, tile, sums[tile], right);
    }
    give(sums.data(), tiles * sizeof(uint32_t));
    return finish();
}
