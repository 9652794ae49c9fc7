// Uses only the driver, from C: PTX text, both ways to pass arguments, and every kind of memory.
//
// The program looks up the driver's functions in libcuda.so.1. With -DLINKED, the program is linked with them instead.
#include <cuda.h>

#include "result.h"

// Names of the used functions, without `cu`. cuda.h maps each name to its newest version.
#define FUNCTIONS(X)                                                                                                   \
    X(GetErrorString)                                                                                                  \
    X(Init)                                                                                                            \
    X(DeviceGet)                                                                                                       \
    X(DevicePrimaryCtxRetain)                                                                                          \
    X(DevicePrimaryCtxRelease)                                                                                         \
    X(CtxSynchronize)                                                                                                  \
    X(CtxSetCurrent)                                                                                                   \
    X(StreamCreate)                                                                                                    \
    X(StreamSynchronize)                                                                                               \
    X(StreamDestroy)                                                                                                   \
    X(ModuleLoadData)                                                                                                  \
    X(ModuleGetFunction)                                                                                               \
    X(ModuleGetGlobal)                                                                                                 \
    X(ModuleUnload)                                                                                                    \
    X(LaunchKernel)                                                                                                    \
    X(MemAlloc)                                                                                                        \
    X(MemAllocPitch)                                                                                                   \
    X(MemFree)                                                                                                         \
    X(MemAllocHost)                                                                                                    \
    X(MemHostAlloc)                                                                                                    \
    X(MemHostGetDevicePointer)                                                                                         \
    X(MemHostRegister)                                                                                                 \
    X(MemHostUnregister)                                                                                               \
    X(MemFreeHost)                                                                                                     \
    X(MemAllocManaged)                                                                                                 \
    X(MemAllocAsync)                                                                                                   \
    X(MemFreeAsync)                                                                                                    \
    X(MemGetAllocationGranularity)                                                                                     \
    X(MemAddressReserve)                                                                                               \
    X(MemAddressFree)                                                                                                  \
    X(MemCreate)                                                                                                       \
    X(MemRelease)                                                                                                      \
    X(MemMap)                                                                                                          \
    X(MemUnmap)                                                                                                        \
    X(MemSetAccess)                                                                                                    \
    X(MemcpyHtoD)                                                                                                      \
    X(MemcpyDtoH)                                                                                                      \
    X(MemcpyHtoDAsync)                                                                                                 \
    X(MemcpyDtoHAsync)                                                                                                 \
    X(MemcpyDtoDAsync)                                                                                                 \
    X(Memcpy2D)                                                                                                        \
    X(MemsetD8Async)                                                                                                   \
    X(MemsetD16Async)                                                                                                  \
    X(MemsetD32Async)                                                                                                  \
    X(ArrayCreate)                                                                                                     \
    X(ArrayDestroy)                                                                                                    \
    X(MemcpyHtoA)                                                                                                      \
    X(MemcpyAtoD)

#define MEMBER(name) __typeof__(&cu##name) name;
static struct { FUNCTIONS(MEMBER) } cu;

#define CHECK(call) check_call((call), #call, __LINE__)

static void check_call(CUresult error, const char *call, int line) {
    const char *text = NULL;
    if (error == CUDA_SUCCESS) return;
    if (cu.GetErrorString(error, &text) != CUDA_SUCCESS || text == NULL) text = "unknown";
    fail("driver_api.c:%d: %s: %s (%d)", line, call, text, (int)error);
}

#ifdef LINKED
#define TAKE(name) cu.name = &cu##name;
static void find_driver(void) { FUNCTIONS(TAKE) }
#else
#include <dlfcn.h>
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define TAKE(name) cu.name = (__typeof__(cu.name))find(library, TEXT(cu##name));

static void *find(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) fail("the driver has no %s", name);
    return symbol;
}

static void find_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail("%s", dlerror());
    FUNCTIONS(TAKE)
}
#endif

