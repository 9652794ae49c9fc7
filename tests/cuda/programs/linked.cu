// Walks lists and a tree whose links are device pointers. The host and a kernel store links in several allocations.
#include <algorithm>
#include <numeric>
#include <vector>

#include "check.h"

const unsigned LISTS = 64;
const unsigned PARTS = 4;
const unsigned BLOCK = 128;
const uint32_t ABSENT = 0xffffffffu;

struct Link {
    Link *next;
    uint32_t value;
    uint32_t index;
};

struct Branch {
    Branch *below;
    Branch *above;
    uint32_t key;
    uint32_t value;
};

// An argument that is passed by value. It contains pointers, also to arrays of pointers.
struct Structures {
    Link **heads;
    const Branch *root;
    uint32_t lists;
    uint32_t lookups;
};

// Link i of all lists is in allocation i % PARTS.
struct Parts {
    Link *part[PARTS];
};

// Builds lists on the GPU. List l consists of the links l, l + LISTS, ... in descending order.
__global__ void tie(Link **heads, Parts parts, uint32_t count) {
    const uint32_t list = blockIdx.x * blockDim.x + threadIdx.x;
    if (list >= LISTS) return;
    Link *head = nullptr;
    for (uint32_t i = list; i < count; i += LISTS) {
        Link *link = parts.part[i % PARTS] + i / PARTS;
        link->next = head;
        link->value = i * 2654435761u;
        link->index = i;
        head = link;
    }
    heads[list] = head;
}

__global__ void reverse(Structures s) {
    const uint32_t list = blockIdx.x * blockDim.x + threadIdx.x;
    if (list >= s.lists) return;
    Link *at = s.heads[list], *before = nullptr;
    while (at != nullptr) {
        Link *next = at->next;
        at->next = before;
        before = at;
        at = next;
    }
    s.heads[list] = before;
}

// Computes a sum that depends on the order of the links.
__global__ void walk(uint32_t *sums, Structures s) {
    const uint32_t list = blockIdx.x * blockDim.x + threadIdx.x;
    if (list >= s.lists) return;
    uint32_t sum = 17;
    for (const Link *at = s.heads[list]; at != nullptr; at = at->next) sum = sum * 31 + (at->value ^ at->index);
    sums[list] = sum;
}

__global__ void look_up(uint32_t *values, Structures s) {
    const uint32_t key = blockIdx.x * blockDim.x + threadIdx.x;
    if (key >= s.lookups) return;
    const Branch *at = s.root;
    while (at != nullptr && at->key != key) at = key < at->key ? at->below : at->above;
    values[key] = at == nullptr ? ABSENT : at->value;
}

