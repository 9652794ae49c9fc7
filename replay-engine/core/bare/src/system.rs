//! System calls, the start of a program, and lines of text, without a C library.
#![allow(
    unsafe_code,
    reason = "without a C library somebody has to make the system calls, take the arguments off the stack and give the \
              compiler its memory functions; the programs are safe code"
)]

use core::arch::{asm, global_asm};
use core::ffi::{CStr, c_char};
use core::ptr::NonNull;

/// Numbers of system calls on x86-64.
mod number {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const OPEN: usize = 2;
    pub const CLOSE: usize = 3;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const IOCTL: usize = 16;
    pub const EXIT: usize = 60;
    pub const CLOCK_GETTIME: usize = 228;
}

/// Memory is readable, writable.
const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;

/// Maximum number of bytes of an input.
const MAX_INPUT_BYTES: usize = 4 << 20;

static mut INPUT: [u8; MAX_INPUT_BYTES] = [0; MAX_INPUT_BYTES];

// The kernel starts a program with argc at the top of the stack and argv above it.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

extern "C" fn start(stack: *const usize) -> ! {
    unsafe extern "Rust" {
        /// The program, defined by [`crate::entry`].
        fn kinescope_bare_main(path: Option<&'static CStr>) -> u8;
    }
    // SAFETY: the kernel put argc and argc + 1 pointers to strings at `stack`; the strings stay until the end.
    let path = unsafe {
        match *stack >= 2 {
            true => Some(CStr::from_ptr(*stack.add(2) as *const c_char)),
            false => None,
        }
    };
    // SAFETY: `entry` defines it with this signature.
    exit(unsafe { kinescope_bare_main(path) })
}

/// Makes a system call.
fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel's calling convention; it clobbers rcx and r11 only. The callers pass memory that is theirs.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn call3(number: usize, a: usize, b: usize, c: usize) -> isize {
    call(number, [a, b, c, 0, 0, 0])
}

fn exit(code: u8) -> ! {
    call3(number::EXIT, usize::from(code), 0, 0);
    // Not reached: the call above does not come back.
    loop {
        core::hint::spin_loop();
    }
}

/// Returns the result of a system call, or the error number.
fn checked(result: isize) -> Result<usize, i32> {
    usize::try_from(result).map_err(|_| -result as i32)
}

/// Opens a file with the flags of the system call.
///
/// # Errors
/// The error of the operating system.
pub fn open(path: &CStr, flags: usize) -> Result<i32, i32> {
    checked(call3(number::OPEN, path.as_ptr() as usize, flags, 0)).map(|fd| fd as i32)
}

/// Closes a file.
pub fn close(fd: i32) {
    call3(number::CLOSE, fd as usize, 0, 0);
}

/// Makes an ioctl.
///
/// # Errors
/// The error of the operating system.
///
/// # Safety
/// The driver reads and writes the argument, and memory that pointers in it name.
pub unsafe fn ioctl(fd: i32, request: u32, argument: &mut [u8]) -> Result<(), i32> {
    checked(call3(
        number::IOCTL,
        fd as usize,
        request as usize,
        argument.as_mut_ptr() as usize,
    ))
    .map(|_| ())
}

/// Maps the start of a file, shared, for reading and writing.
///
/// # Errors
/// The error of the operating system.
pub fn map_shared(fd: i32, bytes: usize) -> Result<NonNull<u8>, i32> {
    let at = checked(call(
        number::MMAP,
        [0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd as usize, 0],
    ))?;
    NonNull::new(at as *mut u8).ok_or(0)
}

/// Removes a mapping.
///
/// # Safety
/// Nothing uses the memory afterwards.
pub unsafe fn unmap(at: NonNull<u8>, bytes: usize) {
    call3(number::MUNMAP, at.as_ptr() as usize, bytes, 0);
}

/// Returns nanoseconds of a clock that never goes back.
#[must_use]
pub fn now_ns() -> u64 {
    const MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    call3(number::CLOCK_GETTIME, MONOTONIC, time.as_mut_ptr() as usize, 0);
    let [seconds, nanoseconds] = time;
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
}

