// The kernel of `stride` written otherwise, with the same result to the bit: four elements at a time where there are four.
__global__ void scale_add(float *out, const float *x, const float *y, float factor, unsigned long n) {
    const unsigned long all = (unsigned long)gridDim.x * blockDim.x;
    const unsigned long own = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long i = own; i < n / 4; i += all) {
        const float4 a = ((const float4 *)x)[i], b = ((const float4 *)y)[i];
        ((float4 *)out)[i] = make_float4(fmaf(factor, a.x, b.x), fmaf(factor, a.y, b.y), fmaf(factor, a.z, b.z), fmaf(factor, a.w, b.w));
    }
    for (unsigned long i = n / 4 * 4 + own; i < n; i += all) out[i] = fmaf(factor, x[i], y[i]);
}
