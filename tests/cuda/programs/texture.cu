// Reads textures over linear, pitched and array memory, and writes an array through a surface.
#include <cmath>
#include <vector>

#include "check.h"

const unsigned SIDE = 16;

__global__ void from_linear(float *out, cudaTextureObject_t floats, cudaTextureObject_t bytes, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(floats, n - 1 - i) + tex1Dfetch<float>(bytes, i);
}

// Reads one texel left of and above each pixel. The first row and column show the address mode of the edge.
__global__ void from_plane(float *out, cudaTextureObject_t plane, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = tex2D<float>(plane, x - 1 + 0.5f, y - 1 + 0.5f);
}

// Reads a quarter of a texel right and half a texel down, so that the filter blends four texels. The edges wrap around.
__global__ void blended(float *out, cudaTextureObject_t plane, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = tex2D<float>(plane, (x + 0.75f) / width, (y + 1.0f) / height);
}

__global__ void to_surface(cudaSurfaceObject_t surface, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    uint32_t before;
    surf2Dread(&before, surface, x * (int)sizeof(uint32_t), y);
    surf2Dwrite(before * 3 + (uint32_t)(y * width + x), surface, x * (int)sizeof(uint32_t), y);
}

static cudaTextureObject_t texture(const cudaResourceDesc &resource, cudaTextureAddressMode edge,
                                   cudaTextureFilterMode filter, cudaTextureReadMode read, bool normalized) {
    cudaTextureDesc description = {};
    description.addressMode[0] = edge;
    description.addressMode[1] = edge;
    description.filterMode = filter;
    description.readMode = read;
    description.normalizedCoords = normalized;
    cudaTextureObject_t object;
    CHECK(cudaCreateTextureObject(&object, &resource, &description, nullptr));
    return object;
}

static float texel(const std::vector<float> &plane, int x, int y, int side) {
    return plane[(size_t)y * side + x];
}

int main(int argc, char **argv) {
    const int side = (int)start("texture", argc, argv, 256, 1, 4096);
    const int n = side * side;
    const size_t row = side * sizeof(float);
    std::vector<float> plane(n), got(n);
    std::vector<unsigned char> bytes(n);
    std::vector<uint32_t> words(n), got_words(n);
    for (int i = 0; i < n; i++) {
        plane[i] = (float)(scramble(i) % 4096);
        bytes[i] = (unsigned char)scramble(~i);
        words[i] = scramble(i + n);
    }
    const dim3 block(SIDE, SIDE), grid((side + SIDE - 1) / SIDE, (side + SIDE - 1) / SIDE);
    float *out;
    CHECK(cudaMalloc(&out, n * sizeof(float)));

    // Textures over linear memory return floats unchanged, and bytes as numbers from 0 to 1.
    float *linear;
    unsigned char *linear_bytes;
    CHECK(cudaMalloc(&linear, n * sizeof(float)));
    CHECK(cudaMalloc(&linear_bytes, n));
    CHECK(cudaMemcpy(linear, plane.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(linear_bytes, bytes.data(), n, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = linear;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = n * sizeof(float);
    const cudaTextureObject_t floats_texture =
        texture(resource, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
    resource.res.linear.devPtr = linear_bytes;
    resource.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
    resource.res.linear.sizeInBytes = n;
    const cudaTextureObject_t bytes_texture =
        texture(resource, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeNormalizedFloat, false);
    from_linear<<<blocks_for(n, 256), 256>>>(out, floats_texture, bytes_texture, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        const float right = plane[n - 1 - i] + bytes[i] / 255.0f;
        if (!(std::fabs(got[i] - right) <= 1e-3f)) fail("linear: %d is %g, not %g", i, got[i], right);
    }
    give(got.data(), n * sizeof(float));

    // This texture is over rows with padding.
    float *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, row, side));
    CHECK(cudaMemcpy2D(pitched, pitch, plane.data(), row, row, side, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pitched;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = side;
    resource.res.pitch2D.height = side;
    resource.res.pitch2D.pitchInBytes = pitch;
    const cudaTextureObject_t pitched_texture =
        texture(resource, cudaAddressModeBorder, cudaFilterModePoint, cudaReadModeElementType, false);
    from_plane<<<grid, block>>>(out, pitched_texture, side, side);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        const int x = i % side - 1, y = i / side - 1;
        const float right = x < 0 || y < 0 ? 0 : texel(plane, x, y, side);
        if (got[i] != right) fail("pitched: %d is %g, not %g", i, got[i], right);
    }
    give(got.data(), n * sizeof(float));

    // These textures are over an array, whose layout only the GPU knows: first unfiltered, then blended.
    const cudaChannelFormatDesc float_format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &float_format, side, side));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, plane.data(), row, row, side, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    const cudaTextureObject_t array_texture =
        texture(resource, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
    from_plane<<<grid, block>>>(out, array_texture, side, side);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        const int x = i % side > 0 ? i % side - 1 : 0, y = i / side > 0 ? i / side - 1 : 0;
        const float right = texel(plane, x, y, side);
        if (got[i] != right) fail("array: %d is %g, not %g", i, got[i], right);
    }
    give(got.data(), n * sizeof(float));

    const cudaTextureObject_t wrapped_texture =
        texture(resource, cudaAddressModeWrap, cudaFilterModeLinear, cudaReadModeElementType, true);
    blended<<<grid, block>>>(out, wrapped_texture, side, side);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        const int x = i % side, y = i / side, right_of = (x + 1) % side, below = (y + 1) % side;
        const float right = 0.5f * (0.75f * texel(plane, x, y, side) + 0.25f * texel(plane, right_of, y, side)) +
                            0.5f * (0.75f * texel(plane, x, below, side) + 0.25f * texel(plane, right_of, below, side));
        // The tolerance is 64, because the GPU rounds positions to 1/256 of a texel, and values are up to 4096.
        if (!(std::fabs(got[i] - right) <= 64)) fail("blended: %d is %g, not about %g", i, got[i], right);
    }
    give(got.data(), n * sizeof(float));

    // A kernel reads and writes this array through a surface.
    const cudaChannelFormatDesc word_format = cudaCreateChannelDesc<unsigned int>();
    cudaArray_t written;
    CHECK(cudaMallocArray(&written, &word_format, side, side, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(written, 0, 0, words.data(), row, row, side, cudaMemcpyHostToDevice));
    resource.res.array.array = written;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    to_surface<<<grid, block>>>(surface, side, side);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy2DFromArray(got_words.data(), row, written, 0, 0, row, side, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        const uint32_t right = words[i] * 3 + (uint32_t)i;
        if (got_words[i] != right) fail("surface: %d is %08x, not %08x", i, got_words[i], right);
    }
    give(got_words.data(), n * sizeof(uint32_t));

    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaDestroyTextureObject(floats_texture));
    CHECK(cudaDestroyTextureObject(bytes_texture));
    CHECK(cudaDestroyTextureObject(pitched_texture));
    CHECK(cudaDestroyTextureObject(array_texture));
    CHECK(cudaDestroyTextureObject(wrapped_texture));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(written));
    CHECK(cudaFree(out));
    CHECK(cudaFree(linear));
    CHECK(cudaFree(linear_bytes));
    CHECK(cudaFree(pitched));
    return finish();
}
