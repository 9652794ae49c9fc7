// The kernel of `stride` with a wrong loop condition, so that it does not write the last element.
__global__ void scale_add(float *out, const float *x, const float *y, float factor, unsigned long n) {
    const unsigned long all = (unsigned long)gridDim.x * blockDim.x;
    for (unsigned long i = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x; i + 1 < n; i += all)
        out[i] = fmaf(factor, x[i], y[i]);
}
