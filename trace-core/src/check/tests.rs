//! Tests of every kind of finding: a recording modified to have it, and the same recording without it.

use super::capped_findings::CappedFindings;
use super::*;
use crate::finding::Severity;
use crate::mmu::{self, Rights};
use crate::recording::{
    Access, AddressSpace, EventsBuilder, FrameRole, LostEvents, MemoryBuilder, MmuFormat, PageId, Region, Space,
    SpaceKind,
};
use crate::{GpuVa, PhysAddr, RegOffset};

const FORMAT: MmuFormat = MmuFormat::Aarch64_4k;
const HEAD: u64 = 0x5040;

/// The parts of the recording that a test may change.
struct TestRecording {
    accesses: Vec<(u64, bool, u32, u64)>,
    page: [u8; 4096],
    /// Whether the contents of the second mapped page are present.
    whole: bool,
}

impl TestRecording {
    fn sound() -> Self {
        let mut page = [0u8; 4096];
        // The job header is of a 64-bit null job that is done and has no next job.
        page[0x40] = 1;
        page[0x50..0x54].copy_from_slice(&0x4001_0103u32.to_le_bytes());
        let accesses = vec![
            (0, false, 0, 0x60a0_0002),
            (10, false, 0x300, 3),
            (20, true, 0x18c0, HEAD),
            (30, true, 0x18c4, 0),
            (40, true, 0x18e0, 1),
            (50, false, 0x100c, 2),
        ];
        Self {
            accesses,
            page,
            whole: true,
        }
    }

