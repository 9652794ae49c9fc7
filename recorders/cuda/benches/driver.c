/* A fast CUDA driver that does nothing, so that the extra time of a call is the recorder's. Built by cuda_hooks.rs. */
#include <stddef.h>
#include <stdint.h>

typedef uint32_t result;

#define DO_NOTHING(name) result name(void) { return 0; }

DO_NOTHING(cuInit)
DO_NOTHING(cuCtxSynchronize)
DO_NOTHING(cuStreamSynchronize)
DO_NOTHING(cuStreamQuery)
DO_NOTHING(cuStreamIsCapturing)
DO_NOTHING(cuEventRecord)
DO_NOTHING(cuLaunchKernel)
DO_NOTHING(cuMemcpyHtoDAsync_v2)
DO_NOTHING(cuMemFree_v2)

static int context;

result cuCtxGetCurrent(void **current) { *current = &context; return 0; }
result cuCtxGetDevice(int *device) { *device = 0; return 0; }
result cuDriverGetVersion(int *version) { *version = 13000; return 0; }
result cuDeviceGetAttribute(int *value, int which, int device) { (void)which; (void)device; *value = 0; return 0; }
result cuDeviceGetName(char *name, int bytes, int device) { (void)device; if (bytes > 0) *name = 0; return 0; }
result cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 0; return 0; }

static uint64_t next = 0x10000000;

result cuMemAlloc_v2(uint64_t *at, size_t bytes) {
    *at = next;
    next += (bytes + 511) / 512 * 512;
    return 0;
}

result cuFuncGetName(const char **name, void *function) { (void)function; *name = "_Z3addPfS_i"; return 0; }
result cuFuncGetAttribute(int *value, int which, void *function) { (void)which; (void)function; *value = 0; return 0; }

/* The function has two pointers and a number as parameters. */
result cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes) {
    (void)function;
    if (index > 2) return 1;
    *offset = index * 8;
    *bytes = index < 2 ? 8 : 4;
    return 0;
}