static const char *const ptx =
    ".version 7.0\n"
    ".target sm_75\n"
    ".address_size 64\n"
    "\n"
    ".visible .global .align 4 .u32 weights[4] = {3, 1, 4, 1};\n"
    "\n"
    // out[i] = in[i] * factor + summand
    ".visible .entry scale_add(.param .u64 out, .param .u64 in, .param .u32 count, .param .u32 factor,\n"
    "                          .param .u32 summand)\n"
    "{\n"
    "    .reg .pred %past;\n"
    "    .reg .b32 %block, %threads, %i, %count, %value, %factor, %summand;\n"
    "    .reg .b64 %out, %in, %at;\n"
    "    mov.u32 %block, %ctaid.x;\n"
    "    mov.u32 %threads, %ntid.x;\n"
    "    mov.u32 %i, %tid.x;\n"
    "    mad.lo.u32 %i, %block, %threads, %i;\n"
    "    ld.param.u32 %count, [count];\n"
    "    setp.ge.u32 %past, %i, %count;\n"
    "    @%past bra END;\n"
    "    ld.param.u64 %out, [out];\n"
    "    ld.param.u64 %in, [in];\n"
    "    ld.param.u32 %factor, [factor];\n"
    "    ld.param.u32 %summand, [summand];\n"
    "    cvta.to.global.u64 %out, %out;\n"
    "    cvta.to.global.u64 %in, %in;\n"
    "    mul.wide.u32 %at, %i, 4;\n"
    "    add.u64 %in, %in, %at;\n"
    "    add.u64 %out, %out, %at;\n"
    "    ld.global.u32 %value, [%in];\n"
    "    mad.lo.u32 %value, %value, %factor, %summand;\n"
    "    st.global.u32 [%out], %value;\n"
    "END:\n"
    "    ret;\n"
    "}\n"
    "\n"
    // out[i] = in[i] * weights[i % 4] + small; the layout has a gap between the first two arguments.
    ".visible .entry weigh(.param .u8 small, .param .u32 count, .param .u64 out, .param .u64 in)\n"
    "{\n"
    "    .reg .pred %past;\n"
    "    .reg .b32 %block, %threads, %i, %count, %value, %weight, %small, %four;\n"
    "    .reg .b64 %out, %in, %at, %weights;\n"
    "    mov.u32 %block, %ctaid.x;\n"
    "    mov.u32 %threads, %ntid.x;\n"
    "    mov.u32 %i, %tid.x;\n"
    "    mad.lo.u32 %i, %block, %threads, %i;\n"
    "    ld.param.u32 %count, [count];\n"
    "    setp.ge.u32 %past, %i, %count;\n"
    "    @%past bra END;\n"
    "    ld.param.u8 %small, [small];\n"
    "    ld.param.u64 %out, [out];\n"
    "    ld.param.u64 %in, [in];\n"
    "    cvta.to.global.u64 %out, %out;\n"
    "    cvta.to.global.u64 %in, %in;\n"
    "    mul.wide.u32 %at, %i, 4;\n"
    "    add.u64 %in, %in, %at;\n"
    "    add.u64 %out, %out, %at;\n"
    "    and.b32 %four, %i, 3;\n"
    "    mul.wide.u32 %at, %four, 4;\n"
    "    mov.u64 %weights, weights;\n"
    "    add.u64 %weights, %weights, %at;\n"
    "    ld.global.u32 %weight, [%weights];\n"
    "    ld.global.u32 %value, [%in];\n"
    "    mad.lo.u32 %value, %value, %weight, %small;\n"
    "    st.global.u32 [%out], %value;\n"
    "END:\n"
    "    ret;\n"
    "}\n";

enum { BLOCK = 128, PAGE = 4096 };

static uint32_t n, *input, *got, *right;
static size_t bytes;
static CUdevice device;
static CUstream stream;
static CUmodule module;
static CUfunction scale_add, weigh;
static CUdeviceptr source, target;
static uint32_t weights[4] = {3, 1, 4, 1};

static void launch_scale_add(CUdeviceptr out, CUdeviceptr in, uint32_t factor, uint32_t summand) {
    void *arguments[] = {&out, &in, &n, &factor, &summand};
    CHECK(cu.LaunchKernel(scale_add, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL));
}