    fn recording(&self) -> Recording {
        let mut b = EventsBuilder::new();
        for (time, write, offset, value) in &self.accesses {
            b.access(
                *time,
                0,
                Access {
                    space: 0,
                    write: *write,
                    offset: RegOffset::new(*offset),
                    width: 4,
                    value: *value,
                },
            );
        }
        let mut m = MemoryBuilder::new();
        let table = |entries: &[(usize, u64)]| {
            let mut p = [0u8; 4096];
            for e in p.chunks_exact_mut(8) {
                e.copy_from_slice(&mmu::INVALID.to_le_bytes());
            }
            for (i, v) in entries {
                p[i * 8..i * 8 + 8].copy_from_slice(&v.to_le_bytes());
            }
            p
        };
        let mut frames = Vec::new();
        for level in 1..4u64 {
            let next = mmu::encode_table(FORMAT, PhysAddr::new((level + 1) << 12));
            frames.push((level, m.add_page(&table(&[(0, next)])), FrameRole::Table));
        }
        let leaf = |pa: u64| mmu::encode_leaf(FORMAT, PhysAddr::new(pa), Rights::RW, 0);
        frames.push((
            4,
            m.add_page(&table(&[(5, leaf(0x9000)), (6, leaf(0xa000))])),
            FrameRole::Table,
        ));
        frames.push((9, m.add_page(&self.page), FrameRole::Data));
        if self.whole {
            frames.push((10, m.add_page(&[1; 4096]), FrameRole::Data));
        }
        m.add_snapshot(0, frames);
        let mut r = Recording {
            events: b.finish(),
            memory: m.finish(),
            ..Recording::default()
        };
        r.metadata.identity.gpu_id = 0x60a0_0002;
        r.metadata.spaces.push(Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
        let root = PhysAddr::new(0x1000);
        r.metadata.address_spaces.push(AddressSpace {
            number: 0,
            format: FORMAT,
            root,
            memattr: 0,
            transcfg: 6,
        });
        r
    }

    fn findings(&self) -> Vec<(FindingKind, Severity, Option<u64>)> {
        kinds(&self.recording())
    }
}

fn kinds(r: &Recording) -> Vec<(FindingKind, Severity, Option<u64>)> {
    check(r).into_iter().map(|f| (f.kind, f.severity, f.event)).collect()
}

#[test]
fn valid_recording_has_no_finding() {
    assert_eq!(check(&TestRecording::sound().recording()), []);
}

#[test]
fn a_head_that_does_not_decode_is_an_error() {
    let mut p = TestRecording::sound();
    p.page[0x50] = 0xff;
    assert_eq!(
        p.findings(),
        [(FindingKind::UndecodedJobHead, Severity::Error, Some(4))]
    );
    let mut p = TestRecording::sound();
    p.accesses[2].3 = 0x7040;
    assert_eq!(
        p.findings(),
        [(FindingKind::UndecodedJobHead, Severity::Error, Some(4))],
        "unmapped"
    );
    let mut p = TestRecording::sound();
    p.page[0x58..0x60].copy_from_slice(&HEAD.to_le_bytes());
    assert_eq!(
        p.findings(),
        [(FindingKind::UndecodedJobHead, Severity::Error, Some(4))],
        "a chain that loops"
    );
}

#[test]
fn text_in_a_descriptors_page_is_foreign() {
    let text = b"# This file is generated. Local edits are lost when it is written anew.\n";
    let mut p = TestRecording::sound();
    p.page[0x400..0x400 + text.len()].copy_from_slice(text);
    assert_eq!(p.findings(), [(FindingKind::ForeignData, Severity::Error, Some(4))]);
    let mut p = TestRecording::sound();
    p.page[0x40..0x40 + text.len()].copy_from_slice(text);
    let kinds: Vec<_> = p.findings().iter().map(|f| f.0).collect();
    assert_eq!(kinds, [FindingKind::UndecodedJobHead, FindingKind::ForeignData]);
}

#[test]
fn tables_that_are_missing_are_truncated() {
    let mut r = TestRecording::sound().recording();
    r.metadata.address_spaces[0].root = PhysAddr::new(0x7000);
    assert!(kinds(&r).contains(&(FindingKind::TruncatedSection, Severity::Error, None)));
}

#[test]
fn an_entry_without_meaning_among_page_tables_is_foreign() {
    let mut r = TestRecording::sound().recording();
    let mut m = MemoryBuilder::new();
    let mut page = [0u8; 4096];
    page[..8].copy_from_slice(&1u64.to_le_bytes());
    let table = m.add_page(&page);
    m.add_snapshot(0, [(1, table, FrameRole::Table)]);
    r.memory = m.finish();
    assert!(kinds(&r).contains(&(FindingKind::ForeignData, Severity::Error, None)));
}

#[test]
fn lost_events_are_a_warning() {
    let mut r = TestRecording::sound().recording();
    r.metadata.lost.push(LostEvents {
        before_event: 3,
        count: None,
        reason: "the ring was full".into(),
    });
    assert_eq!(kinds(&r), [(FindingKind::LostEvents, Severity::Warning, Some(3))]);
}

#[test]
fn one_loss_gives_one_warning() {
    let mut r = TestRecording::sound().recording();
    let lost = |before_event| LostEvents {
        before_event,
        count: Some(2),
        reason: "the ring was full".into(),
    };
    r.metadata.lost = vec![lost(3), lost(5)];
    let finding = Finding::new(FindingKind::LostEvents, "event 3", "two are missing").at_event(3);
    r.metadata.findings.push(finding.clone());
    let found = check(&r);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((&found[0], found[1].event), (&finding, Some(5)));
}

#[test]
fn overlapping_regions_are_a_warning() {
    let mut r = TestRecording::sound().recording();
    let region = |start, end| Region {
        address_space: 0,
        start: GpuVa::new(start),
        end: GpuVa::new(end),
        committed_pages: 0,
        flags: 0,
        has_content: false,
    };
    r.metadata.regions = vec![region(0x5000, 0x9000), region(0x1000, 0x5000)];
    assert_eq!(kinds(&r), [], "adjacent regions overlap");
    r.metadata.regions.push(region(0x6000, 0x7000));
    r.metadata.regions.push(region(0x8000, 0xa000));
    assert_eq!(
        kinds(&r),
        [(FindingKind::OverlappingRegions, Severity::Warning, None); 2]
    );
}

#[test]
fn time_that_runs_backwards_is_a_warning() {
    let mut p = TestRecording::sound();
    p.accesses[3].0 = 5;
    assert_eq!(p.findings(), [(FindingKind::TimeBackwards, Severity::Warning, Some(3))]);
}

#[test]
fn overlapping_calls_are_not_a_finding() {
    use crate::recording::{Api, ApiTraceMetadata, CallRow, EventsBuilder, TraceKind};
    let mut events = EventsBuilder::new();
    // The second call started first, in another thread, and took longer.
    for (time, thread) in [(20, 1), (10, 2), (30, 1)] {
        let row = CallRow {
            about: u32::MAX,
            ..CallRow::default()
        };
        events.call(time, thread, row);
    }
    let mut r = Recording {
        events: events.finish(),
        ..Recording::default()
    };
    let backwards = |r: &Recording| kinds(r).iter().any(|k| k.0 == FindingKind::TimeBackwards);
    assert!(
        backwards(&r),
        "time that runs backwards is no finding without an API trace"
    );
    r.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        api: Api::Cuda,
        names: vec!["cuInit".to_owned()],
        ..ApiTraceMetadata::default()
    });
    assert!(!backwards(&r));
}

