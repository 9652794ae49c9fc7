// Computes the temperature of a chip from a map of its power: a stencil of many steps in a stream, with pinned memory.
#include <cmath>
#include <vector>

#include "check.h"

const unsigned TILE = 16;

// Factors of a step. The cells keep their temperature if there is no power and no difference between neighbors.
struct Factors {
    float vertical;
    float horizontal;
    float loss;
    float power;
    float ambient;
};

// Only fused operations, so that the CPU and the GPU round in the same way, and the comparison is exact.
__host__ __device__ static float next_temperature(const Factors &factors, float center, float north, float south,
                                                  float west, float east, float power) {
    float change = factors.power * power;
    change = fmaf(factors.vertical, fmaf(-2.0f, center, north + south), change);
    change = fmaf(factors.horizontal, fmaf(-2.0f, center, west + east), change);
    return center + fmaf(factors.loss, factors.ambient - center, change);
}

// A block computes a tile. Its shared memory has one more cell at each side. Cells outside of the chip are those at its
// edge.
__global__ void heat_step(float *to, const float *from, const float *power, int side, Factors factors) {
    __shared__ float cells[TILE + 2][TILE + 2];
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    for (unsigned i = threadIdx.y * TILE + threadIdx.x; i < (TILE + 2) * (TILE + 2); i += TILE * TILE) {
        const int x = min(max(left + (int)(i % (TILE + 2)) - 1, 0), side - 1);
        const int y = min(max(top + (int)(i / (TILE + 2)) - 1, 0), side - 1);
        cells[i / (TILE + 2)][i % (TILE + 2)] = from[(size_t)y * side + x];
    }
    __syncthreads();
    const int x = left + threadIdx.x, y = top + threadIdx.y;
    const unsigned column = threadIdx.x + 1, row = threadIdx.y + 1;
    if (x < side && y < side)
        to[(size_t)y * side + x] =
            next_temperature(factors, cells[row][column], cells[row - 1][column], cells[row + 1][column],
                             cells[row][column - 1], cells[row][column + 1], power[(size_t)y * side + x]);
}

static void heat_step_on_cpu(std::vector<float> &to, const std::vector<float> &from, const std::vector<float> &power,
                             int side, const Factors &factors) {
    for (int y = 0; y < side; y++) {
        const float *row = &from[(size_t)y * side];
        const float *north = &from[(size_t)(y > 0 ? y - 1 : y) * side];
        const float *south = &from[(size_t)(y + 1 < side ? y + 1 : y) * side];
        for (int x = 0; x < side; x++)
            to[(size_t)y * side + x] =
                next_temperature(factors, row[x], north[x], south[x], row[x > 0 ? x - 1 : x],
                                 row[x + 1 < side ? x + 1 : x], power[(size_t)y * side + x]);
    }
}

int main(int argc, char **argv) {
    const unsigned steps = (unsigned)number_option(&argc, argv, "--steps", 60, 1, 1 << 20);
    const int side = (int)start("hotspot", argc, argv, 512, 2, 1 << 14);
    const size_t cells = (size_t)side * side, bytes = cells * sizeof(float);
    const Factors factors = {0.12f, 0.1f, 0.004f, 0.5f, 300.0f};

    float *temperature, *power, *device_power, *buffers[2];
    CHECK(cudaMallocHost(&temperature, bytes));
    CHECK(cudaMallocHost(&power, bytes));
    for (size_t i = 0; i < cells; i++) {
        temperature[i] = 320.0f + (float)(scramble((uint32_t)i) % 4096) / 128.0f;
        // A quarter of the units of 32 x 32 cells is busy.
        const uint32_t unit = (uint32_t)(i / side / 32 * 512 + i % side / 32);
        power[i] = scramble(~unit) % 4 == 0 ? (float)(scramble((uint32_t)i ^ 0x5eedu) % 1024) / 512.0f : 0.0f;
    }
    std::vector<float> right(temperature, temperature + cells), other(cells);
    const std::vector<float> power_copy(power, power + cells);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device_power, bytes));
    for (float *&buffer : buffers) CHECK(cudaMalloc(&buffer, bytes));
    CHECK(cudaMemcpyAsync(buffers[0], temperature, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device_power, power, bytes, cudaMemcpyHostToDevice, stream));
    const dim3 grid(blocks_for(side, TILE), blocks_for(side, TILE)), block(TILE, TILE);
    for (unsigned step = 0; step < steps; step++) {
        heat_step<<<grid, block, 0, stream>>>(buffers[(step + 1) % 2], buffers[step % 2], device_power, side, factors);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpyAsync(temperature, buffers[steps % 2], bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));

    for (unsigned step = 0; step < steps; step++) {
        heat_step_on_cpu(other, right, power_copy, side, factors);
        right.swap(other);
    }
    for (size_t i = 0; i < cells; i++)
        if (memcmp(&temperature[i], &right[i], sizeof(float)) != 0)
            fail("the temperature of cell %zu is %a, not %a", i, temperature[i], right[i]);
    give(temperature, bytes);

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device_power));
    for (float *buffer : buffers) CHECK(cudaFree(buffer));
    CHECK(cudaFreeHost(temperature));
    CHECK(cudaFreeHost(power));
    return finish();
}
