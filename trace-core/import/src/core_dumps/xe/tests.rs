//! Tests of dumps of xe. The dumps are made here, in the form of the kernel's printers.

use super::*;
use crate::core_dumps::ascii85::encode;
use crate::core_dumps::test_dumps::{assert_opens_cut, assert_used_whole, list_messages, open_text};
use trace_core::families::find_family;
use trace_core::memory::GpuMemoryView;

/// Returns a dump of a job whose batch buffer loads a register and starts another one.
fn dump() -> String {
    let batch = [0x1100_0001u32, 0x2580, 7, 0x1880_0001, 0x0030_0000, 0];
    let second = [0x7a00_0004u32, 0x10, 0, 0, 0, 0, 0x0500_0000, 0];
    format!(
        "**** Xe Device Coredump ****\nReason: Timedout job - seqno=4294967169, lrc_seqno=4294967169, guc_id=13, \
         flags=0x0\nkernel: 6.14.0-rc1\nmodule: xe\nSnapshot time: 1733250000.123456789\nUptime: 2155.998312\nProcess: \
         vkcube [4242]\nPCI ID: 0x9a49\nPCI revision: 0x01\nGT id: 0\n\tTile: 0\n\tType: main\n\
         \n**** GT #0 ****\n\tTile: 0\n\
         \n**** GuC Log ****\nGuC firmware: i915/tgl_guc_70.bin\n[LOG].length: 0x8\n[LOG].data: {}\n\
         \n**** GuC CT ****\nH2G CTB (all sizes in DW):\n\tsize: 1024\n[CTB].length: 0x4\n[CTB].data: {}\n\
         \n**** Contexts ****\nGuC ID: 13\n\tName: rcs13\n\tHW Context Desc: 0x00a02000\n\tHW Ring address: \
         0x009fe000\n\tLRC Head: (memory) 136\n\t[HWSP].length: 0x8\n\t[HWSP].data: {}\n\t[HWCTX].length: \
         0x4\n\t[HWCTX].data: {}\n\tSchedule State: 0x41\n\
         \n**** Job ****\nBatch buffers\nbatch_addr[0]: 0x0000000000200000\n\
         \n**** HW Engines ****\nrcs0 (physical), logical instance=0\n\tCapture_source: GuC\n\tReserved: no\n\tIPEHR: \
         0x7a000004\n\tRING_TAIL: 0x00000098\n\tACTHD: 0xffff800000200004\n\tSFC_DONE[0]: 0x00000000\n\
         \n**** VM state ****\nVM.uapi_flags: 0x1\n[200000].length: 0x18\n[200000].properties: \
         read_write|bo|mem_region=0x1|pat_index=0\n[200000].data: {}\n[300000].length: 0x20\n[300000].data: \
         {}\n[ffff800000400000].length: 0x1000\n[ffff800000400000].error: -14\n",
        encode(&[1, 2]),
        encode(&[3]),
        encode(&[4, 5]),
        encode(&[6]),
        encode(&batch),
        encode(&second),
    )
}

fn open(text: &str) -> Recording {
    open_text(text, fits)
}

fn marks(r: &Recording) -> Vec<&str> {
    r.events.marks.iter().map(String::as_str).collect()
}

