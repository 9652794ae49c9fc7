// Removes speckles from an image by diffusion: each step copies sums back, sets constants, and has two stencils.
#include <algorithm>
#include <cmath>
#include <vector>

#include "check.h"

const unsigned BLOCK = 256;
const int TILE = 16;
// Largest relative difference from the image that the CPU computes: the GPU fuses operations and adds in another order.
const float TOLERANCE = 1e-3f;

struct Sums {
    double values;
    double squares;
};

// Constants of a step.
struct StepConstants {
    float variation;
    float rate;
};

__constant__ StepConstants constants;

__device__ static void add_block(Sums *to, Sums own) {
    __shared__ Sums partial[BLOCK];
    partial[threadIdx.x] = own;
    __syncthreads();
    for (unsigned step = BLOCK / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            partial[threadIdx.x].values += partial[threadIdx.x + step].values;
            partial[threadIdx.x].squares += partial[threadIdx.x + step].squares;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) to[blockIdx.x] = partial[0];
}

__global__ void add_pixels(Sums *sums, const float *image, unsigned pixels) {
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    const double value = i < pixels ? image[i] : 0;
    add_block(sums, {value, value * value});
}

// Adds sums of blocks, until one is left. No atomics, so that the order of the additions is always the same.
__global__ void add_sums(Sums *to, const Sums *from, unsigned count) {
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    add_block(to, i < count ? from[i] : Sums{0, 0});
}

// Coefficient of diffusion at a pixel: large where the image varies as little as it does on average.
__host__ __device__ static float coefficient(const float *image, int side, int x, int y, float variation) {
    const float center = image[(size_t)y * side + x];
    const float north = image[(size_t)(y > 0 ? y - 1 : y) * side + x] - center;
    const float south = image[(size_t)(y + 1 < side ? y + 1 : y) * side + x] - center;
    const float west = image[(size_t)y * side + (x > 0 ? x - 1 : x)] - center;
    const float east = image[(size_t)y * side + (x + 1 < side ? x + 1 : x)] - center;
    const float gradient = (north * north + south * south + west * west + east * east) / (center * center);
    const float laplacian = (north + south + west + east) / center;
    const float divisor = 1.0f + 0.25f * laplacian;
    const float local = (0.5f * gradient - 0.0625f * laplacian * laplacian) / (divisor * divisor);
    const float result = 1.0f / (1.0f + (local - variation) / (variation * (1.0f + variation)));
    return fminf(fmaxf(result, 0.0f), 1.0f);
}

__host__ __device__ static float next_pixel(const float *image, const float *field, int side, int x, int y,
                                            float rate) {
    const size_t at = (size_t)y * side + x;
    const size_t above = (size_t)(y > 0 ? y - 1 : y) * side + x, left = (size_t)y * side + (x > 0 ? x - 1 : x);
    const size_t below = (size_t)(y + 1 < side ? y + 1 : y) * side + x;
    const size_t right = (size_t)y * side + (x + 1 < side ? x + 1 : x);
    const float center = image[at];
    return center + 0.25f * rate *
                        (field[at] * (image[above] - center + (image[left] - center)) +
                         field[below] * (image[below] - center) + field[right] * (image[right] - center));
}

__global__ void find_coefficients(float *field, const float *image, int side) {
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < side && y < side) field[(size_t)y * side + x] = coefficient(image, side, x, y, constants.variation);
}

__global__ void diffuse(float *to, const float *image, const float *field, int side) {
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < side && y < side) to[(size_t)y * side + x] = next_pixel(image, field, side, x, y, constants.rate);
}

static StepConstants constants_of(const Sums &sums, double pixels) {
    const double mean = sums.values / pixels;
    return {(float)((sums.squares / pixels - mean * mean) / (mean * mean)), 0.5f};
}

int main(int argc, char **argv) {
    const unsigned steps = (unsigned)number_option(&argc, argv, "--steps", 20, 1, 1 << 16);
    const int side = (int)start("srad", argc, argv, 256, 8, 8192);
    const unsigned pixels = (unsigned)side * side;
    const size_t bytes = pixels * sizeof(float);
    std::vector<float> image(pixels), right, field(pixels), next(pixels);
    // Discs on a dark ground, with speckles that multiply.
    for (unsigned i = 0; i < pixels; i++) {
        const int x = (int)(i % side) % 64 - 32, y = (int)(i / side) % 64 - 32;
        image[i] = (x * x + y * y < 400 ? 2.0f : 1.0f) * (0.75f + (float)(scramble(i) % 4096) / 8192.0f);
    }
    right = image;

    float *device_image, *device_next, *device_field;
    Sums *sums[2], total;
    const unsigned blocks = blocks_for(pixels, BLOCK);
    CHECK(cudaMalloc(&device_image, bytes));
    CHECK(cudaMalloc(&device_next, bytes));
    CHECK(cudaMalloc(&device_field, bytes));
    for (Sums *&buffer : sums) CHECK(cudaMalloc(&buffer, blocks * sizeof(Sums)));
    CHECK(cudaMemcpy(device_image, image.data(), bytes, cudaMemcpyHostToDevice));
    const dim3 grid(blocks_for(side, TILE), blocks_for(side, TILE)), block(TILE, TILE);
    for (unsigned step = 0; step < steps; step++) {
        add_pixels<<<blocks, BLOCK>>>(sums[0], device_image, pixels);
        unsigned current = 0;
        for (unsigned count = blocks; count > 1; count = blocks_for(count, BLOCK), current = 1 - current)
            add_sums<<<blocks_for(count, BLOCK), BLOCK>>>(sums[1 - current], sums[current], count);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&total, sums[current], sizeof total, cudaMemcpyDeviceToHost));
        const StepConstants now = constants_of(total, pixels);
        CHECK(cudaMemcpyToSymbol(constants, &now, sizeof now));
        find_coefficients<<<grid, block>>>(device_field, device_image, side);
        diffuse<<<grid, block>>>(device_next, device_image, device_field, side);
        CHECK(cudaGetLastError());
        std::swap(device_image, device_next);
        give(&total, sizeof total);
    }
    CHECK(cudaMemcpy(image.data(), device_image, bytes, cudaMemcpyDeviceToHost));
    for (float *memory : {device_image, device_next, device_field}) CHECK(cudaFree(memory));
    for (Sums *buffer : sums) CHECK(cudaFree(buffer));

    for (unsigned step = 0; step < steps; step++) {
        Sums all = {0, 0};
        for (float value : right) all.values += value, all.squares += (double)value * value;
        const StepConstants now = constants_of(all, pixels);
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                field[(size_t)y * side + x] = coefficient(right.data(), side, x, y, now.variation);
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                next[(size_t)y * side + x] = next_pixel(right.data(), field.data(), side, x, y, now.rate);
        right.swap(next);
    }
    for (unsigned i = 0; i < pixels; i++)
        if (!(std::fabs(image[i] - right[i]) <= TOLERANCE * right[i]))
            fail("pixel %u is %.9g, not %.9g", i, image[i], right[i]);
    give(image.data(), bytes);
    return finish();
}