#[test]
fn unknown_register_is_a_warning() {
    let mut p = TestRecording::sound();
    p.accesses.push((60, true, 0x3ff0, 1));
    p.accesses.push((70, true, 0x3ff0, 1));
    p.accesses.push((80, false, 0x9000, 1));
    let w = |event| (FindingKind::UnknownRegister, Severity::Warning, Some(event));
    assert_eq!(p.findings(), [w(6), w(8)]);
    let mut r = TestRecording::sound().recording();
    r.metadata.identity.gpu_id = 0xffff_ffff;
    assert_eq!(
        kinds(&r),
        [w(0)],
        "a recording without a register map has other findings"
    );
}

#[test]
fn findings_of_hostile_offsets_are_bounded() {
    let mut p = TestRecording::sound();
    p.accesses.extend((0..5000).map(|i| (100, false, 0x10_0000 + i * 4, 0)));
    let n = check(&p.recording()).len();
    assert!((2..=CappedFindings::MAX_FINDINGS).contains(&n), "{n}");
}

#[test]
fn mapped_memory_without_content_is_a_note() {
    let mut p = TestRecording::sound();
    p.whole = false;
    assert_eq!(
        p.findings(),
        [(FindingKind::MappedWithoutContent, Severity::Note, None)]
    );
}

#[test]
fn changed_feature_register_is_a_note() {
    let mut p = TestRecording::sound();
    p.accesses.push((60, false, 0x300, 2));
    p.accesses.push((70, false, 0x300, 2));
    assert_eq!(p.findings(), [(FindingKind::FeatureChanged, Severity::Note, Some(6))]);
}

#[test]
fn check_reports_progress_and_can_be_cancelled() {
    let r = TestRecording::sound().recording();
    let progress = Progress::new();
    assert_eq!(check_with(&r, &progress), Ok(check(&r)));
    assert_eq!(progress.fraction(), Some(1.0));
    progress.cancel();
    assert_eq!(check_with(&r, &progress), Err(Cancelled));
}

