//! Tests of dumps of msm. The dumps are made here, in the form of the kernel's `adreno_show` and `a6xx_show`.

use super::*;
use crate::core_dumps::ascii85::encode;
use std::fmt::Write as _;
use trace_core::GpuVa;
use trace_core::finding::Finding;
use trace_core::memory::GpuMemoryView;
use trace_core::recording::EventKind;
use trace_core::registers::RegisterMap;

/// Returns headers of packets with their parity bits.
fn type4(register: u32, count: u32) -> u32 {
    let odd = |b: u32| u32::from(b.count_ones().is_multiple_of(2));
    4 << 28 | odd(register) << 27 | register << 8 | odd(count) << 7 | count
}

fn type7(opcode: u32, count: u32) -> u32 {
    let odd = |b: u32| u32::from(b.count_ones().is_multiple_of(2));
    7 << 28 | odd(opcode) << 23 | opcode << 16 | odd(count) << 15 | count
}

const INDIRECT_BUFFER: u32 = 0x3f;
/// The kernel has its rings at addresses of 49 bits: these are the lower 48.
const RING: u64 = 0x1000;
const KERNEL_BIT: u64 = 1 << 48;
const COMMANDS: u64 = 0x1_0010_0000;

/// Returns a dump of an Adreno 630 that hangs in the commands of a buffer.
fn dump() -> String {
    let mut ring = vec![0u32; 1020];
    // The ring begins again inside of a packet.
    ring.extend([type4(0x10, 1), 7, type7(INDIRECT_BUFFER, 3), COMMANDS as u32]);
    ring.splice(0..2, [(COMMANDS >> 32) as u32, 4]);
    let commands = [type4(0x8800, 2), 11, 12, type4(0x30, 1), 13];
    let mut text = String::from(
        "---\nkernel: 6.10.3\nmodule: msm\ntime: 1712000000.123456789\ncomm: glxgears\ncmdline: glxgears -info\n\
         gpu-initialized: 1\nrevision: 630 (6.3.0.1)\n\
         fault-info:\n  - ttbr0=0000000107f5e000\n  - iova=0000000000001000\n  - dir=READ\n  - type=TRANSLATION\n  \
         - source=CP\n\
         pgtable-fault-info:\n  - ttbr0: 0000000107f5e000\n  - asid: 1\n  - ptes: 1 2 3 4\n\
         vm-log:\n  - map:0: 0x0000000100000000-0x0000000100001000\n\
         rbbm-status: 0x00c00001\nringbuffer:\n",
    );
    write!(
        text,
        "  - id: 0\n    iova: {:#018x}\n    last-fence: 42\n    retired-fence: 41\n    rptr: 1022\n    wptr: 2\n    \
         size: 4096\n    data: !!ascii85 |\n     {}\n",
        KERNEL_BIT | RING,
        encode(&ring)
    )
    .unwrap();
    write!(
        text,
        "  - id: 1\n    iova: 0x0000000100008000\n    last-fence: -1\n    retired-fence: -1\n    rptr: 0\n    wptr: 0\n    \
         size: 4096\n\
         bos:\n  - iova: {COMMANDS:#018x}\n    size: 8192\n    flags: 0x3\n    name: cmdstream                       \n    \
         data: !!ascii85 |\n     {}\n  - iova: 0x0000000100200000\n    size: 65536\n    flags: 0x1\n    name:\n\
         gmu-log:\n    iova: 0x0000000060000000\n    size: 4096\n    data: !!ascii85 |\n     {}\n\
         gmu-hfi:\n    iova: 0x0000000060004000\n    size: 4096\n    queue-history[0]: 1 2 3 4 5 6 7 8\n\
         registers:\n  - {{ offset: 0x000840, value: 0x00000004 }}\n  - {{ offset: 0x0024a0, value: 0x00100000 }}\n  \
         - {{ offset: 0x0024a4, value: 0x00000001 }}\n\
         registers-gmu:\n  - {{ offset: 0x07e200, value: 0x00000004 }}\n\
         indexed-registers:\n  - regs-name: CP_SQE_STAT\n    dwords: 4\n    data: !!ascii85 |\n      {}\n\
         shader-blocks:\n  - type: A6XX_TP0_TMO_DATA\n    - bank: 0\n      size: 2\n    data: !!ascii85 |\n      {}\n    \
         - bank: 1\n      size: 2\n\
         clusters:\n  - cluster-name: CLUSTER_GRAS\n    - context: 0\n      - {{ offset: 0x020000, value: 0x00000001 }}\n    \
         - context: 1\n      - {{ offset: 0x020000, value: 0x00000002 }}\n\
         debugbus:\n  - debugbus-block: A6XX_DBGBUS_CP\n    count: 4\n    data: !!ascii85 |\n      {}\n",
        encode(&commands),
        encode(&[0x6c6f_6721]),
        encode(&[0x11, 0x22]),
        encode(&[5, 6]),
        encode(&[9]),
    )
    .unwrap();
    text
}