int main(int argc, char **argv) {
    const uint32_t n = (uint32_t)start("linked", argc, argv, 1 << 16, 1, 1 << 24);

    // The host links these lists, in an order that does not depend on the addresses.
    Link *links;
    Link **heads;
    CHECK(cudaMalloc(&links, n * sizeof(Link)));
    CHECK(cudaMalloc(&heads, LISTS * sizeof(Link *)));
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    for (uint32_t i = n - 1; i > 0; i--) std::swap(order[i], order[scramble(i) % (i + 1)]);
    std::vector<Link> host_links(n);
    std::vector<Link *> host_heads(LISTS, nullptr);
    std::vector<uint32_t> right_sums(3 * LISTS, 17);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t list = i % LISTS, slot = order[i];
        host_links[slot] = {host_heads[list], scramble(i), i};
        host_heads[list] = links + slot;
    }
    for (uint32_t i = n; i-- > 0;) {
        uint32_t &sum = right_sums[i % LISTS];
        sum = sum * 31 + (scramble(i) ^ i);
    }
    CHECK(cudaMemcpy(links, host_links.data(), n * sizeof(Link), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(heads, host_heads.data(), LISTS * sizeof(Link *), cudaMemcpyHostToDevice));

    // A kernel links these lists, and another kernel reverses them.
    Parts parts;
    Link **tied_heads;
    for (unsigned i = 0; i < PARTS; i++) CHECK(cudaMalloc(&parts.part[i], (n / PARTS + 1) * sizeof(Link)));
    CHECK(cudaMalloc(&tied_heads, LISTS * sizeof(Link *)));
    for (uint32_t i = n; i-- > 0;) {
        uint32_t &sum = right_sums[LISTS + i % LISTS];
        sum = sum * 31 + ((i * 2654435761u) ^ i);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t &sum = right_sums[2 * LISTS + i % LISTS];
        sum = sum * 31 + ((i * 2654435761u) ^ i);
    }

    // The search tree has the even keys, inserted in random order. Its branches alternate among the allocations.
    Branch *branches[PARTS];
    std::vector<Branch> host_branches[PARTS];
    for (unsigned i = 0; i < PARTS; i++) {
        CHECK(cudaMalloc(&branches[i], (n / PARTS + 1) * sizeof(Branch)));
        host_branches[i].resize(n / PARTS + 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t key = 2 * order[i];
        host_branches[i % PARTS][i / PARTS] = {nullptr, nullptr, key, scramble(key) >> 1};
        uint32_t at = 0;
        while (i > 0) {
            Branch &parent = host_branches[at % PARTS][at / PARTS];
            Branch *&child = key < parent.key ? parent.below : parent.above;
            if (child == nullptr) {
                child = branches[i % PARTS] + i / PARTS;
                break;
            }
            unsigned part = 0;
            while (child < branches[part] || child > branches[part] + n / PARTS) part++;
            at = (uint32_t)(child - branches[part]) * PARTS + part;
        }
    }
    for (unsigned i = 0; i < PARTS; i++)
        CHECK(cudaMemcpy(branches[i], host_branches[i].data(), (n / PARTS + 1) * sizeof(Branch),
                         cudaMemcpyHostToDevice));

    uint32_t *device_sums, *device_values;
    const uint32_t lookups = 2 * n + 2;
    CHECK(cudaMalloc(&device_sums, 3 * LISTS * sizeof(uint32_t)));
    CHECK(cudaMalloc(&device_values, lookups * sizeof(uint32_t)));

    const Structures linked = {heads, branches[0], LISTS, lookups};
    const Structures tied = {tied_heads, branches[0], LISTS, lookups};
    const unsigned grid = blocks_for(LISTS, BLOCK);
    walk<<<grid, BLOCK>>>(device_sums, linked);
    CHECK(cudaGetLastError());
    tie<<<grid, BLOCK>>>(tied_heads, parts, n);
    CHECK(cudaGetLastError());
    walk<<<grid, BLOCK>>>(device_sums + LISTS, tied);
    CHECK(cudaGetLastError());
    reverse<<<grid, BLOCK>>>(tied);
    CHECK(cudaGetLastError());
    walk<<<grid, BLOCK>>>(device_sums + 2 * LISTS, tied);
    CHECK(cudaGetLastError());
    look_up<<<blocks_for(lookups, BLOCK), BLOCK>>>(device_values, linked);
    CHECK(cudaGetLastError());

    std::vector<uint32_t> sums(3 * LISTS), values(lookups);
    CHECK(cudaMemcpy(sums.data(), device_sums, 3 * LISTS * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(values.data(), device_values, lookups * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < PARTS; i++) {
        CHECK(cudaFree(parts.part[i]));
        CHECK(cudaFree(branches[i]));
    }
    CHECK(cudaFree(links));
    CHECK(cudaFree(heads));
    CHECK(cudaFree(tied_heads));
    CHECK(cudaFree(device_sums));
    CHECK(cudaFree(device_values));

    for (uint32_t i = 0; i < 3 * LISTS; i++)
        if (sums[i] != right_sums[i])
            fail("walk %u of list %u gives %08x, not %08x", i / LISTS, i % LISTS, sums[i], right_sums[i]);
    for (uint32_t key = 0; key < lookups; key++) {
        const uint32_t right = key % 2 == 0 && key < 2 * n ? scramble(key) >> 1 : ABSENT;
        if (values[key] != right) fail("key %u gives %08x, not %08x", key, values[key], right);
    }
    give(sums.data(), 3 * LISTS * sizeof(uint32_t));
    give(values.data(), lookups * sizeof(uint32_t));
    return finish();
}