/// A job of a second address space is decoded there; the first space has nothing at its address.
#[test]
fn a_job_is_decoded_in_the_address_space_that_it_names() {
    let p = TestRecording::sound();
    let mut r = p.recording();
    let mut events = r.events.clone();
    let number = |n: u8, at: usize| AddressSpace {
        number: n,
        root: PhysAddr::new(if n == 0 {
            0x7f_f000
        } else {
            r.metadata.address_spaces[at].root.get()
        }),
        ..r.metadata.address_spaces[at]
    };
    // Space 0 has a root without content. The tables are those of space 1, which no slot names yet.
    r.metadata.address_spaces = vec![number(0, 0), number(1, 0)];
    let undecoded = |r: &Recording| kinds(r).iter().any(|k| k.0 == FindingKind::UndecodedJobHead);
    assert!(undecoded(&r), "the job head decodes in space 0");
    let mut b = EventsBuilder::new();
    let write = |offset, value| Access {
        space: 0,
        write: true,
        offset,
        width: 4,
        value,
    };
    b.access(0, 0, write(RegOffset::new(0x18d8), 0x301));
    for (event, a) in std::mem::take(&mut events).accesses(0..p.accesses.len()) {
        b.access(event as u64 + 1, 0, a);
    }
    r.events = b.finish();
    assert!(!undecoded(&r), "{:?}", check(&r));
    // An address space that the recording does not contain is reported, and no other space is used.
    r.metadata.address_spaces.truncate(1);
    let findings = check(&r);
    assert!(
        findings
            .iter()
            .any(|f| f.message.contains("does not hold the page tables")),
        "{findings:?}"
    );
}

#[test]
fn importer_findings_come_first() {
    let mut p = TestRecording::sound();
    p.page[0x50] = 0xff;
    let mut r = p.recording();
    r.metadata
        .findings
        .push(Finding::new(FindingKind::NotUsed, "a file", "a reason"));
    assert_eq!(
        kinds(&r).iter().map(|k| k.0).collect::<Vec<_>>(),
        [FindingKind::NotUsed, FindingKind::UndecodedJobHead]
    );
}

/// Returns three megabytes of runs: 512 tables of 512 blocks of 1 GiB, which map the same memory. Every second frame of
/// this memory has content, so 34 billion single pages are mapped without content.
fn repeated_blocks() -> Recording {
    use mmu::encode_table;
    const F: MmuFormat = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let page = |entry: &dyn Fn(u64) -> u64| {
        let mut p = [0u8; 4096];
        for (i, e) in p.chunks_exact_mut(8).enumerate() {
            e.copy_from_slice(&entry(i as u64).to_le_bytes());
        }
        p
    };
    let block = mmu::encode_leaf(F, PhysAddr::new(0x4000_0000), Rights::RW, 0) & !2;
    let top = m.add_page(&page(&|i| encode_table(F, PhysAddr::new((0x1000 + i) << 12))));
    let blocks = m.add_page(&page(&|_| block));
    let mut frames: Vec<(u64, PageId, FrameRole)> = vec![(1, top, FrameRole::Table)];
    frames.extend((0..512).map(|i| (0x1000 + i, blocks, FrameRole::Table)));
    frames.extend((0..131_072).map(|i| (0x4_0000 + 2 * i, PageId::ZERO, FrameRole::Data)));
    m.add_snapshot(0, frames);
    let mut r = Recording {
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.address_spaces = vec![AddressSpace {
        number: 0,
        format: F,
        root: PhysAddr::new(0x1000),
        memattr: 0,
        transcfg: 6,
    }];
    r
}

#[test]
fn billions_of_repeated_holes_are_counted_not_collected() {
    let (found, others): (Vec<_>, Vec<_>) = check(&repeated_blocks())
        .into_iter()
        .partition(|f| f.kind == FindingKind::MappedWithoutContent);
    assert_eq!(found.len(), 257);
    let kinds: Vec<FindingKind> = others.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [FindingKind::MappedUnused],
        "the mapped content is not all zeros"
    );
    let pages: u64 = 512 * 512 * 131_072 - 256;
    assert!(
        found[256].message.starts_with(&format!("{pages} more pages")),
        "{:?}",
        found[256]
    );
}

