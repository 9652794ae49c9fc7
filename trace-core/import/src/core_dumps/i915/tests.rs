//! Tests of error states of i915. The states are made here, in the form of the kernel's `i915_gpu_error.c`.

use super::*;
use crate::core_dumps::ascii85::encode;
use crate::core_dumps::test_dumps::{assert_opens_cut, list_messages, open_text};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;
use trace_core::families::find_family;
use trace_core::memory::GpuMemoryView;

fn compressed(words: &[u32]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    encoder.write_all(&bytes).unwrap();
    let mut packed = encoder.finish().unwrap();
    packed.resize(packed.len().next_multiple_of(4), 0);
    let words: Vec<u32> = packed
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    encode(&words)
}

fn state() -> String {
    let mut batch = vec![0x1100_0001u32, 0x2580, 7, 0x7a00_0004, 0, 0, 0, 0, 0, 0x0500_0000];
    batch.resize(1024, 0);
    format!(
        "GPU HANG: ecode 9:1:85dffffb, in glxgears [1234]\nKernel: 5.4.0-42-generic x86_64\nDriver: 20190822\nTime: \
         1596000000 s 123456 us\nActive process (on ring rcs0): glxgears [1234]\nPlatform: SKYLAKE\nPCI ID: 0x1912\nEIR: \
         0x00000000\n  fence[0] = 00000000\nrcs0 command stream:\n  START: 0x00001000\n  HEAD:  0x00000100 \
         [0x00000080]\n  ACTHD: 0x00000000 01000004\n  MODE: 0x00000200\n  IPEHR: 0x7a000004\nrcs0 --- batch = 0x00000000 \
         01000000\n:{}\nrcs0 --- ring = 0x00000000_00001000\n~{}\n",
        compressed(&batch),
        encode(&[1, 2, 0])
    )
}

fn open(text: &str) -> Recording {
    open_text(text, fits)
}

#[test]
fn complete_state_opens_with_registers_memory_and_commands() {
    let r = open(&state());
    assert_eq!(find_family(&r).name(), "intel");
    assert_eq!(r.metadata.identity.gpu_name, "Intel 8086:1912");
    assert_eq!(r.metadata.identity.when, "2020-07-29T05:20:00Z");
    assert_eq!(r.metadata.capture.as_ref().unwrap().command, ["glxgears [1234]"]);
    let accesses: Vec<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| (a.write, a.offset.get(), a.value))
        .collect();
    let expected = [
        (true, 0x2580, 7),
        (false, 0x2038, 0x1000),
        (false, 0x2034, 0x100),
        (false, 0x209c, 0x200),
        (false, 0x2068, 0x7a00_0004),
    ];
    assert_eq!(accesses, expected);
    let marks: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
    assert!(marks.contains(&"engine rcs0: ACTHD: 0x00000000 01000004"), "{marks:?}");
    assert!(marks.contains(&"0x1000024: MI_BATCH_BUFFER_END"), "{marks:?}");
    let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
    assert_eq!(view.read_range(GpuVa::new(0x100_0008), 1).bytes, [7]);
    assert_eq!(view.read_range(GpuVa::new(0x1004), 1).bytes, [2]);
    let errors = list_messages(&r, FindingKind::DriverError);
    assert_eq!(
        errors,
        ["the driver reported a hang: ecode 9:1:85dffffb, in glxgears [1234]"]
    );
    assert!(
        list_messages(&r, FindingKind::NotUsed).is_empty()
            && list_messages(&r, FindingKind::TruncatedSection).is_empty()
    );
}

#[test]
fn truncated_state_opens_as_far_as_it_goes() {
    let whole = state();
    assert_opens_cut(&whole, (20, 9), open);
}

#[test]
fn bad_data_and_foreign_lines_are_reported() {
    let text = format!("$ cat error\n{}", state()).replace("\n~", "\n~z{{{");
    let r = open(&text);
    let messages = list_messages(&r, FindingKind::TruncatedSection);
    assert!(
        messages[0].contains("column 2: the character '{' is no digit of ascii85; the 4 bytes"),
        "{messages:?}"
    );
    let unused = list_messages(&r, FindingKind::NotUsed);
    assert_eq!(unused, ["1 lines before the heading of the dump are not part of it"]);
    // Data that is no zlib stream, data without a buffer, and a buffer without data.
    let r = open(
        "GPU HANG: ecode 9:1:1\n~zz\nrcs0 --- batch = 0x00000000 00001000\n:zzzz\nrcs0 --- ring = 0x0 1000\nrcs0 --- what\n",
    );
    assert!(
        list_messages(&r, FindingKind::NotUsed).len() == 2,
        "{:?}",
        r.metadata.findings
    );
    assert!(
        list_messages(&r, FindingKind::TruncatedSection).len() == 2,
        "{:?}",
        r.metadata.findings
    );
}
