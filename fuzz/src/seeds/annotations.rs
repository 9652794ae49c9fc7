//! Seeds of the annotations of a program.

use super::seed::Add;
use trace_core::GpuVa;
use trace_core::recording::{BufferName, BufferShape};

/// Bytes of calls, as the target numbers them.
const BEGIN: u8 = 0;
const END: u8 = 1;
const NAME: u8 = 2;
const NOTE: u8 = 3;

fn call(out: &mut Vec<u8>, name: u8, thread: u8, arguments: &[u8]) {
    out.extend([name, thread]);
    out.extend((arguments.len() as u16).to_le_bytes());
    out.extend(arguments);
}

fn memory(name: &str, at: u64, bytes: u64, form: &str) -> Vec<u8> {
    let form = BufferShape::parse(form);
    let (name, at) = (name.to_owned(), GpuVa::new(at));
    BufferName { name, at, bytes, form }.encode()
}

pub fn add(add: Add<'_>) {
    let mut ranges = Vec::new();
    call(&mut ranges, BEGIN, 1, b"step");
    call(&mut ranges, BEGIN, 1, b"forward");
    call(&mut ranges, BEGIN, 2, "gr\u{f6}\u{df}e".as_bytes());
    call(&mut ranges, END, 1, b"");
    call(&mut ranges, BEGIN, 1, b"");
    call(&mut ranges, BEGIN, 1, b"backward");
    call(&mut ranges, NOTE, 1, b"a note");
    call(&mut ranges, END, 2, b"");
    call(&mut ranges, END, 1, b"");
    add("annotations", "ranges", ranges);

    let mut names = Vec::new();
    call(&mut names, NAME, 1, &memory("x", 0x1000, 40, "f32:1x10"));
    call(&mut names, NAME, 1, &memory("logits", 0x1000, 40, "u8"));
    call(&mut names, NAME, 1, &memory("x", 0x2000, 4, ""));
    call(&mut names, NAME, 1, &memory("in0", 0x3000, 4, ""));
    call(&mut names, NAME | 0x80, 1, &memory("failed", 0x3000, 4, ""));
    call(&mut names, NAME, 1, &memory("x", 0x1000, 40, ""));
    // The arguments of the first call again.
    names.extend([NAME | 0x40, 1, 25, 0, 0, 0]);
    add("annotations", "names", names);

    let mut deep = Vec::new();
    for n in 0..80u8 {
        call(&mut deep, BEGIN, n % 3, &[b'a' + n % 26]);
    }
    for n in 0..100u8 {
        call(&mut deep, END, n % 3, b"");
    }
    add("annotations", "deep", deep);
}
