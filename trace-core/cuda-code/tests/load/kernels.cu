// Kernels whose launches on an H100 were recorded.
#include <cstdint>
extern "C" __global__ void vadd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void blocksum(const float* a, float* out, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? a[i] : 0.f;
  __syncthreads();
  for (int k = blockDim.x / 2; k; k >>= 1) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); }
  if (!threadIdx.x) out[blockIdx.x] = s[0];
}
extern "C" __global__ void dynsum(const float* a, float* out, int n) {
  extern __shared__ float d[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = a[i];
  __syncthreads();
  if (!threadIdx.x) { float t = 0; for (int i = 0; i < n; i++) t += d[i]; out[0] = t; }
}
extern "C" __global__ void localmem(const int* idx, int* out, int n) {
  int v[64];
  for (int i = 0; i < 64; i++) v[(i * idx[0]) & 63] = i * idx[1] + threadIdx.x;
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int s = 0; for (int i = 0; i < n; i++) s = s * 31 + v[(i + idx[t & 3]) & 63];
  out[t] = s;
}
extern "C" __global__ void ids(uint32_t* out) {
  uint32_t smid, t; asm volatile("mov.u32 %0, %%smid;" : "=r"(smid)); asm volatile("mov.u32 %0, %%clock;" : "=r"(t));
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    uint32_t b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); uint32_t* o = out + b * 8;
    o[0] = blockDim.x | blockDim.y << 10 | blockDim.z << 20; o[1] = gridDim.x | gridDim.y << 10 | gridDim.z << 20; o[2] = blockIdx.x; o[3] = blockIdx.y; o[4] = blockIdx.z; o[5] = smid; o[6] = t; o[7] = 0x600dbeef;
  }
}
__constant__ int ctab[8] = {11, 22, 33, 44, 55, 66, 77, 88};
__device__ int gvar = 1234;
extern "C" __global__ void consts(int* out) { out[threadIdx.x] = ctab[threadIdx.x & 7] + atomicAdd(&gvar, 1) * 0 + gvar * 0 + 1; }
extern "C" __global__ void bigparam(uint32_t* out, uint64_t m1, uint32_t m2, uint16_t m3, uint8_t m4, double d) { out[0] = (uint32_t)m1; out[1] = (uint32_t)(m1 >> 32); out[2] = m2; out[3] = m3; out[4] = m4; out[5] = (uint32_t)d; out[6] = 0x600dbeef; }
extern "C" __global__ void fault(int* p) { p[threadIdx.x] = 1; }