static void expect_scale_add(uint32_t factor, uint32_t summand) {
    uint32_t i;
    for (i = 0; i < n; i++) right[i] = input[i] * factor + summand;
}

static void expect_weigh(uint8_t small) {
    uint32_t i;
    for (i = 0; i < n; i++) right[i] = input[i] * weights[i % 4] + small;
}

static void check_words(const char *part, const uint32_t *words) {
    uint32_t i;
    for (i = 0; i < n; i++)
        if (words[i] != right[i]) fail("%s: word %u is %08x, not %08x", part, i, words[i], right[i]);
    give(words, bytes);
}

// Copies and waits. A copy from pageable memory can be pending after the call, and the stream does not wait for it.
static void put(CUdeviceptr to, const void *from, size_t count) {
    CHECK(cu.MemcpyHtoD(to, from, count));
    CHECK(cu.CtxSynchronize());
}

static void synchronize(void) { CHECK(cu.StreamSynchronize(stream)); }

static void parameters(const char *part) {
    launch_scale_add(target, source, 3, 1);
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    expect_scale_add(3, 1);
    check_words(part, got);
}

static void extra(const char *part) {
    struct {
        uint8_t small, gap[3];
        uint32_t count;
        CUdeviceptr out, in;
    } arguments = {200, {0}, n, target, source};
    size_t size = sizeof(arguments);
    void *buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      CU_LAUNCH_PARAM_END};
    CHECK(cu.LaunchKernel(weigh, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, NULL, buffer));
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    expect_weigh(200);
    check_words(part, got);
}

static void global(const char *part) {
    uint8_t small = 7;
    void *arguments[] = {&small, &n, &target, &source};
    CUdeviceptr address;
    size_t size;
    CHECK(cu.ModuleGetGlobal(&address, &size, module, "weights"));
    if (size != sizeof(weights)) fail("%s: the variable has %zu bytes", part, size);
    weights[2] = 0x10001;
    put(address + 2 * sizeof(uint32_t), &weights[2], sizeof(uint32_t));
    CHECK(cu.LaunchKernel(weigh, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL));
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    expect_weigh(small);
    check_words(part, got);
}

// Fills all words, then overwrites parts of them with shorts and bytes.
static void set(const char *part) {
    uint32_t i;
    const uint32_t shorts = n / 2, chars = n / 4;
    CHECK(cu.MemsetD32Async(target, 0xdecade00, n, stream));
    CHECK(cu.MemsetD16Async(target, 0xabcd, 2 * (size_t)shorts, stream));
    CHECK(cu.MemsetD8Async(target, 0x5a, 4 * (size_t)chars, stream));
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    for (i = 0; i < n; i++) right[i] = i < chars ? 0x5a5a5a5a : i < shorts ? 0xabcdabcd : 0xdecade00;
    check_words(part, got);
}

// Swaps the two halves by copies on the device.
static void device_copy(const char *part) {
    uint32_t i;
    const uint32_t half = n / 2;
    const size_t offset = (size_t)half * sizeof(uint32_t);
    CHECK(cu.MemcpyDtoDAsync(target, source + offset, bytes - offset, stream));
    CHECK(cu.MemcpyDtoDAsync(target + (bytes - offset), source, offset, stream));
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    for (i = 0; i < n; i++) right[i] = input[(i + half) % n];
    check_words(part, got);
}

// Frees and allocates memory of the stream's pool before any submitted work has run.
static void pool(const char *part) {
    CUdeviceptr from = source;
    uint32_t i, round;
    for (round = 0; round < 3; round++) {
        CUdeviceptr next;
        CHECK(cu.MemAllocAsync(&next, bytes, stream));
        launch_scale_add(next, from, 5, round);
        if (from != source) CHECK(cu.MemFreeAsync(from, stream));
        from = next;
    }
    CHECK(cu.MemcpyDtoHAsync(got, from, bytes, stream));
    CHECK(cu.MemFreeAsync(from, stream));
    synchronize();
    for (i = 0; i < n; i++) right[i] = ((input[i] * 5 + 0) * 5 + 1) * 5 + 2;
    check_words(part, got);
}

