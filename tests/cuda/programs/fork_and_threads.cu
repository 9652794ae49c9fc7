// Launches from four threads, each in a stream of its own, while the main thread forks children that run /bin/true.
#include <thread>
#include <vector>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

const unsigned BLOCK = 128;
const unsigned THREADS = 4;
const unsigned ROUNDS = 400;
const unsigned CHILDREN = 8;

__global__ void turn(uint32_t *values, uint32_t n, uint32_t thread, uint32_t round) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * 1664525u + thread * 1000003u + round;
}

static void work(uint32_t thread, uint32_t n, uint32_t *device, uint32_t *pinned) {
    cudaStream_t stream;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (uint32_t i = 0; i < n; i++) pinned[i] = scramble(thread * n + i);
    CHECK(cudaMemcpyAsync(device, pinned, n * sizeof(uint32_t), cudaMemcpyHostToDevice, stream));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        turn<<<blocks_for(n, BLOCK), BLOCK, 0, stream>>>(device, n, thread, round);
        CHECK(cudaGetLastError());
        if (round % 50 == 49) CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}

static void fork_a_child() {
    char path[] = "/bin/true";
    char *arguments[] = {path, nullptr};
    const pid_t child = fork();
    if (child < 0) fail("fork: %s", strerror(errno));
    if (child == 0) {
        execv(path, arguments);
        _exit(127);
    }
    int status;
    pid_t ended;
    do ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended != child) fail("waitpid: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("a child ended with status %#x", (unsigned)status);
}

int main(int argc, char **argv) {
    const uint32_t n = (uint32_t)start("fork_and_threads", argc, argv, 1 << 14, 1, 1 << 22);
    const size_t bytes = n * sizeof(uint32_t);
    uint32_t *device, *pinned;
    CHECK(cudaMalloc(&device, THREADS * bytes));
    CHECK(cudaMallocHost(&pinned, THREADS * bytes));

    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < THREADS; thread++)
        threads.emplace_back(work, thread, n, device + (size_t)thread * n, pinned + (size_t)thread * n);
    for (unsigned i = 0; i < CHILDREN; i++) fork_a_child();
    for (std::thread &thread : threads) thread.join();

    // The program copies results back after all threads have ended, so that their order is always the same.
    std::vector<uint32_t> values(THREADS * (size_t)n);
    CHECK(cudaMemcpy(values.data(), device, THREADS * bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    for (uint32_t thread = 0; thread < THREADS; thread++) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t right = scramble(thread * n + i);
            for (uint32_t round = 0; round < ROUNDS; round++) right = right * 1664525u + thread * 1000003u + round;
            const uint32_t got = values[(size_t)thread * n + i];
            if (got != right) fail("thread %u: %u is %08x, not %08x", thread, i, got, right);
        }
    }
    give(values.data(), THREADS * bytes);
    return finish();
}
