// Aligns two sequences (Needleman-Wunsch) in a wavefront of tiles: kernels for its first part and for its second part.
#include <algorithm>
#include <vector>

#include "check.h"

const int TILE = 16;
const int LETTERS = 20;
const int GAP = 4;

// Scores of pairs of letters.
__constant__ int pair_scores[LETTERS][LETTERS];

// Computes a tile in shared memory, along its own diagonals: a thread has a column.
__device__ static void align_tile(int *scores, const unsigned char *down, const unsigned char *across, int side,
                                  int row, int column) {
    __shared__ int cells[TILE + 1][TILE + 1];
    __shared__ unsigned char letters[TILE];
    const int lane = threadIdx.x, pitch = side + 1;
    int *corner = scores + (size_t)row * TILE * pitch + column * TILE;
    const int letter = across[column * TILE + lane];
    letters[lane] = down[row * TILE + lane];
    cells[0][lane + 1] = corner[lane + 1];
    cells[lane + 1][0] = corner[(size_t)(lane + 1) * pitch];
    if (lane == 0) cells[0][0] = corner[0];
    __syncthreads();
    for (int diagonal = 0; diagonal < 2 * TILE - 1; diagonal++) {
        const int y = diagonal - lane + 1, x = lane + 1;
        if (y >= 1 && y <= TILE) {
            const int gap = max(cells[y - 1][x], cells[y][x - 1]) - GAP;
            cells[y][x] = max(cells[y - 1][x - 1] + pair_scores[letters[y - 1]][letter], gap);
        }
        __syncthreads();
    }
    for (int y = 1; y <= TILE; y++) corner[(size_t)y * pitch + lane + 1] = cells[y][lane + 1];
}

// Tiles of a diagonal before the longest one, or of the longest one.
__global__ void align_first(int *scores, const unsigned char *down, const unsigned char *across, int side,
                            int diagonal) {
    align_tile(scores, down, across, side, diagonal - blockIdx.x, blockIdx.x);
}

// Tiles of a diagonal after the longest one.
__global__ void align_second(int *scores, const unsigned char *down, const unsigned char *across, int side,
                             int diagonal) {
    const int last = side / TILE - 1;
    align_tile(scores, down, across, side, last - blockIdx.x, diagonal - last + blockIdx.x);
}

template <typename T> static T *on_device(const T *values, size_t count) {
    T *device;
    CHECK(cudaMalloc(&device, count * sizeof(T)));
    CHECK(cudaMemcpy(device, values, count * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

int main(int argc, char **argv) {
    const int tiles = (int)start("nw", argc, argv, 40, 1, 1024), side = tiles * TILE;
    const size_t pitch = side + 1;
    int pairs[LETTERS][LETTERS];
    for (int a = 0; a < LETTERS; a++)
        for (int b = 0; b < LETTERS; b++)
            pairs[a][b] = a == b ? 5 + a % 4 : 1 - (int)(scramble(std::min(a, b) * LETTERS + std::max(a, b)) % 5);
    // The second sequence is the first one with some letters exchanged, left out or put in.
    std::vector<unsigned char> down(side), across;
    for (int i = 0; i < side; i++) down[i] = scramble(i) % LETTERS;
    for (int i = 0; (int)across.size() < side; i++) {
        const uint32_t kind = scramble(~(uint32_t)i) % 16, random = scramble(i * 77 + 5) % LETTERS;
        if (kind == 0) across.push_back(random);
        if (kind != 1 && (int)across.size() < side) across.push_back(kind == 2 ? random : down[i % side]);
    }
    std::vector<int> got(pitch * pitch, 0);
    for (int i = 0; i <= side; i++) got[i] = got[i * pitch] = -GAP * i;
    std::vector<int> right = got;

    CHECK(cudaMemcpyToSymbol(pair_scores, pairs, sizeof pairs));
    int *scores = on_device(got.data(), got.size());
    unsigned char *device_down = on_device(down.data(), down.size());
    unsigned char *device_across = on_device(across.data(), across.size());
    for (int diagonal = 0; diagonal < tiles; diagonal++) {
        align_first<<<diagonal + 1, TILE>>>(scores, device_down, device_across, side, diagonal);
        CHECK(cudaGetLastError());
    }
    for (int diagonal = tiles; diagonal < 2 * tiles - 1; diagonal++) {
        align_second<<<2 * tiles - 1 - diagonal, TILE>>>(scores, device_down, device_across, side, diagonal);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(got.data(), scores, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(scores));
    CHECK(cudaFree(device_down));
    CHECK(cudaFree(device_across));

    for (int y = 1; y <= side; y++) {
        for (int x = 1; x <= side; x++) {
            const int gap = std::max(right[(y - 1) * pitch + x], right[y * pitch + x - 1]) - GAP;
            right[y * pitch + x] = std::max(right[(y - 1) * pitch + x - 1] + pairs[down[y - 1]][across[x - 1]], gap);
            if (got[y * pitch + x] != right[y * pitch + x])
                fail("the score of %d and %d letters is %d, not %d", y, x, got[y * pitch + x], right[y * pitch + x]);
        }
    }
    give(got.data(), got.size() * sizeof(int));
    return finish();
}
