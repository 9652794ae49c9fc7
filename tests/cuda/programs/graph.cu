// Launches a graph that is captured from streams, and a graph that is built from nodes and gets other kernel arguments.
#include <vector>

#include "check.h"

const unsigned BLOCK = 256;
const unsigned LAUNCHES = 4;

__global__ void scale(uint32_t *out, const uint32_t *in, uint32_t factor, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor + 1;
}

__global__ void shift(uint32_t *out, const uint32_t *in, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[(i + 1) % n] ^ (in[i] >> 3);
}

__global__ void gather(uint32_t *state, const uint32_t *left, const uint32_t *right, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) state[i] = state[i] * 31 + left[i] * 5 + right[i];
}

// A graph reads its arguments when it is built. Data that changes between launches is in the memory at these addresses.
struct Work {
    uint32_t *input;  // Pinned memory of the host.
    uint32_t *output; // Pinned memory of the host.
    uint32_t *source, *left, *right, *state;
    uint32_t n;
};

static uint32_t input_at(uint32_t launch, uint32_t i) { return scramble(launch * 0x01000193u + i); }

static void set_input(const Work &work, uint32_t launch) {
    for (uint32_t i = 0; i < work.n; i++) work.input[i] = input_at(launch, i);
}

// Computes the state after one launch of either graph, and compares it with the output.
static void expect(const char *which, const Work &work, std::vector<uint32_t> &state, uint32_t launch,
                   uint32_t factor) {
    const uint32_t n = work.n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t here = input_at(launch, i), next = input_at(launch, (i + 1) % n);
        state[i] = state[i] * 31 + (here * factor + 1) * 5 + (next ^ (here >> 3));
        if (work.output[i] != state[i])
            fail("%s graph, launch %u: %u is %08x, not %08x", which, launch, i, work.output[i], state[i]);
    }
    give(work.output, n * sizeof(uint32_t));
}

static cudaGraphExec_t captured(const Work &work, cudaStream_t stream) {
    const unsigned grid = blocks_for(work.n, BLOCK);
    const size_t bytes = work.n * sizeof(uint32_t);
    cudaStream_t side;
    cudaEvent_t copied, shifted;
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&shifted, cudaEventDisableTiming));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemcpyAsync(work.source, work.input, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(copied, stream));
    CHECK(cudaStreamWaitEvent(side, copied, 0));
    scale<<<grid, BLOCK, 0, stream>>>(work.left, work.source, 7, work.n);
    CHECK(cudaGetLastError());
    shift<<<grid, BLOCK, 0, side>>>(work.right, work.source, work.n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(shifted, side));
    CHECK(cudaStreamWaitEvent(stream, shifted, 0));
    gather<<<grid, BLOCK, 0, stream>>>(work.state, work.left, work.right, work.n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(work.output, work.state, bytes, cudaMemcpyDeviceToHost, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));

    cudaGraphExec_t ready;
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaEventDestroy(shifted));
    CHECK(cudaStreamDestroy(side));
    return ready;
}

static cudaGraphNode_t kernel_node(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, cudaKernelNodeParams &params,
                                   void *kernel, void **arguments, uint32_t n) {
    params = {};
    params.func = kernel;
    params.gridDim = dim3(blocks_for(n, BLOCK));
    params.blockDim = dim3(BLOCK);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
    return node;
}

int main(int argc, char **argv) {
    Work work;
    work.n = (uint32_t)start("graph", argc, argv, 1 << 16, 1, 1 << 24);
    const size_t bytes = work.n * sizeof(uint32_t);
    CHECK(cudaMallocHost(&work.input, bytes));
    CHECK(cudaMallocHost(&work.output, bytes));
    CHECK(cudaMalloc(&work.source, bytes));
    CHECK(cudaMalloc(&work.left, bytes));
    CHECK(cudaMalloc(&work.right, bytes));
    CHECK(cudaMalloc(&work.state, bytes));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    // Each launch of the captured graph continues with the state of the previous launch.
    std::vector<uint32_t> state(work.n, 0);
    cudaGraphExec_t ready = captured(work, stream);
    CHECK(cudaMemsetAsync(work.state, 0, bytes, stream));
    for (uint32_t launch = 0; launch < LAUNCHES; launch++) {
        set_input(work, launch);
        CHECK(cudaGraphLaunch(ready, stream));
        CHECK(cudaStreamSynchronize(stream));
        expect("captured", work, state, launch, 7);
    }
    CHECK(cudaGraphExecDestroy(ready));

    // The built graph does the same work, but each launch resets the state, and the factor changes.
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams clear = {};
    clear.dst = work.state;
    clear.value = 0x01020304;
    clear.elementSize = 4;
    clear.width = work.n;
    clear.height = 1;
    cudaGraphNode_t cleared, copied, sent_back;
    CHECK(cudaGraphAddMemsetNode(&cleared, graph, nullptr, 0, &clear));
    CHECK(cudaGraphAddMemcpyNode1D(&copied, graph, nullptr, 0, work.source, work.input, bytes, cudaMemcpyHostToDevice));
    uint32_t factor = 7;
    void *scale_arguments[] = {&work.left, &work.source, &factor, &work.n};
    void *shift_arguments[] = {&work.right, &work.source, &work.n};
    void *gather_arguments[] = {&work.state, &work.left, &work.right, &work.n};
    cudaKernelNodeParams scale_params, shift_params, gather_params;
    const cudaGraphNode_t scaled = kernel_node(graph, {copied}, scale_params, (void *)scale, scale_arguments, work.n);
    const cudaGraphNode_t shifted = kernel_node(graph, {copied}, shift_params, (void *)shift, shift_arguments, work.n);
    const cudaGraphNode_t gathered =
        kernel_node(graph, {cleared, scaled, shifted}, gather_params, (void *)gather, gather_arguments, work.n);
    CHECK(cudaGraphAddMemcpyNode1D(&sent_back, graph, &gathered, 1, work.output, work.state, bytes,
                                   cudaMemcpyDeviceToHost));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (uint32_t launch = 0; launch < LAUNCHES; launch++) {
        if (launch > 0) {
            factor = 7 + 2 * launch;
            scale_params.blockDim = dim3(BLOCK >> launch);
            scale_params.gridDim = dim3(blocks_for(work.n, BLOCK >> launch));
            CHECK(cudaGraphExecKernelNodeSetParams(ready, scaled, &scale_params));
        }
        set_input(work, LAUNCHES + launch);
        CHECK(cudaGraphLaunch(ready, stream));
        CHECK(cudaStreamSynchronize(stream));
        state.assign(work.n, 0x01020304);
        expect("built", work, state, LAUNCHES + launch, factor);
    }
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(work.source));
    CHECK(cudaFree(work.left));
    CHECK(cudaFree(work.right));
    CHECK(cudaFree(work.state));
    CHECK(cudaFreeHost(work.input));
    CHECK(cudaFreeHost(work.output));
    return finish();
}
