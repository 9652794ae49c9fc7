// Waits across a whole grid in a cooperative launch, and within clusters of blocks if the GPU supports clusters.
#include <algorithm>
#include <vector>

#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

const unsigned BLOCK = 128;
const unsigned CLUSTER = 4;

// Computes running sums in `one` or `other`. Every step reads sums that other blocks wrote in the previous step.
__global__ void running_sums(uint32_t *one, uint32_t *other, uint32_t n) {
    const cg::grid_group grid = cg::this_grid();
    for (uint32_t distance = 1; distance < n; distance *= 2) {
        for (uint32_t i = (uint32_t)grid.thread_rank(); i < n; i += (uint32_t)grid.size())
            other[i] = one[i] + (i >= distance ? one[i - distance] : 0);
        grid.sync();
        uint32_t *const swapped = one;
        one = other;
        other = swapped;
    }
}

// Each block writes its sum to its own shared memory, and reads the sums of all blocks in its cluster.
__global__ void cluster_sums(uint32_t *sums, const uint32_t *values, uint32_t n) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __shared__ uint32_t mine;
    const cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = 0;
    __syncthreads();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&mine, values[i]);
    cluster.sync();
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (unsigned rank = 0; rank < cluster.num_blocks(); rank++)
            sum = sum * 3 + *cluster.map_shared_rank(&mine, rank);
        sums[blockIdx.x] = sum + cluster.block_rank();
    }
    // A block must not end while another block reads its shared memory.
    cluster.sync();
#endif
}

int main(int argc, char **argv) {
    const uint32_t n = (uint32_t)start("cooperative", argc, argv, 1 << 16, 1, 1 << 26);
    std::vector<uint32_t> values(n), sums(n);
    for (uint32_t i = 0; i < n; i++) values[i] = scramble(i);

    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    if (!device.cooperativeLaunch) fail("this GPU has no cooperative launches");
    uint32_t *one, *other;
    CHECK(cudaMalloc(&one, n * sizeof(uint32_t)));
    CHECK(cudaMalloc(&other, n * sizeof(uint32_t)));
    CHECK(cudaMemcpy(one, values.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    int at_once;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, running_sums, BLOCK, 0));
    const unsigned grid = std::min(32u, (unsigned)(at_once * device.multiProcessorCount));
    uint32_t count = n;
    void *arguments[] = {&one, &other, &count};
    CHECK(cudaLaunchCooperativeKernel((const void *)running_sums, dim3(grid), dim3(BLOCK), arguments, 0, nullptr));
    unsigned steps = 0;
    for (uint32_t distance = 1; distance < n; distance *= 2) steps++;
    CHECK(cudaMemcpy(sums.data(), steps % 2 == 0 ? one : other, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    uint32_t right = 0;
    for (uint32_t i = 0; i < n; i++) {
        right += values[i];
        if (sums[i] != right) fail("running sum %u is %08x, not %08x", i, sums[i], right);
    }
    give(sums.data(), n * sizeof(uint32_t));

    cudaFuncAttributes code;
    CHECK(cudaFuncGetAttributes(&code, cluster_sums));
    if (device.major >= 9 && code.ptxVersion >= 90) {
        const unsigned blocks = (blocks_for(n, BLOCK) + CLUSTER - 1) / CLUSTER * CLUSTER;
        std::vector<uint32_t> block_sums(blocks, 0), got(blocks);
        for (uint32_t i = 0; i < n; i++) block_sums[i / BLOCK] += values[i];
        uint32_t *device_sums;
        CHECK(cudaMalloc(&device_sums, blocks * sizeof(uint32_t)));
        CHECK(cudaMemcpy(one, values.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));

        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = CLUSTER;
        attribute.val.clusterDim.y = 1;
        attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks);
        config.blockDim = dim3(BLOCK);
        config.attrs = &attribute;
        config.numAttrs = 1;
        CHECK(cudaLaunchKernelEx(&config, cluster_sums, device_sums, (const uint32_t *)one, n));
        CHECK(cudaMemcpy(got.data(), device_sums, blocks * sizeof(uint32_t), cudaMemcpyDeviceToHost));
        for (unsigned block = 0; block < blocks; block++) {
            uint32_t sum = 0;
            const unsigned first = block / CLUSTER * CLUSTER;
            for (unsigned rank = 0; rank < CLUSTER; rank++) sum = sum * 3 + block_sums[first + rank];
            sum += block % CLUSTER;
            if (got[block] != sum) fail("the sum of block %u is %08x, not %08x", block, got[block], sum);
        }
        give(got.data(), blocks * sizeof(uint32_t));
        CHECK(cudaFree(device_sums));
        printf("clusters of %u blocks\n", CLUSTER);
    } else {
        printf("no clusters: they need a GPU of compute capability 9.0 and code for it\n");
    }
    CHECK(cudaFree(one));
    CHECK(cudaFree(other));
    return finish();
}