/// Writes bytes to the standard output. Returns whether all are written.
pub fn write_output(bytes: &[u8]) -> bool {
    write(1, bytes)
}

/// Writes bytes to the standard error. Returns whether all are written.
pub fn write_error(bytes: &[u8]) -> bool {
    write(2, bytes)
}

fn write(fd: usize, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = checked(call3(number::WRITE, fd, rest.as_ptr() as usize, rest.len())).unwrap_or(0);
        match rest.get(written..) {
            Some(behind) if written > 0 => rest = behind,
            _ => return false,
        }
    }
    true
}

/// Maps the file at a path into memory, until the program ends.
#[must_use]
pub fn map_file(path: &CStr) -> Option<&'static [u8]> {
    const END: usize = 2;
    let fd = open(path, 0).ok()?;
    let bytes = checked(call3(number::LSEEK, fd as usize, 0, END)).ok()?;
    let at = checked(call(number::MMAP, [0, bytes, PROT_READ, MAP_PRIVATE, fd as usize, 0])).ok()?;
    // SAFETY: the kernel mapped the file at `at`. A file that shrinks ends the program.
    Some(unsafe { core::slice::from_raw_parts(at as *const u8, bytes) })
}

/// Returns the bytes of the file at `path`, or of the standard input. A program calls it once.
#[must_use]
pub fn input(path: Option<&CStr>) -> Option<&'static [u8]> {
    let file = match path {
        Some(path) => open(path, 0).ok()? as usize,
        None => 0,
    };
    // SAFETY: called once, from the only thread; nothing else names INPUT.
    let room: &'static mut [u8] = unsafe { &mut *(&raw mut INPUT) };
    let mut used = 0;
    loop {
        let free = room.get_mut(used..).filter(|f| !f.is_empty())?;
        match usize::try_from(call3(number::READ, file, free.as_mut_ptr() as usize, free.len())) {
            Ok(0) => return room.get(..used),
            Ok(n) => used += n,
            Err(_) => return None,
        }
    }
}

/// A line of text on its way out.
pub struct Line {
    bytes: [u8; 128],
    used: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    /// Returns an empty line.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: [0; 128],
            used: 0,
        }
    }

    /// Adds text; what does not fit is cut.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        for b in text.as_bytes() {
            if let Some(slot) = self.bytes.get_mut(self.used) {
                *slot = *b;
                self.used += 1;
            }
        }
        self
    }

    /// Adds a number in decimal.
    #[must_use]
    pub fn number(self, mut n: u64) -> Self {
        let mut digits = [0u8; 20];
        let mut first = digits.len();
        for (at, slot) in digits.iter_mut().enumerate().rev() {
            *slot = b'0' + (n % 10) as u8;
            first = at;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        match digits.get(first..).map(core::str::from_utf8) {
            Some(Ok(text)) => self.text(text),
            _ => self,
        }
    }

    /// Writes the line.
    pub fn end(self) {
        let line = self.text("\n");
        let bytes = line.bytes.get(..line.used).unwrap_or(&[]);
        write_output(bytes);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(101)
}

// What the compiler calls where it copies, fills or compares memory. String instructions, because a loop would be
// turned back into a call of the same function.

/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller gives two ranges of `n` bytes; the direction flag is clear by the ABI.
    unsafe { asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack)) }
    to
}

/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller gives a range of `n` bytes; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8, options(nostack));
    }
    to
}

/// # Safety
/// As C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut differs: u8;
    // SAFETY: the caller gives two ranges of `n` bytes; the direction flag is clear by the ABI.
    unsafe {
        // A comparison of no bytes leaves the flags as `cmp` sets them: equal.
        asm!("cmp eax, eax", "repe cmpsb", "setne {d}", d = out(reg_byte) differs, inout("rcx") n => _,
             inout("rsi") a => _, inout("rdi") b => _, options(nostack));
    }
    i32::from(differs)
}