// Uses one address for host and GPU. The host writes between two launches.
static void managed(const char *part) {
    CUdeviceptr address;
    uint32_t *words, i;
    CHECK(cu.MemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
    words = (uint32_t *)(uintptr_t)address;
    memcpy(words, input, bytes);
    launch_scale_add(address, address, 9, 2);
    synchronize();
    for (i = 0; i < n; i++) words[i] ^= i;
    launch_scale_add(address, address, 11, 4);
    synchronize();
    for (i = 0; i < n; i++) right[i] = ((input[i] * 9 + 2) ^ i) * 11 + 4;
    check_words(part, words);
    CHECK(cu.MemFree(address));
}

// Registers memory of the C library. Copies use it, and kernels read and write it.
static void registered(const char *part) {
    void *memory;
    CUdeviceptr seen;
    const size_t rounded = (bytes + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign(&memory, PAGE, 2 * rounded) != 0) fail("%s: no memory", part);
    memset(memory, 0, 2 * rounded);
    memcpy(memory, input, bytes);
    CHECK(cu.MemHostRegister(memory, 2 * rounded, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cu.MemHostGetDevicePointer(&seen, memory, 0));
    CHECK(cu.MemcpyHtoDAsync(target, memory, bytes, stream));
    launch_scale_add(seen + rounded, target, 13, 6);
    launch_scale_add(target, seen + rounded, 1, 1);
    CHECK(cu.MemcpyDtoHAsync(memory, target, bytes, stream));
    synchronize();
    expect_scale_add(13, 6);
    check_words(part, (const uint32_t *)((const char *)memory + rounded));
    expect_scale_add(13, 7);
    check_words(part, (const uint32_t *)memory);
    CHECK(cu.MemHostUnregister(memory));
    free(memory);
}

// Uses pinned memory that kernels access directly, and pinned memory that only copies use.
static void pinned(const char *part) {
    void *mapped, *plain;
    CUdeviceptr seen;
    CHECK(cu.MemHostAlloc(&mapped, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cu.MemAllocHost(&plain, bytes));
    memcpy(mapped, input, bytes);
    CHECK(cu.MemHostGetDevicePointer(&seen, mapped, 0));
    launch_scale_add(seen, seen, 15, 8);
    launch_scale_add(target, seen, 1, 1);
    CHECK(cu.MemcpyDtoHAsync(plain, target, bytes, stream));
    synchronize();
    expect_scale_add(15, 8);
    check_words(part, (const uint32_t *)mapped);
    expect_scale_add(15, 9);
    check_words(part, (const uint32_t *)plain);
    CHECK(cu.MemFreeHost(mapped));
    CHECK(cu.MemFreeHost(plain));
}

// Reserves addresses and maps two pieces of memory. The words are partly in the first piece and partly in the second.
static void virtual_memory(const char *part) {
    CUmemAllocationProp property;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle pieces[2];
    CUdeviceptr addresses, words;
    size_t grain;
    int i;
    memset(&property, 0, sizeof(property));
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property.location.id = device;
    memset(&access, 0, sizeof(access));
    access.location = property.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cu.MemGetAllocationGranularity(&grain, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    while (grain < bytes) grain *= 2;
    CHECK(cu.MemAddressReserve(&addresses, 2 * grain, 0, 0, 0));
    for (i = 0; i < 2; i++) {
        CHECK(cu.MemCreate(&pieces[i], grain, &property, 0));
        CHECK(cu.MemMap(addresses + (size_t)i * grain, grain, 0, pieces[i], 0));
    }
    CHECK(cu.MemSetAccess(addresses, 2 * grain, &access, 1));
    words = addresses + grain - (size_t)(n / 2) * sizeof(uint32_t);
    launch_scale_add(words, source, 17, 10);
    launch_scale_add(target, words, 1, 1);
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    expect_scale_add(17, 11);
    check_words(part, got);
    CHECK(cu.MemUnmap(addresses, 2 * grain));
    for (i = 0; i < 2; i++) CHECK(cu.MemRelease(pieces[i]));
    CHECK(cu.MemAddressFree(addresses, 2 * grain));
}

// Copies two rows with padding to the device and back.
static void pitched(const char *part) {
    CUDA_MEMCPY2D copy;
    CUdeviceptr rows;
    size_t pitch;
    const size_t row = bytes / 2;
    CHECK(cu.MemAllocPitch(&rows, &pitch, row, 2, 4));
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = input;
    copy.srcPitch = row;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = rows;
    copy.dstPitch = pitch;
    copy.WidthInBytes = row;
    copy.Height = 2;
    CHECK(cu.Memcpy2D(&copy));
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = rows;
    copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = got;
    copy.dstPitch = row;
    copy.WidthInBytes = row;
    copy.Height = 2;
    CHECK(cu.Memcpy2D(&copy));
    expect_scale_add(1, 0);
    check_words(part, got);
    CHECK(cu.MemFree(rows));
}

static void array(const char *part) {
    CUDA_ARRAY_DESCRIPTOR description;
    CUarray created;
    memset(&description, 0, sizeof(description));
    description.Width = n;
    description.Height = 0;
    description.Format = CU_AD_FORMAT_UNSIGNED_INT32;
    description.NumChannels = 1;
    CHECK(cu.ArrayCreate(&created, &description));
    CHECK(cu.MemcpyHtoA(created, 0, input, bytes));
    CHECK(cu.MemcpyAtoD(target, created, 0, bytes));
    // The copies are on the default stream, for which a non-blocking stream does not wait.
    CHECK(cu.CtxSynchronize());
    launch_scale_add(target, target, 19, 12);
    synchronize();
    CHECK(cu.MemcpyDtoH(got, target, bytes));
    expect_scale_add(19, 12);
    check_words(part, got);
    CHECK(cu.ArrayDestroy(created));
}

static const struct {
    const char *name;
    void (*run)(const char *part);
} parts[] = {
    {"parameters", parameters}, {"extra", extra},           {"global", global},
    {"set", set},               {"device_copy", device_copy}, {"pool", pool},
    {"managed", managed},       {"registered", registered}, {"pinned", pinned},
    {"virtual", virtual_memory}, {"pitched", pitched},      {"array", array},
};

enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

int main(int argc, char **argv) {
    CUcontext context;
    const char *name;
    int i, skipped[PARTS] = {0};
    uint32_t index;
    while ((name = option(&argc, argv, "--skip")) != NULL) {
        for (i = 0; i < PARTS && strcmp(parts[i].name, name) != 0; i++) {}
        if (i == PARTS) fail("--skip: there is no part '%s'", name);
        skipped[i] = 1;
    }
    n = (uint32_t)start("driver_api", argc, argv, 1 << 12, 4, 1 << 16) / 4 * 4;
    bytes = n * sizeof(uint32_t);
    input = malloc(bytes);
    got = malloc(bytes);
    right = malloc(bytes);
    if (input == NULL || got == NULL || right == NULL) fail("no memory");
    for (index = 0; index < n; index++) input[index] = scramble(index);

    find_driver();
    CHECK(cu.Init(0));
    CHECK(cu.DeviceGet(&device, 0));
    CHECK(cu.DevicePrimaryCtxRetain(&context, device));
    CHECK(cu.CtxSetCurrent(context));
    CHECK(cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cu.ModuleLoadData(&module, ptx));
    CHECK(cu.ModuleGetFunction(&scale_add, module, "scale_add"));
    CHECK(cu.ModuleGetFunction(&weigh, module, "weigh"));
    CHECK(cu.MemAlloc(&source, bytes));
    CHECK(cu.MemAlloc(&target, bytes));
    put(source, input, bytes);

    for (i = 0; i < PARTS; i++)
        if (!skipped[i]) parts[i].run(parts[i].name);

    CHECK(cu.MemFree(source));
    CHECK(cu.MemFree(target));
    CHECK(cu.ModuleUnload(module));
    CHECK(cu.StreamDestroy(stream));
    CHECK(cu.CtxSetCurrent(NULL));
    CHECK(cu.DevicePrimaryCtxRelease(device));
    free(input);
    free(got);
    free(right);
    return finish();
}
