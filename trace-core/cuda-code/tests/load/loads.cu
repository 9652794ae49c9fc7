// Kernels with every kind of relocation that a compiler writes, and kernels that need CUDA's run-time library.
#include <cassert>
#include <cooperative_groups.h>
#include <cstdio>

__constant__ float scale[2] = {2.0f, 3.0f};
__device__ int counts[4] = {1, 2, 3, 4};
__device__ int *pointer_to_counts = counts + 1;
__device__ int zeroed[64];
__shared__ int module_shared[32];

__device__ __noinline__ int add_one(int x) { return x + 1 + (int)scale[x & 1]; }
__device__ __noinline__ int twice(int x) { return 2 * x + zeroed[x & 63]; }
typedef int (*Function)(int);
__device__ Function functions[2] = {add_one, twice};
__device__ __noinline__ int report(int x) { printf("value %d\n", x); return x; }
__device__ __noinline__ int recurse(int x) { return x <= 0 ? 0 : x + recurse(x - 2 - zeroed[x & 1]); }

extern "C" __global__ void calls(int *out, int x) { out[0] = twice(x) + add_one(x + 2); }
extern "C" __global__ void indirect(int *out, int which, int x) { out[0] = functions[which & 1](x); }
extern "C" __global__ void recursive(int *out, int x) { out[0] = recurse(x); }
extern "C" __global__ void through_pointer(int *out) { out[0] = *pointer_to_counts + counts[threadIdx.x & 3]; }
extern "C" __global__ void shares(int *out) {
    module_shared[threadIdx.x & 31] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = module_shared[31 - (threadIdx.x & 31)];
}
extern "C" __global__ void prints(int x) { printf("value %d\n", x); }
extern "C" __global__ void prints_below(int *out, int x) { out[0] = report(x); }
extern "C" __global__ void allocates(int **out) { out[0] = (int *)malloc(16); }
extern "C" __global__ void frees(int **out) { free(out[0]); }
extern "C" __global__ void asserts(int x) { assert(x > 3); }
extern "C" __global__ void synchronizes_grid(int *out) {
    out[threadIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    out[threadIdx.x + 1] += 1;
}
extern "C" __global__ void samples(float *out, cudaTextureObject_t t) { out[threadIdx.x] = tex2D<float>(t, threadIdx.x, 1.0f); }
extern "C" __global__ void fetches(float *out, cudaTextureObject_t t) { out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
extern "C" __global__ void stores_surface(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, threadIdx.x * 4, 0); }
extern "C" __global__ void loads_surface(float *out, cudaSurfaceObject_t s) { out[0] = surf2Dread<float>(s, threadIdx.x * 4, 0); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int *out) {
    auto cluster = cooperative_groups::this_cluster();
    module_shared[threadIdx.x & 31] = cluster.block_rank();
    cluster.sync();
    out[blockIdx.x] = *cluster.map_shared_rank(module_shared, cluster.block_rank() ^ 1) + cluster.num_blocks() * 10;
}
extern "C" __global__ void switches(int *out, int x) {
    switch (x) {
    case 0: out[0] = out[7] * 3; break;
    case 1: out[1] = out[6] + 5; break;
    case 2: out[2] = out[5] / 7; break;
    case 3: out[3] = out[4] ^ 9; break;
    case 4: out[4] = out[3] | 2; break;
    case 5: out[5] = out[2] & 3; break;
    case 6: out[6] = out[1] - 8; break;
    default: out[7] = out[0];
    }
}
