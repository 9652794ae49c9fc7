//! Tests of dumps of amdgpu. The dumps are made here, in the form of the kernel's `amdgpu_dev_coredump.c`.

use super::*;
use crate::core_dumps::test_dumps::{assert_opens_cut, assert_used_whole, list_messages, open_text};
use std::fmt::Write as _;
use trace_core::GpuVa;
use trace_core::families::find_family;
use trace_core::memory::GpuMemoryView;

/// Returns a dump whose graphics ring leads to an indirect buffer.
fn dump() -> String {
    let mut text = String::from(
        "**** AMDGPU Device Coredump ****\nversion: 1\nkernel: 6.19.8\nmodule: amdgpu\ntime: \
         3054.167340782\nprocess_name: vkcube PID: 4242\n\nSOC Information\nSOC Device id: 30096\nSOC Family: 152\n\nHW IP \
         Version Information\nHWIP: GC[1][0]: v12.0.0.0.0\n\nIP Firmwares\nME feature version: 1, fw version: \
         0x00000001\n\nVBIOS Information\nvbios name       : a name\n\nRing timed out details\nIP Type: 0 Ring Name: \
         gfx_0.0.0\n\n[gfxhub] Page fault observed\nFaulty page starting at address: 0x0000000000001000\nProtection fault \
         status register: 0x301031\n\nIP Dump\nIP: gfx_v12_0\nregGRBM_STATUS                                     \t \
         0x00003028\n\nRing buffer information\nring name: gfx_0.0.0\nRptr: 0x10e Wptr: 0x103 RB mask: f\nRing size in \
         dwords: 16\nRing contents\nOffset \t Value\n",
    );
    // Three words before the end, and the rest of the packet after it.
    let mut ring = [0xffff_1000u32; 16];
    ring[14] = 0xc002_3f00;
    ring[15] = 0x0080_0000;
    ring[0] = 1;
    ring[1] = 4;
    for (n, word) in ring.iter().enumerate() {
        writeln!(text, "{:#x} \t {word:#x}", n * 4).unwrap();
    }
    text.push_str("ring name: sdma0\nRptr: 0x0 Wptr: 0x1 RB mask: 3\nRing size in dwords: 2\nRing contents\nOffset \t Value\n0x0 \t 0x1\n0x4 \t 0x2\n");
    text.push_str("VRAM is lost due to GPU reset!\n\nIB #0 0x100800000 4 dw\n");
    for word in [0xc001_7600u32, 0x20c, 7, 0xffff_1000] {
        writeln!(text, "{word:#010x}").unwrap();
    }
    text
}

fn open(text: &str) -> Recording {
    open_text(text, fits)
}

#[test]
fn complete_dump_opens_with_memory_and_commands() {
    let r = open(&dump());
    assert_eq!(find_family(&r).name(), "amdgpu");
    assert_eq!(r.metadata.identity.gpu_name, "AMD 1002:7590");
    assert_eq!(r.metadata.identity.driver, "amdgpu, Linux 6.19.8");
    let writes: Vec<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| (a.offset.get(), a.value))
        .collect();
    assert_eq!(writes, [(0xb830, 7)]);
    let heads: Vec<u64> = r.events.submits.iter().map(|s| s.head_va.get()).collect();
    assert_eq!(heads, [(1 << 32) + 14 * 4]);
    let marks: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
    for expected in [
        "gfx_v12_0: regGRBM_STATUS 0x00003028",
        "0x100000038: INDIRECT_BUFFER: 0x800000, 0x1, 0x4",
        "ring gfx_0.0.0, read pointer 0x10e, write pointer 0x103, 16 words",
        "ring sdma0: 1 words are not decoded",
        "VRAM is lost due to GPU reset!",
        "time: 3054.167340782",
    ] {
        assert!(marks.contains(&expected), "{expected}: {marks:?}");
    }
    let errors = list_messages(&r, FindingKind::DriverError);
    assert!(
        errors
            .iter()
            .any(|m| m.contains("in work of vkcube PID: 4242: a ring timed out")),
        "{errors:?}"
    );
    assert!(
        errors
            .iter()
            .any(|m| m.starts_with("a page fault of the GPU: [gfxhub]")),
        "{errors:?}"
    );
    let view = |space: usize| GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[space]);
    assert_eq!(view(0).read_range(GpuVa::new(0x1_0080_0008), 4).bytes, [7, 0, 0, 0]);
    assert_eq!(view(1).read_range(GpuVa::new(2 << 32), 4).bytes, [1, 0, 0, 0]);
    assert_used_whole(&r);
}

#[test]
fn truncated_dump_opens_as_far_as_it_goes() {
    let whole = dump();
    assert_opens_cut(&whole, (40, 11), open);
    let r = open(whole.strip_suffix("0xffff1000\n").unwrap());
    let messages = list_messages(&r, FindingKind::TruncatedSection);
    assert_eq!(messages, ["indirect buffer 0 has 4 words, but only 3 are in the dump"]);
}

#[test]
fn foreign_and_unknown_lines_are_counted() {
    let text = format!("a line before\n{}", dump()).replace("0x4 \t 0x2\n", "0x4 \t 0x2\nwhat is this\n0x20 \t 0x1\n");
    let r = open(&text);
    let unused = list_messages(&r, FindingKind::NotUsed);
    assert!(
        unused.contains(&"1 lines before the heading of the dump are not part of it"),
        "{unused:?}"
    );
    let expected = "2 × lines of rings and indirect buffers that are no word: not used";
    assert!(unused.contains(&expected), "{unused:?}");
}

#[test]
fn registers_of_older_kernels_become_reads() {
    let r = open(
        "**** AMDGPU Device Coredump ****\nkernel: 6.5.0\nmodule: amdgpu\ntime: 1.5\nVRAM is lost due to GPU \
         reset!\nAMDGPU register dumps:\nOffset:     Value:\n0x00000d84: 0x00003028\n0x00000d85: 0x00000001\n",
    );
    let reads: Vec<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| (a.offset.get(), a.value))
        .collect();
    assert_eq!(reads, [(0x3610, 0x3028), (0x3614, 1)]);
    assert!(list_messages(&r, FindingKind::NotUsed).is_empty());
}

#[test]
fn hostile_numbers_take_no_memory() {
    let r = open(
        "**** AMDGPU Device Coredump ****\nRing buffer information\nring name: gfx\nRptr: 0xffffffffffffffff Wptr: \
         0xfffffffffffffffe RB mask: f\nRing size in dwords: 18446744073709551615\n0x0 \t 0x1\n0x4 \t 0x2\nIB #4294967295 \
         0xffffffffffffffff 18446744073709551615 dw\n0x1\nIB #what\n0x1\n",
    );
    assert!(list_messages(&r, FindingKind::TruncatedSection).len() >= 2);
    assert!(
        list_messages(&r, FindingKind::NotUsed).len() >= 2,
        "{:?}",
        r.metadata.findings
    );
}
