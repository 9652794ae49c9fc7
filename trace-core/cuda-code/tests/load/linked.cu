// Device functions in a file of their own: the linker keeps them in sections of their own.
__device__ int total;
__device__ __noinline__ int add_one(int x) { return x + 1 + total; }
__device__ __noinline__ int twice(int x) { return 2 * x - total; }
extern "C" __global__ void linked(int *out, int x) { out[0] = twice(x) + add_one(x + 2); }
typedef int (*Function)(int);
__device__ Function functions[2] = {add_one, twice};
extern "C" __global__ void linked_indirect(int *out, int which, int x) { out[0] = functions[which & 1](x); }
