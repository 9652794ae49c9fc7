__global__ void child(int *out) { out[0] = 7; }
extern "C" __global__ void launches(int *out) { child<<<1, 1>>>(out); }
