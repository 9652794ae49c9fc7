// The kernel of `stride` with a mistake at the end: the last element is left out where the threads do not come out even.
__global__ void scale_add(float *out, const float *x, const float *y, float factor, unsigned long n) {
    const unsigned long all = (unsigned long)gridDim.x * blockDim.x;
    for (unsigned long i = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x; i + 1 < n; i += all)
        out[i] = fmaf(factor, x[i], y[i]);
}