fn read(text: &[u8]) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, text).unwrap();
    import(&path, &Progress::new())
}

fn open(text: &str) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, text).unwrap();
    assert!(fits(&path), "{text}");
    let opened = crate::open(&path, &crate::OpenOptions::default(), &Progress::new());
    opened.and_then(crate::Opened::into_recording).unwrap()
}

fn of_kind(r: &Recording, kind: FindingKind) -> Vec<&Finding> {
    r.metadata.findings.iter().filter(|f| f.kind == kind).collect()
}

fn accesses(r: &Recording, write: bool) -> Vec<(u8, u32, u64)> {
    let all = r.events.accesses(0..r.events.len()).map(|(_, a)| a);
    all.filter(|a| a.write == write)
        .map(|a| (a.space, a.offset.get(), a.value))
        .collect()
}

#[test]
fn complete_dump_opens_with_registers_memory_and_commands() {
    let r = open(&dump());
    let identity = &r.metadata.identity;
    assert_eq!(
        (identity.gpu_id, identity.gpu_name.as_str()),
        (0x0603_0001, "Adreno 630")
    );
    assert_eq!(identity.when, "2024-04-01T19:33:20Z");
    let capture = r.metadata.capture.as_ref().unwrap();
    assert_eq!(
        (capture.kernel.as_str(), &capture.command[..]),
        ("6.10.3", &["glxgears -info".to_owned()][..])
    );
    // The job of the ring: the packet before the read pointer, and the indirect buffer with four of its words.
    assert_eq!(
        r.events
            .submits
            .iter()
            .map(|s| (s.head_va.get(), s.slot))
            .collect::<Vec<_>>(),
        [(RING + 1020 * 4, 0)]
    );
    assert_eq!(accesses(&r, true), [(0, 0x40, 7), (0, 0x2_2000, 11), (0, 0x2_2004, 12)]);
    // Reads: the registers, those of the management unit, blocks of words, and both contexts of a cluster.
    let names: Vec<&str> = r.metadata.spaces.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["gpu", "gmu", "indexed-registers", "shader-blocks", "debugbus"]);
    assert_eq!(
        accesses(&r, false),
        [
            (0, 0x840, 4),
            (0, 0x24a0, 0x10_0000),
            (0, 0x24a4, 1),
            (1, 0x7_e200, 4),
            (2, 0, 0x11),
            (2, 4, 0x22),
            (3, 0, 5),
            (3, 4, 6),
            (0, 0x2_0000, 1),
            (0, 0x2_0000, 2),
            (4, 0, 9)
        ]
    );
    assert_eq!(RegisterMap::for_recording(&r).unwrap().name(), "adreno-a6xx");
    let marks: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
    for expected in [
        "comm: glxgears",
        "fault-info: type=TRANSLATION",
        "vm-log: map:0: 0x0000000100000000-0x0000000100001000",
        "command processor: IB1 at 0x100100000",
        "cluster-name CLUSTER_GRAS, context 1",
        "type A6XX_TP0_TMO_DATA, bank 0: 8 of 8 bytes, at 0x0 of shader-blocks",
    ] {
        assert!(marks.contains(&expected), "{expected}: {marks:?}");
    }
    let errors = of_kind(&r, FindingKind::DriverError);
    assert!(
        errors.iter().any(|f| f.message.contains("of glxgears: ring 0")),
        "{errors:?}"
    );
    assert!(
        errors.iter().any(|f| f
            .message
            .ends_with("source=CP; the address is in no buffer of the dump")),
        "{errors:?}"
    );
    assert!(
        of_kind(&r, FindingKind::NotUsed).is_empty(),
        "{:?}",
        r.metadata.findings
    );
    assert!(of_kind(&r, FindingKind::TruncatedSection).is_empty());
}

#[test]
fn memory_has_its_addresses_and_its_zeros() {
    let r = open(&dump());
    let view = |space: usize| GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[space]);
    let [gpu, kernel, gmu] = [view(0), view(1), view(2)];
    let word = |at: u64| gpu.read_range(GpuVa::new(at), 4).bytes;
    assert_eq!(word(COMMANDS + 4), 11u32.to_le_bytes());
    assert_eq!(word(COMMANDS + 8188), [0; 4], "the driver leaves zeros at the end out");
    let ring = kernel.read_range(GpuVa::new(RING + 1020 * 4), 4).bytes;
    assert_eq!(ring, type4(0x10, 1).to_le_bytes());
    assert_eq!(gmu.read_range(GpuVa::new(0x6000_0000), 4).bytes, b"!gol");
    let buffers: Vec<(&str, u64)> = r.metadata.buffers.iter().map(|b| (b.name.as_str(), b.bytes)).collect();
    assert_eq!(buffers, [("ring 0", 4096), ("cmdstream", 8192), ("gmu-log", 4096)]);
    let empty = r.metadata.regions.iter().filter(|g| !g.has_content).count();
    assert_eq!(empty, 3, "a ring, a buffer and the queues without data");
}

