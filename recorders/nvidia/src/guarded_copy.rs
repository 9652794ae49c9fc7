//! A copy that fails at an inaccessible address, and does not end the process.
//!
//! The kernel's own copies (`process_vm_readv`) refuse mappings of devices, and rings and push buffers are such
//! mappings. So the copy is a routine of known addresses: the handler of `SIGSEGV` and `SIGBUS` continues a fault in it
//! at its exit for failures. It calls nothing and allocates nothing.
#![allow(unsafe_code, reason = "the routine is assembly and takes addresses of the program")]

use crate::address::HostAddr;

// Loads are as wide as the alignment allows: memory of write-combining type is slow to read byte by byte. MOVNTDQA is
// the fast load of such memory, and an ordinary load elsewhere. `begin_reads` fences it.
std::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl kinescope_nvidia_copy",
    ".hidden kinescope_nvidia_copy",
    ".globl kinescope_nvidia_copy_cached",
    ".hidden kinescope_nvidia_copy_cached",
    ".globl kinescope_nvidia_load_two",
    ".hidden kinescope_nvidia_load_two",
    ".globl kinescope_nvidia_copy_end",
    ".hidden kinescope_nvidia_copy_end",
    "kinescope_nvidia_copy:",
    // Up to an aligned address.
    "2: cmp rdx, 8",
    "jb 6f",
    "test sil, 3",
    "jne 8f",
    "test sil, 15",
    "je 4f",
    "test sil, 7",
    "je 3f",
    "mov eax, [rsi]",
    "mov [rdi], eax",
    "add rsi, 4",
    "add rdi, 4",
    "sub rdx, 4",
    "jmp 2b",
    "3: mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "sub rdx, 8",
    "jmp 2b",
    "8: mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jmp 2b",
    "4: cmp rdx, 64",
    "jb 5f",
    "movntdqa xmm0, [rsi]",
    "movntdqa xmm1, [rsi + 16]",
    "movntdqa xmm2, [rsi + 32]",
    "movntdqa xmm3, [rsi + 48]",
    "movdqu [rdi], xmm0",
    "movdqu [rdi + 16], xmm1",
    "movdqu [rdi + 32], xmm2",
    "movdqu [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jmp 4b",
    "5: cmp rdx, 8",
    "jb 6f",
    "mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "sub rdx, 8",
    "jmp 5b",
    // Fewer than 8 bytes: a number of 32 bits is one load.
    "6: cmp rdx, 4",
    "jb 7f",
    "test sil, 3",
    "jne 7f",
    "mov eax, [rsi]",
    "mov [rdi], eax",
    "add rsi, 4",
    "add rdi, 4",
    "sub rdx, 4",
    "7: test rdx, rdx",
    "je 9f",
    "mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jmp 7b",
    "9: xor eax, eax",
    "ret",
    "kinescope_nvidia_copy_cached:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    "kinescope_nvidia_load_two:",
    "mov eax, [rsi]",
    "mov rcx, [rdx]",
    "mov [rdi], rax",
    "mov [rdi + 8], rcx",
    "xor eax, eax",
    "ret",
    "kinescope_nvidia_copy_end:",
    "mov eax, 1",
    "ret",
);

unsafe extern "C" {
    /// Copies `bytes` bytes. Returns 0, or 1 if an address is not accessible.
    fn kinescope_nvidia_copy(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    /// Copies `bytes` bytes of ordinary memory. Returns 0, or 1 if an address is not accessible.
    fn kinescope_nvidia_copy_cached(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    /// Loads 32 bits, and then 64 bits. Returns 0, or 1 if an address is not accessible.
    fn kinescope_nvidia_load_two(to: *mut [u64; 2], first: *const u8, second: *const u8) -> u32;
    /// The exit for failures, after the last instruction that can fault.
    fn kinescope_nvidia_copy_end() -> u32;
}

/// Returns where a thread continues that faults at an instruction of the copy, or `None` for other instructions.
pub(crate) fn recovery_address(instruction: HostAddr) -> Option<HostAddr> {
    let first = HostAddr::new(kinescope_nvidia_copy as *const () as u64);
    let end = HostAddr::new(kinescope_nvidia_copy_end as *const () as u64);
    (first <= instruction && instruction < end).then_some(end)
}

/// Begins reads of what other agents wrote: no older streaming load serves their data. It is called once before the reads
/// of a submission.
pub(crate) fn begin_reads() {
    // SAFETY: a fence touches no memory.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

/// Copies bytes of the recorder to mapped memory. Returns `false` if some of the target is not accessible.
///
/// # Safety
/// `to` may be written for the length of `from`. A file mapping whose file lost these bytes is allowed.
pub(crate) unsafe fn copy_bytes_to(to: *mut u8, from: &[u8]) -> bool {
    // SAFETY: the caller owns the target, and a fault there ends the routine.
    unsafe { kinescope_nvidia_copy_cached(to, from.as_ptr(), from.len()) == 0 }
}

/// Copies from any address to memory that belongs to the recorder. Returns `false` if some of it is not readable; then
/// `to` may hold a part. The handler of faults must be installed.
///
/// # Safety
/// `to` may be written for `bytes` bytes. A file mapping whose file lost these bytes is allowed.
pub(crate) unsafe fn copy_to(to: *mut u8, from: HostAddr, bytes: usize) -> bool {
    // SAFETY: the caller owns the target, and a fault at the source ends the routine.
    unsafe { kinescope_nvidia_copy(to, from.pointer(), bytes) == 0 }
}

/// Fills `to` from any address; see [`copy_to`].
pub(crate) fn read_memory(from: HostAddr, to: &mut [u8]) -> bool {
    // SAFETY: the slice can be written.
    unsafe { copy_to(to.as_mut_ptr(), from, to.len()) }
}

/// Reads a number of 64 bits. An aligned one is read at once.
pub(crate) fn read_u64(from: HostAddr) -> Option<u64> {
    let mut bytes = [0; 8];
    read_memory(from, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Reads a number of 32 bits and one of 64 bits. Neither load waits for the other: the processor can have both on the bus
/// at once. In memory of write-combining type, the second load may be the earlier one.
pub(crate) fn read_u32_and_u64(first: HostAddr, second: HostAddr) -> Option<(u32, u64)> {
    let mut numbers = [0; 2];
    // SAFETY: the array can be written, and a fault at a source ends the routine.
    let result = unsafe { kinescope_nvidia_load_two(&raw mut numbers, first.pointer(), second.pointer()) };
    let [first, second] = numbers;
    (result == 0).then_some((first as u32, second))
}
