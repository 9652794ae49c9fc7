// Factors a matrix into a lower and an upper one in blocks: kernels for the diagonal, the perimeter and the inside.
#include <cmath>
#include <vector>

#include "check.h"

const unsigned TILE = 16;
// Largest difference from the factors that the CPU computes in doubles, relative to 1 or to the larger absolute value.
const double TOLERANCE = 1e-4;

__device__ static float *tile_at(float *matrix, size_t side, unsigned row, unsigned column) {
    return matrix + (size_t)row * TILE * side + (size_t)column * TILE;
}

// Factors the tile on the diagonal. A thread has a row of the lower factor, and then a column of the upper factor.
__global__ void diagonal(float *matrix, unsigned side, unsigned step) {
    __shared__ float tile[TILE][TILE];
    const unsigned lane = threadIdx.x;
    float *memory = tile_at(matrix, side, step, step);
    for (unsigned row = 0; row < TILE; row++) tile[row][lane] = memory[(size_t)row * side + lane];
    __syncthreads();
    for (unsigned k = 0; k + 1 < TILE; k++) {
        if (lane > k) tile[lane][k] /= tile[k][k];
        __syncthreads();
        if (lane > k)
            for (unsigned row = k + 1; row < TILE; row++) tile[row][lane] -= tile[row][k] * tile[k][lane];
        __syncthreads();
    }
    for (unsigned row = 0; row < TILE; row++) memory[(size_t)row * side + lane] = tile[row][lane];
}

// Solves a tile right of the diagonal with the first half of the threads, and the one below it with the second half.
__global__ void perimeter(float *matrix, unsigned side, unsigned step) {
    __shared__ float corner[TILE][TILE], right[TILE][TILE], below[TILE][TILE];
    const unsigned lane = threadIdx.x % TILE, other = step + 1 + blockIdx.x;
    const bool is_right = threadIdx.x < TILE;
    const float *corner_memory = tile_at(matrix, side, step, step);
    float *memory = is_right ? tile_at(matrix, side, step, other) : tile_at(matrix, side, other, step);
    for (unsigned row = 0; row < TILE; row++) {
        if (is_right) corner[row][lane] = corner_memory[(size_t)row * side + lane];
        (is_right ? right : below)[row][lane] = memory[(size_t)row * side + lane];
    }
    __syncthreads();
    if (is_right) {
        for (unsigned row = 1; row < TILE; row++)
            for (unsigned k = 0; k < row; k++) right[row][lane] -= corner[row][k] * right[k][lane];
    } else {
        for (unsigned column = 0; column < TILE; column++) {
            for (unsigned k = 0; k < column; k++) below[lane][column] -= below[lane][k] * corner[k][column];
            below[lane][column] /= corner[column][column];
        }
    }
    __syncthreads();
    for (unsigned row = 0; row < TILE; row++) memory[(size_t)row * side + lane] = (is_right ? right : below)[row][lane];
}

// Subtracts the product of a tile of the lower factor and a tile of the upper factor from each tile inside.
__global__ void internal(float *matrix, unsigned side, unsigned step) {
    __shared__ float lower[TILE][TILE], upper[TILE][TILE];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const unsigned row = step + 1 + blockIdx.y, column = step + 1 + blockIdx.x;
    lower[y][x] = tile_at(matrix, side, row, step)[(size_t)y * side + x];
    upper[y][x] = tile_at(matrix, side, step, column)[(size_t)y * side + x];
    __syncthreads();
    float sum = 0;
    for (unsigned k = 0; k < TILE; k++) sum += lower[y][k] * upper[k][x];
    tile_at(matrix, side, row, column)[(size_t)y * side + x] -= sum;
}

static void factor_on_cpu(std::vector<double> &matrix, size_t side) {
    for (size_t k = 0; k < side; k++) {
        for (size_t row = k + 1; row < side; row++) {
            const double factor = matrix[row * side + k] /= matrix[k * side + k];
            for (size_t i = k + 1; i < side; i++) matrix[row * side + i] -= factor * matrix[k * side + i];
        }
    }
}

int main(int argc, char **argv) {
    const unsigned tiles = (unsigned)start("lud", argc, argv, 16, 1, 256), side = tiles * TILE;
    const size_t bytes = (size_t)side * side * sizeof(float);
    std::vector<float> matrix((size_t)side * side);
    // The diagonal is larger than the sum of its row, so that no exchange of rows is necessary.
    for (size_t i = 0; i < matrix.size(); i++)
        matrix[i] = (float)(scramble((uint32_t)i) % 2048) / 1024.0f - 1.0f + (i / side == i % side ? side : 0);
    std::vector<double> right(matrix.begin(), matrix.end());

    float *device;
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMemcpy(device, matrix.data(), bytes, cudaMemcpyHostToDevice));
    for (unsigned step = 0; step < tiles; step++) {
        const unsigned rest = tiles - step - 1;
        diagonal<<<1, TILE>>>(device, side, step);
        if (rest > 0) {
            perimeter<<<rest, 2 * TILE>>>(device, side, step);
            internal<<<dim3(rest, rest), dim3(TILE, TILE)>>>(device, side, step);
        }
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(matrix.data(), device, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));

    factor_on_cpu(right, side);
    for (size_t i = 0; i < matrix.size(); i++)
        if (!(std::fabs(matrix[i] - right[i]) <= TOLERANCE * std::fmax(1.0, std::fabs(right[i]))))
            fail("element %zu of row %zu is %.9g, not %.9g", i % side, i / side, matrix[i], right[i]);
    give(matrix.data(), bytes);
    return finish();
}
