// Source of the recording `accesses.mmt`: maps a file in two pieces, with aligned and unaligned accesses of every size.
// The program was compiled by gcc 12 with -O1, and ran under valgrind's tool mmt, on x86-64, in an empty folder:
//   valgrind --tool=mmt --mmt-trace-file=window.bin --mmt-trace-nouveau-ioctls --mmt-trace-stdout-stderr
//            --log-file=accesses.mmt ./accesses
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// The layout of DRM_IOCTL_VERSION: the caller provides buffers for three texts. The ioctl fails on a file.
struct version {
    int major, minor, patch;
    size_t name_bytes;
    char *name;
    size_t date_bytes;
    char *date;
    size_t text_bytes;
    char *text;
};

int main(void) {
    int fd = open("window.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, 0x6000))
        return 1;
    volatile uint8_t *a = mmap(0, 0x2000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    volatile uint8_t *b = mmap(0, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x4000);
    if (a == MAP_FAILED || b == MAP_FAILED)
        return 1;

    a[0] = 0x11;
    *(volatile uint16_t *)(a + 2) = 0x2222;
    *(volatile uint32_t *)(a + 4) = 0x44444444;
    *(volatile uint64_t *)(a + 8) = 0x8877665544332211;
    __m128i wide = _mm_set_epi32(0x0f0e0d0c, 0x0b0a0908, 0x07060504, 0x03020100);
    asm volatile("movdqu %1, %0" : "=m"(*(__m128i *)(a + 16)) : "x"(wide));
    asm volatile("vinsertf128 $1, %1, %%ymm1, %%ymm1\n\tvmovdqu %%ymm1, %0"
                 : "=m"(*(volatile char(*)[32])(a + 32)) : "x"(wide) : "xmm1");
    for (uint32_t i = 0; i < 100; i++)
        *(volatile uint32_t *)(b + 4 * i) = i * i;
    // This store is unaligned and crosses the end of a page.
    *(volatile uint32_t *)(a + 0xffe) = 0xcafef00d;

    uint64_t sum = a[0];
    sum += *(volatile uint16_t *)(a + 2);
    sum += *(volatile uint32_t *)(a + 4);
    sum += *(volatile uint64_t *)(a + 8);
    __m128i back;
    asm volatile("movdqu %1, %0" : "=x"(back) : "m"(*(__m128i *)(a + 16)));
    asm volatile("vmovdqu %0, %%ymm1" : : "m"(*(volatile char(*)[32])(a + 32)) : "xmm1");
    for (uint32_t i = 0; i < 50; i++)
        sum += *(volatile uint32_t *)(b + 8 * i);
    // One instruction reads and writes.
    asm volatile("lock orl $0x80, %0" : "+m"(*(volatile uint32_t *)(a + 4)));

    char name[8] = "name", date[8] = "date", text[8] = "text";
    struct version v = {1, 2, 3, sizeof name, name, sizeof date, date, sizeof text, text};
    int failed = ioctl(fd, _IOWR('d', 0, struct version), &v);
    int other = dup(fd);
    volatile uint8_t *c = mmap(0, 0x1000, PROT_READ, MAP_SHARED, other, 0x5000);
    sum += c[0xfff];
    volatile uint8_t *moved = mremap((void *)a, 0x2000, 0x4000, MREMAP_MAYMOVE);
    moved[0x3fff] = 0x77;
    munmap((void *)b, 0x1000);
    char message[64];
    int bytes = snprintf(message, sizeof message, "sum %#llx, ioctl %d\n", (unsigned long long)sum, failed);
    return write(1, message, bytes) != bytes;
}
