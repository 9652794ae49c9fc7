// Finds the cheapest paths through a grid row by row. A block computes several rows in shared memory with a halo.
#include <algorithm>
#include <vector>

#include "check.h"

const int BLOCK = 256;
// Rows of one launch. A block loses a column at each side with each row.
const int MAX_ROWS = 20;
const int COLUMNS = BLOCK - 2 * MAX_ROWS;

// Adds `rows` rows to the cost of the cheapest path to each column. A path goes down to one of three neighbors.
__global__ void add_rows(uint32_t *to, const uint32_t *from, const uint32_t *cost, int columns, int rows) {
    __shared__ uint32_t sums[2][BLOCK];
    const int lane = threadIdx.x;
    const int column = blockIdx.x * COLUMNS - MAX_ROWS + lane;
    const bool is_inside = column >= 0 && column < columns;
    // Columns outside of the grid cost more than each path.
    sums[0][lane] = sums[1][lane] = is_inside ? from[column] : 0x7fffffffu;
    __syncthreads();
    for (int row = 0; row < rows; row++) {
        const uint32_t *before = sums[row % 2];
        if (is_inside && lane > row && lane < BLOCK - 1 - row) {
            const uint32_t least = min(before[lane], min(before[lane - 1], before[lane + 1]));
            sums[(row + 1) % 2][lane] = least + cost[(size_t)row * columns + column];
        }
        __syncthreads();
    }
    if (is_inside && lane >= MAX_ROWS && lane < BLOCK - MAX_ROWS) to[column] = sums[rows % 2][lane];
}

static std::vector<uint32_t> cheapest_on_cpu(const std::vector<uint32_t> &cost, size_t columns, size_t rows) {
    std::vector<uint32_t> sums(cost.begin(), cost.begin() + columns), next(columns);
    for (size_t row = 1; row < rows; row++) {
        for (size_t i = 0; i < columns; i++) {
            uint32_t least = sums[i];
            if (i > 0) least = std::min(least, sums[i - 1]);
            if (i + 1 < columns) least = std::min(least, sums[i + 1]);
            next[i] = least + cost[row * columns + i];
        }
        sums.swap(next);
    }
    return sums;
}

int main(int argc, char **argv) {
    const int rows = (int)number_option(&argc, argv, "--rows", 101, 1, 1 << 14);
    const int columns = (int)start("pathfinder", argc, argv, 50000, 1, 1 << 24);
    std::vector<uint32_t> cost((size_t)rows * columns), got(columns);
    for (size_t i = 0; i < cost.size(); i++) cost[i] = scramble((uint32_t)i) % 10;

    uint32_t *device_cost, *sums[2];
    CHECK(cudaMalloc(&device_cost, cost.size() * sizeof(uint32_t)));
    for (uint32_t *&buffer : sums) CHECK(cudaMalloc(&buffer, columns * sizeof(uint32_t)));
    CHECK(cudaMemcpy(device_cost, cost.data(), cost.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(sums[0], device_cost, columns * sizeof(uint32_t), cudaMemcpyDeviceToDevice));
    unsigned current = 0;
    for (int row = 1; row < rows; row += MAX_ROWS) {
        add_rows<<<blocks_for(columns, COLUMNS), BLOCK>>>(sums[1 - current], sums[current],
                                                          device_cost + (size_t)row * columns, columns,
                                                          std::min(MAX_ROWS, rows - row));
        CHECK(cudaGetLastError());
        current = 1 - current;
    }
    CHECK(cudaMemcpy(got.data(), sums[current], columns * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_cost));
    for (uint32_t *buffer : sums) CHECK(cudaFree(buffer));

    const std::vector<uint32_t> right = cheapest_on_cpu(cost, columns, rows);
    for (int i = 0; i < columns; i++)
        if (got[i] != right[i]) fail("the path to column %d costs %u, not %u", i, got[i], right[i]);
    give(got.data(), columns * sizeof(uint32_t));
    return finish();
}
