// Writes to an illegal address with --bad, and never ends with --hang. Without an option, the result is correct. The order
// 3 in its first input makes a replay write to a misaligned address.
#include <unistd.h>

#include "check.h"

const unsigned BLOCK = 128;
const uint32_t RIGHT = 0, BAD = 1, HANG = 2, MISALIGNED = 3;

// The order is in device memory, so that another input can make a replay fail too.
struct Orders {
    uint32_t order;
    uint32_t spare;
    uint64_t address;
};

__global__ void obey(uint32_t *out, const Orders *orders, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (orders->order == BAD && i == 0) *(volatile uint32_t *)orders->address = 1;
    if (orders->order == MISALIGNED && i == 0) *(volatile uint32_t *)((char *)out + 1) = 1;
    while (*(const volatile uint32_t *)&orders->order == HANG) {}
    if (i < n) out[i] = i * 3 + orders->order;
}

int main(int argc, char **argv) {
    const bool bad = flag(&argc, argv, "--bad"), hang = flag(&argc, argv, "--hang");
    const uint32_t n = (uint32_t)start("faulty", argc, argv, 1 << 12, 1, 1 << 24);
    const Orders orders = {bad ? BAD : hang ? HANG : RIGHT, 0, 0x10};
    uint32_t *out, *got = (uint32_t *)malloc(n * sizeof(uint32_t));
    Orders *device_orders;
    if (got == nullptr) fail("no memory");
    CHECK(cudaMalloc(&out, n * sizeof(uint32_t)));
    CHECK(cudaMalloc(&device_orders, sizeof(Orders)));
    CHECK(cudaMemset(out, 0, n * sizeof(uint32_t)));
    CHECK(cudaMemcpy(device_orders, &orders, sizeof(Orders), cudaMemcpyHostToDevice));
    // Another process or the alarm after one minute ends the endless kernel.
    if (hang) {
        printf("faulty: hanging now\n");
        fflush(stdout);
        alarm(60);
    }
    obey<<<blocks_for(n, BLOCK), BLOCK>>>(out, device_orders, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got, out, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(out));
    CHECK(cudaFree(device_orders));
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != i * 3) fail("out[%u] is %u, not %u", i, got[i], i * 3);
    give(got, n * sizeof(uint32_t));
    free(got);
    return finish();
}