/// Creates two address spaces, each with pages (address, frame, rights, attribute index), and frames with contents.
fn spaces(pages: [&[(usize, u64, Rights, u8)]; 2], contents: &[(u64, [u8; 4096])]) -> Recording {
    let mut m = MemoryBuilder::new();
    let mut frames = Vec::new();
    let mut r = Recording::default();
    for (number, pages) in (0u8..).zip(pages) {
        let first = 1 + u64::from(number) * 4;
        let mut table = |frame: u64, entries: &[(usize, u64)]| {
            let mut p = [0u8; 4096];
            for (i, v) in entries {
                p[i * 8..i * 8 + 8].copy_from_slice(&v.to_le_bytes());
            }
            frames.push((frame, m.add_page(&p), FrameRole::Table));
        };
        for level in 0..3 {
            table(
                first + level,
                &[(0, mmu::encode_table(FORMAT, PhysAddr::new((first + level + 1) << 12)))],
            );
        }
        let leaf = |(i, frame, rights, attr): &(usize, u64, Rights, u8)| {
            (*i, mmu::encode_leaf(FORMAT, PhysAddr::new(frame << 12), *rights, *attr))
        };
        table(first + 3, &pages.iter().map(leaf).collect::<Vec<_>>());
        r.metadata.address_spaces.push(AddressSpace {
            number,
            format: FORMAT,
            root: PhysAddr::new(first << 12),
            // Index 1 means the same in both; the others do not.
            memattr: 0x4d88 | u64::from(number),
            transcfg: 6,
        });
    }
    for (frame, page) in contents {
        frames.push((*frame, m.add_page(page), FrameRole::Data));
    }
    m.add_snapshot(0, frames);
    r.memory = m.finish();
    r
}

const RWX: Rights = Rights {
    read: true,
    write: true,
    execute: true,
};

/// Returns the findings about page tables: kind, severity, location.
fn of_tables(r: &Recording) -> Vec<(FindingKind, Severity, String)> {
    let report = check(r)
        .into_iter()
        .filter(|f| f.kind != FindingKind::MappedWithoutContent);
    report.map(|f| (f.kind, f.severity, f.place)).collect()
}

#[test]
fn writable_executable_pages_give_one_finding_per_run() {
    let r = spaces(
        [
            &[(1, 20, RWX, 1), (2, 30, RWX, 1), (3, 31, Rights::RX, 1)],
            &[(9, 22, RWX, 1)],
        ],
        &[(20, [1; 4096]), (30, [2; 4096]), (31, [3; 4096]), (22, [4; 4096])],
    );
    let kind = FindingKind::WritableAndExecutable;
    let at = |va: &str| (kind, Severity::Note, va.to_owned());
    assert_eq!(of_tables(&r), [at("0x1000"), at("0x9000")]);
    assert!(
        check(&r)[0]
            .message
            .starts_with("the GPU may write and execute 2 pages of address space 0")
    );
}

#[test]
fn aliased_page_with_other_attributes_is_reported() {
    let content = [(20, [1; 4096]), (21, [2; 4096]), (22, [3; 4096])];
    let rw = Rights::RW;
    // Identical mappings are not a finding, in one address space or in two.
    let r = spaces([&[(1, 20, rw, 1), (5, 20, rw, 1)], &[(9, 20, rw, 1)]], &content);
    assert_eq!(of_tables(&r), []);
    // The cacheability differs by another index, or by another meaning of the index in the other address space.
    let r = spaces(
        [&[(1, 20, rw, 1), (2, 21, rw, 1), (5, 20, rw, 0), (6, 21, rw, 0)], &[]],
        &content,
    );
    let attributes = |va: &str| (FindingKind::AliasedAttributes, Severity::Warning, va.to_owned());
    assert_eq!(
        of_tables(&r),
        [attributes("0x1000")],
        "contiguous pages are reported more than once"
    );
    let r = spaces([&[(1, 20, rw, 0)], &[(7, 20, rw, 0)]], &content);
    assert_eq!(of_tables(&r), [attributes("0x1000")]);
    let text = &check(&r)[0].message;
    assert!(
        text.contains("0x7000 of address space 1 with attributes 0x89"),
        "{text}"
    );
    // Different rights alone are less severe.
    let r = spaces([&[(1, 20, rw, 1)], &[(7, 20, Rights::RO, 1)]], &content);
    assert_eq!(
        of_tables(&r),
        [(FindingKind::AliasedRights, Severity::Note, "0x1000".to_owned())]
    );
}

