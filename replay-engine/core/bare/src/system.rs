//! The four system calls and the start of the program.
#![allow(
    unsafe_code,
    reason = "without a C library somebody has to make the system calls, take the arguments off the stack and give the \
              compiler its memory functions; the executor and the device are safe code"
)]

use core::arch::{asm, global_asm};

const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const EXIT: usize = 60;

/// Most bytes of a body.
const ROOM: usize = 4 << 20;

static mut BODY: [u8; ROOM] = [0; ROOM];

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
    // SAFETY: the kernel put argc and argc + 1 pointers at `stack`.
    let path = unsafe {
        if *stack >= 2 {
            Some(*stack.add(2) as *const u8)
        } else {
            None
        }
    };
    exit(crate::program::run(path))
}

/// A system call with three arguments.
fn call(number: usize, a: usize, b: usize, c: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention; it clobbers rcx and r11 only. The callers pass memory that is theirs.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn exit(code: u8) -> ! {
    call(EXIT, usize::from(code), 0, 0);
    // Not reached: the call above does not come back.
    loop {
        core::hint::spin_loop();
    }
}

/// The bytes of the file at `path`, or of the standard input.
pub fn input(path: Option<*const u8>) -> Option<&'static [u8]> {
    let file = match path {
        Some(p) => usize::try_from(call(OPEN, p as usize, 0, 0)).ok()?,
        None => 0,
    };
    // SAFETY: called once, from the only thread; nothing else names BODY.
    let room: &'static mut [u8] = unsafe { &mut *(&raw mut BODY) };
    let mut used = 0;
    loop {
        let free = room.get_mut(used..).filter(|f| !f.is_empty())?;
        match usize::try_from(call(READ, file, free.as_mut_ptr() as usize, free.len())) {
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

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self {
            bytes: [0; 128],
            used: 0,
        }
    }

    /// Adds text; what does not fit is cut.
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
        call(WRITE, 1, bytes.as_ptr() as usize, bytes.len());
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