#[test]
fn complete_dump_opens_with_registers_memory_and_commands() {
    let r = open(&dump());
    assert_eq!(find_family(&r).name(), "intel");
    assert_eq!(r.metadata.identity.gpu_name, "Intel 8086:9a49");
    assert_eq!(r.metadata.identity.when, "2024-12-03T18:20:00Z");
    assert_eq!(r.metadata.capture.as_ref().unwrap().command, ["vkcube [4242]"]);
    let accesses = |write| {
        let all = r.events.accesses(0..r.events.len()).map(|(_, a)| a);
        all.filter(|a| a.write == write)
            .map(|a| (a.offset.get(), a.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(accesses(true), [(0x2580, 7)]);
    assert_eq!(accesses(false), [(0x2068, 0x7a00_0004), (0x2030, 0x98)]);
    let heads: Vec<u64> = r.events.submits.iter().map(|s| s.head_va.get()).collect();
    assert_eq!(heads, [0x20_0000]);
    for expected in [
        "0x200000: MI_LOAD_REGISTER_IMM",
        "0x20000c: MI_BATCH_BUFFER_START: 0x300000",
        "0x300018: MI_BATCH_BUFFER_END",
        "engine rcs0: ACTHD = 0xffff800000200004",
        "context: GuC ID: 13",
        "GuC CT: size: 1024",
        "job: batch_addr[0]: 0x0000000000200000",
    ] {
        let is_there = marks(&r).contains(&expected);
        assert_eq!(
            is_there,
            !expected.ends_with("REGISTER_IMM"),
            "{expected}: {:?}",
            marks(&r)
        );
    }
    let view = |space: usize| GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[space]);
    assert_eq!(view(0).read_range(GpuVa::new(0x20_0008), 4).bytes, [7, 0, 0, 0]);
    assert_eq!(view(1).read_range(GpuVa::new(0xa0_2000), 4).bytes, [4, 0, 0, 0]);
    assert_eq!(view(1).read_range(GpuVa::new(0xa0_3000), 4).bytes, [6, 0, 0, 0]);
    assert_eq!(view(1).read_range(GpuVa::new(1 << 40), 4).bytes, [1, 0, 0, 0]);
    let errors = list_messages(&r, FindingKind::DriverError);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("the driver reported a hang in work of vkcube [4242]: Timedout job"),
        "{errors:?}"
    );
    assert_eq!(list_messages(&r, FindingKind::NotRecorded).len(), 1);
    assert_used_whole(&r);
}

#[test]
fn truncated_dump_opens_as_far_as_it_goes() {
    let whole = dump();
    assert_opens_cut(&whole, (40, 7), open);
}

#[test]
fn foreign_lines_before_a_dump_are_counted() {
    let r = open(&format!("# copied by hand\n\nfrom a machine\n{}", dump()));
    let unused = list_messages(&r, FindingKind::NotUsed);
    assert_eq!(unused, ["2 lines before the heading of the dump are not part of it"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, "no dump\n").unwrap();
    let e = import(&path, &Progress::new()).unwrap_err().to_string();
    assert!(e.contains("heading of a dump of xe"), "{e}");
}

#[test]
fn bad_ascii85_names_its_line_and_column() {
    let whole = dump();
    let line = whole.lines().position(|l| l.starts_with("[300000].data")).unwrap();
    let text = whole.lines().nth(line).unwrap();
    let r = open(&whole.replace(text, "[300000].data: zz{{{{{zz"));
    let place = format!("line {}", line + 1);
    let messages = r.metadata.findings.iter().find(|f| f.place == place).unwrap();
    assert!(
        messages.message.contains("column 3: the character '{' is no digit"),
        "{messages:?}"
    );
    // Fewer words than stated, and more.
    for (data, message) in [
        ("zz", "has 32 bytes, but the line holds 8"),
        (&*"z".repeat(9), "more than the 32 bytes"),
    ] {
        let r = open(&whole.replace(text, &format!("[300000].data: {data}")));
        let messages = list_messages(&r, FindingKind::TruncatedSection);
        assert!(messages.iter().any(|m| m.contains(message)), "{messages:?}");
    }
}

#[test]
fn unknown_parts_are_counted() {
    let r = open(&format!("{}\n**** Future ****\none: 1\ntwo: 2\n", dump()));
    let unused = list_messages(&r, FindingKind::NotUsed);
    assert_eq!(unused, ["3 × lines of the unknown part Future: not used"]);
}

#[test]
fn dump_of_an_old_kernel_opens() {
    let r = open(
        "**** Xe Device Coredump ****\nkernel: 6.5.0\nmodule: xe\nSnapshot time: 1733250000.1\nUptime: 1.0\n\n**** GuC CT \
         ****\n\n**** HW Engines ****\nrcs0 (physical), logical instance=0\n\tForcewake: domain 0x1, ref 1\n\tMMIO base: \
         0x00002000\n\tRING_HEAD: 0x00000010\n",
    );
    let read = r.events.accesses(0..r.events.len()).next().unwrap().1;
    assert_eq!((read.offset.get(), read.value), (0x2034, 0x10));
}