#[test]
fn a_page_table_that_the_gpu_may_write_is_a_warning() {
    let found = |rights| of_tables(&spaces([&[(1, 4, rights, 1)], &[]], &[]));
    let kind = FindingKind::WritablePageTable;
    assert_eq!(found(Rights::RW), [(kind, Severity::Warning, "0x1000".to_owned())]);
    assert_eq!(found(Rights::RO), []);
    // The writable page table belongs to another address space, and follows other pages of a run.
    let r = spaces([&[], &[(6, 3, Rights::RW, 1), (7, 4, Rights::RW, 1)]], &[]);
    assert_eq!(of_tables(&r), [(kind, Severity::Warning, "0x6000".to_owned())]);
    assert!(check(&r).iter().any(|f| f.message.contains("and 1 more page table")));
}

#[test]
fn unreferenced_zero_memory_is_reported_as_unused() {
    let rw = Rights::RW;
    let pages: &[(usize, u64, Rights, u8)] = &[(1, 20, rw, 1), (5, 25, rw, 1), (6, 26, rw, 1), (9, 29, rw, 1)];
    let zero = [0; 4096];
    let with_page = |page: [u8; 4096]| spaces([pages, &[]], &[(20, page), (25, zero), (26, zero), (29, zero)]);
    let unused = |va: &str| (FindingKind::MappedUnused, Severity::Note, va.to_owned());
    let r = with_page([1; 4096]);
    assert_eq!(of_tables(&r), [unused("0x5000"), unused("0x9000")]);
    assert!(
        check(&r)[0]
            .message
            .starts_with("2 pages of address space 0 are mapped here")
    );
    // A word that points into the mapping counts as a reference at any multiple of four, and with other bits above it.
    let mut page = [1; 4096];
    page[20..28].copy_from_slice(&0x12_0000_6123u64.to_le_bytes());
    assert_eq!(of_tables(&with_page(page)), [unused("0x5000"), unused("0x9000")]);
    page[20..28].copy_from_slice(&0xabcd_0000_0000_6123u64.to_le_bytes());
    assert_eq!(of_tables(&with_page(page)), [unused("0x9000")]);
    // A buffer in the mapping counts as a use.
    let mut r = with_page(page);
    r.metadata.buffers.push(crate::recording::Buffer {
        name: "b".into(),
        role: crate::recording::BufferRole::Shared,
        address_space: 0,
        va: GpuVa::new(0x9ff0),
        bytes: 32,
        element: crate::recording::ElementType::U8,
    });
    assert_eq!(of_tables(&r), []);
    // A CPU write counts as a use, even if it writes zeros.
    let mut r = with_page(page);
    let mut b = EventsBuilder::new();
    b.host_write(
        0,
        0,
        crate::recording::HostWriteRow {
            at: PhysAddr::new(29 << 12),
            bytes: 4,
            page: 0,
        },
    );
    r.events = b.finish();
    assert_eq!(of_tables(&r), []);
}

#[test]
fn generated_tables_give_no_rights_findings() {
    let mut r = spaces(
        [&[(1, 20, RWX, 1), (2, 4, RWX, 0)], &[(1, 20, Rights::RO, 1)]],
        &[(20, [1; 4096])],
    );
    assert_ne!(of_tables(&r), []);
    r.metadata
        .findings
        .push(Finding::new(FindingKind::Assumed, "page tables", "made"));
    assert_eq!(
        of_tables(&r),
        [(FindingKind::Assumed, Severity::Note, "page tables".to_owned())]
    );
}