#[test]
fn truncated_dump_opens_as_far_as_it_goes() {
    let whole = dump();
    for cut in (40..whole.len()).step_by(11) {
        let part = whole.get(..cut).unwrap();
        let r = read(part.as_bytes()).unwrap();
        let is_line = part.ends_with('\n');
        let messages = of_kind(&r, FindingKind::TruncatedSection);
        assert!(is_line || !messages.is_empty(), "{cut}: {:?}", r.metadata.findings);
        assert!(trace_core::container::to_bytes(&r).is_ok());
    }
}

#[test]
fn foreign_lines_before_a_dump_are_counted() {
    let text = format!(
        "$ cat /sys/class/devcoredump/devcd1/data\r\nsome words\n{}",
        dump().replace('\n', "\r\n")
    );
    let r = open(&text);
    assert_eq!(accesses(&r, true).len(), 3);
    let messages = of_kind(&r, FindingKind::NotUsed);
    assert!(
        messages.iter().any(|f| f.message.starts_with("2 lines before")),
        "{messages:?}"
    );
    let e = read(b"nothing of a dump\n").unwrap_err().to_string();
    assert!(e.contains("`module: msm` is missing"), "{e}");
}

#[test]
fn bad_ascii85_names_its_line_and_column() {
    let whole = dump();
    let data = whole
        .lines()
        .position(|l| l.starts_with("     ") && !l.contains(':'))
        .unwrap();
    let line = whole.lines().nth(data).unwrap();
    let changed = whole.replacen(line, &format!("{}~{}", &line[..1000], &line[1001..]), 1);
    let r = open(&changed);
    let messages = of_kind(&r, FindingKind::TruncatedSection);
    let place = format!("line {}", data + 1);
    assert!(
        messages
            .iter()
            .any(|f| f.place == place && f.message.contains("the character '~' is no digit")),
        "{messages:?}"
    );
    // What follows the error is not zero: it is unknown.
    let ring = r.metadata.buffers.iter().find(|b| b.name == "ring 0").unwrap();
    assert!(ring.bytes < 4096);
}

#[test]
fn unknown_sections_and_lines_are_counted() {
    let text = format!("{}new-section:\n  - one: 1\n  - two: 2\nno key at all\n", dump());
    let text = text.replace("  - { offset: 0x000840", "  - { offset: what }\n  - { offset: 0x000840");
    let r = open(&text);
    let messages: Vec<&str> = of_kind(&r, FindingKind::NotUsed)
        .iter()
        .map(|f| f.message.as_str())
        .collect();
    for expected in [
        "3 × lines of the unknown section new-section: not used",
        "1 × lines that are no part of a dump: not used",
        "1 × lines in a list of registers that are no register: not used",
    ] {
        assert!(messages.contains(&expected), "{expected}: {messages:?}");
    }
}

#[test]
fn huge_numbers_take_no_memory() {
    let text = "kernel: 1\nmodule: msm\nrevision: 630 (6.3.0.1)\nringbuffer:\n  - id: 9\n    iova: 0xffffffffffff0000\n    \
                last-fence: 1\n    retired-fence: 0\n    rptr: 4000000000\n    wptr: 1\n    size: 18446744073709551615\n    \
                data: !!ascii85 |\n     zzzz\nbos:\n  - iova: 0x1000\n    size: 281474976700000\n    data: !!ascii85 |\n     z\n";
    let r = open(text);
    assert!(
        of_kind(&r, FindingKind::NotUsed).len() >= 2,
        "{:?}",
        r.metadata.findings
    );
    assert!(r.metadata.buffers.len() <= 1);
}

#[test]
fn buffers_of_several_submits_are_events_in_order() {
    let r = open(&dump());
    let submit = (0..r.events.len())
        .find(|e| r.events.kind(*e) == Some(EventKind::Submit))
        .unwrap();
    let read = (0..r.events.len())
        .find(|e| r.events.kind(*e) == Some(EventKind::Read))
        .unwrap();
    assert!(submit < read, "the driver reads registers after the hang");
    let map = RegisterMap::for_jobs_of(&r).unwrap();
    let timeline = trace_core::timeline::derive(&r, map, &Progress::new()).unwrap();
    assert_eq!(timeline.jobs.len(), 1);
    assert_eq!(
        timeline.jobs[0].done_event,
        Some(submit as u64 + 3),
        "at its last write"
    );
}
