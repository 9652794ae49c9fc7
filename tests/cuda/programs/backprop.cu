// Trains a small neural net: sums of products in shared memory, then changes of the weights, with asynchronous copies.
#include <cmath>
#include <vector>

#include "check.h"

// Hidden units, and inputs of a block.
const unsigned HIDDEN = 16;
const unsigned INPUTS = 16;
const float RATE = 0.3f, MOMENTUM = 0.3f, TARGET = 0.1f;
// Largest difference of a weight from that which the CPU computes in doubles.
const double TOLERANCE = 1e-5;

// A block adds the products of its inputs for each hidden unit. The host adds the sums of the blocks.
__global__ void forward(float *sums, const float *inputs, const float *weights, unsigned count) {
    __shared__ float products[INPUTS][HIDDEN];
    const unsigned unit = threadIdx.x, lane = threadIdx.y, i = blockIdx.x * INPUTS + lane;
    products[lane][unit] = i < count ? inputs[i] * weights[(size_t)i * HIDDEN + unit] : 0;
    __syncthreads();
    for (unsigned step = INPUTS / 2; step > 0; step /= 2) {
        if (lane < step) products[lane][unit] += products[lane + step][unit];
        __syncthreads();
    }
    if (lane == 0) sums[(size_t)blockIdx.x * HIDDEN + unit] = products[0][unit];
}

// Changes each weight by the error of its unit, and by a part of its last change.
__global__ void adjust(float *weights, float *changes, const float *inputs, const float *deltas, unsigned count) {
    const unsigned unit = threadIdx.x, i = blockIdx.x * INPUTS + threadIdx.y;
    if (i >= count) return;
    const size_t at = (size_t)i * HIDDEN + unit;
    changes[at] = RATE * deltas[unit] * inputs[i] + MOMENTUM * changes[at];
    weights[at] += changes[at];
}

// Second layer of the net, from the hidden units to one output.
template <typename T> struct OutputLayer {
    T weights[HIDDEN], changes[HIDDEN];

    OutputLayer() {
        for (unsigned unit = 0; unit < HIDDEN; unit++) {
            weights[unit] = (T)(float)(scramble(unit * 31 + 7) % 1024) / 1024 - (T)0.5;
            changes[unit] = 0;
        }
    }

    // Returns the output for the sums of the hidden units. Changes the weights, and computes the errors of the units.
    T train(const T *sums, T *deltas) {
        T hidden[HIDDEN], sum = 0;
        for (unsigned unit = 0; unit < HIDDEN; unit++) {
            hidden[unit] = 1 / (1 + std::exp(-sums[unit]));
            sum += hidden[unit] * weights[unit];
        }
        const T output = 1 / (1 + std::exp(-sum));
        const T error = output * (1 - output) * (TARGET - output);
        for (unsigned unit = 0; unit < HIDDEN; unit++) {
            deltas[unit] = hidden[unit] * (1 - hidden[unit]) * error * weights[unit];
            changes[unit] = RATE * error * hidden[unit] + MOMENTUM * changes[unit];
            weights[unit] += changes[unit];
        }
        return output;
    }
};

int main(int argc, char **argv) {
    const unsigned rounds = (unsigned)number_option(&argc, argv, "--rounds", 8, 1, 1 << 16);
    const unsigned count = (unsigned)start("backprop", argc, argv, 1 << 16, 1, 1 << 22);
    const unsigned blocks = blocks_for(count, INPUTS);
    const size_t weight_count = (size_t)count * HIDDEN, sum_count = (size_t)blocks * HIDDEN;
    std::vector<float> inputs(count), weights(weight_count);
    for (unsigned i = 0; i < count; i++) inputs[i] = (float)(scramble(i) % 65536) / 65536.0f;
    const float range = 1.0f / std::sqrt((float)count);
    for (size_t i = 0; i < weight_count; i++)
        weights[i] = ((float)(scramble(~(uint32_t)i) % 65536) / 32768.0f - 1.0f) * range;
    std::vector<double> right(weights.begin(), weights.end()), right_changes(weight_count, 0);

    float *sums, *deltas, *device_inputs, *device_weights, *device_changes, *device_sums, *device_deltas;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocHost(&sums, sum_count * sizeof(float)));
    CHECK(cudaMallocHost(&deltas, HIDDEN * sizeof(float)));
    CHECK(cudaMalloc(&device_inputs, count * sizeof(float)));
    CHECK(cudaMalloc(&device_weights, weight_count * sizeof(float)));
    CHECK(cudaMalloc(&device_changes, weight_count * sizeof(float)));
    CHECK(cudaMalloc(&device_sums, sum_count * sizeof(float)));
    CHECK(cudaMalloc(&device_deltas, HIDDEN * sizeof(float)));
    CHECK(cudaMemcpyAsync(device_inputs, inputs.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
    const size_t weight_bytes = weight_count * sizeof(float);
    CHECK(cudaMemcpyAsync(device_weights, weights.data(), weight_bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(device_changes, 0, weight_bytes, stream));

    const dim3 block(HIDDEN, INPUTS);
    OutputLayer<float> layer;
    OutputLayer<double> right_layer;
    for (unsigned round = 0; round < rounds; round++) {
        forward<<<blocks, block, 0, stream>>>(device_sums, device_inputs, device_weights, count);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(sums, device_sums, sum_count * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        give(sums, sum_count * sizeof(float));
        float unit_sums[HIDDEN] = {};
        for (size_t i = 0; i < sum_count; i++) unit_sums[i % HIDDEN] += sums[i];
        layer.train(unit_sums, deltas);
        CHECK(cudaMemcpyAsync(device_deltas, deltas, HIDDEN * sizeof(float), cudaMemcpyHostToDevice, stream));
        adjust<<<blocks, block, 0, stream>>>(device_weights, device_changes, device_inputs, device_deltas, count);
        CHECK(cudaGetLastError());

        double right_sums[HIDDEN] = {}, right_deltas[HIDDEN];
        for (size_t i = 0; i < weight_count; i++) right_sums[i % HIDDEN] += inputs[i / HIDDEN] * right[i];
        right_layer.train(right_sums, right_deltas);
        for (size_t i = 0; i < weight_count; i++) {
            right_changes[i] = RATE * right_deltas[i % HIDDEN] * inputs[i / HIDDEN] + MOMENTUM * right_changes[i];
            right[i] += right_changes[i];
        }
    }
    CHECK(cudaMemcpyAsync(weights.data(), device_weights, weight_bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < weight_count; i++)
        if (!(std::fabs(weights[i] - right[i]) <= TOLERANCE))
            fail("weight %zu of unit %zu is %.9g, not %.9g", i / HIDDEN, i % HIDDEN, weights[i], right[i]);
    give(weights.data(), weight_bytes);

    for (float *memory : {device_inputs, device_weights, device_changes, device_sums, device_deltas})
        CHECK(cudaFree(memory));
    CHECK(cudaFreeHost(sums));
    CHECK(cudaFreeHost(deltas));
    CHECK(cudaStreamDestroy(stream));
    return finish();
}
