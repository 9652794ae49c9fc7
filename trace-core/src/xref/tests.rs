//! Tests of cross references on small recordings: memory, registers, page tables, framebuffers, limits.

use super::*;
use crate::check::Submit;
use crate::mmu::{self, Rights};
use crate::recording::{
    Access, AddressSpace, Buffer, BufferRole, ElementType, EventsBuilder, FrameRole, Hardware, HostWriteRow,
    MemoryBuilder, MmuFormat, PlatformDevice, Space, SpaceKind,
};
use crate::registers::RegisterMap;
use crate::timeline;
use crate::{GpuVa, PhysAddr, RegOffset};

const FORMAT: MmuFormat = MmuFormat::Aarch64_4k;
/// An address that is mapped to the frame [`FRAME`], like [`ALIAS`].
const VA: GpuVa = GpuVa::new(0x5000);
const ALIAS: GpuVa = GpuVa::new(0x6000);
const FRAME: u64 = 9;

fn offset(name: &str) -> u32 {
    RegisterMap::by_name("mali-jm")
        .unwrap()
        .find_by_name(name)
        .unwrap()
        .offset
        .get()
}

fn write(space: u8, offset: u32, value: u64) -> Access {
    Access {
        space,
        write: true,
        offset: RegOffset::new(offset),
        width: 4,
        value,
    }
}

/// Returns a recording of a Mali-G71: a submit of a job at [`VA`] + 0x100, a CPU write to the page, a framebuffer store.
fn sample() -> Recording {
    let mut m = MemoryBuilder::new();
    let mut table = |entries: &[(usize, u64)]| {
        let mut page = [0u8; 4096];
        for (index, raw) in entries {
            page[index * 8..index * 8 + 8].copy_from_slice(&raw.to_le_bytes());
        }
        m.add_page(&page)
    };
    let leaf = mmu::encode_leaf(FORMAT, PhysAddr::new(FRAME << 12), Rights::RW, 0);
    let next = |frame: u64| [(0, mmu::encode_table(FORMAT, PhysAddr::new(frame << 12)))];
    let mut frames = vec![
        (1, table(&next(2)), FrameRole::Table),
        (2, table(&next(3)), FrameRole::Table),
        (3, table(&next(4)), FrameRole::Table),
        (4, table(&[(5, leaf), (6, leaf)]), FrameRole::Table),
    ];
    frames.push((FRAME, m.add_page(&[0; 4096]), FrameRole::Data));
    m.add_snapshot(0, frames);
    let mut b = EventsBuilder::new();
    b.access(0, 1, write(0, offset("JS1_HEAD_NEXT_LO"), VA.get() + 0x100)); // 0
    b.access(1, 1, write(0, offset("JS1_HEAD_NEXT_HI"), 0)); // 1
    b.access(2, 1, write(0, offset("JS1_CONFIG_NEXT"), 0x8_7b00)); // 2
    b.access(3, 1, write(0, offset("JS1_COMMAND_NEXT"), 1)); // 3: submits job 0
    let row = HostWriteRow {
        at: PhysAddr::new((FRAME << 12) + 0x20),
        bytes: 16,
        page: 0,
    };
    b.host_write(4, 1, row); // 4
    b.access(5, 1, write(1, 0x20, 7)); // 5: a pixel
    let mut r = Recording {
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x6000_0000;
    let space = |name: &str, kind| Space {
        name: name.into(),
        kind,
        bytes: 1 << 16,
    };
    r.metadata.spaces = vec![
        space("gpu", SpaceKind::Registers),
        space("bar1", SpaceKind::Framebuffer),
    ];
    r.metadata.address_spaces = vec![AddressSpace {
        number: 0,
        format: FORMAT,
        root: PhysAddr::new(1 << 12),
        memattr: 0,
        transcfg: 6,
    }];
    r.metadata.buffers = vec![Buffer {
        name: "data".into(),
        role: BufferRole::Output,
        address_space: 0,
        va: VA,
        bytes: 0x1000,
        element: ElementType::U8,
    }];
    r
}

fn index(r: &Recording) -> XrefIndex {
    let progress = Progress::new();
    let map = RegisterMap::for_jobs_of(r).unwrap();
    let jobs = timeline::derive(r, map, &progress).unwrap().jobs;
    let submit = |j: &timeline::JobSpan| Submit {
        index: j.index,
        event: j.submit_event,
        head_va: j.head_va,
    };
    let submits: Vec<Submit> = jobs.iter().map(submit).collect();
    let index = XrefIndex::new(r, &submits, &progress).unwrap();
    index.with_findings(r, &submits, &progress).unwrap()
}

fn find(r: &Recording, target: XrefTarget) -> Vec<Reference> {
    let found = find_references(r, &index(r), target, (u64::MAX, MAX_REFERENCES), &Progress::new()).unwrap();
    assert!(found.is_complete);
    found.list
}

fn parse(r: &Recording, text: &str) -> Result<XrefTarget, TargetError> {
    parse_target(r, None, (0, text), &Progress::new())
}

/// Returns access kind and event of the references of a kind of item, without those of only the page.
fn select(list: &[Reference], name: &str) -> Vec<(AccessKind, Option<u64>)> {
    let own = list.iter().filter(|r| !r.is_page_only && r.item.name() == name);
    own.map(|r| (r.access, r.event)).collect()
}

#[test]
fn bytes_are_referenced_by_registers_cpu_writes_tables_and_buffers() {
    let r = sample();
    let head = find(&r, parse(&r, "data+0x100").unwrap());
    assert_eq!(select(&head, "register"), [(AccessKind::AddressOf, Some(0))]);
    assert_eq!(select(&head, "buffer"), [(AccessKind::Resident, None)]);
    // Four entries of the walk, and the other address of the page.
    assert_eq!(select(&head, "page-table").len(), 5);
    let alias = ReferenceItem::Mapping {
        space: 0,
        va: ALIAS + 0x100,
    };
    assert!(head.iter().any(|r| r.item == alias), "{head:?}");
    assert!(select(&head, "cpu-write").is_empty());
    let job = head.iter().find(|r| r.job() == Some(0)).unwrap();
    assert_eq!((job.event, job.access), (Some(3), AccessKind::Read));
    assert!(matches!(
        job.item,
        ReferenceItem::Job {
            part: JobPart::Header(_),
            ..
        }
    ));
    let byte = find(&r, parse(&r, "0x5020").unwrap());
    assert_eq!(select(&byte, "cpu-write"), [(AccessKind::Write, Some(4))]);
    // The address in the register is on the page, not in the byte.
    let of_page = byte.iter().filter(|r| r.is_page_only && r.item.name() == "register");
    assert_eq!(of_page.count(), 1);
}

#[test]
fn a_buffer_is_searched_as_a_whole() {
    let r = sample();
    let list = find(&r, parse(&r, "data").unwrap());
    assert_eq!(select(&list, "cpu-write"), [(AccessKind::Write, Some(4))]);
    assert!(list.iter().any(|r| r.job() == Some(0) && !r.is_page_only));
}

#[test]
fn physical_memory_is_referenced_through_every_mapping() {
    let r = sample();
    let at = PhysAddr::new((FRAME << 12) + 0x100);
    let list = find(&r, XrefTarget::Physical { at, bytes: 1 });
    let mappings: Vec<GpuVa> = list
        .iter()
        .filter_map(|r| match r.item {
            ReferenceItem::Mapping { va, .. } => Some(va),
            _ => None,
        })
        .collect();
    assert_eq!(mappings, [VA + 0x100, ALIAS + 0x100]);
    assert_eq!(select(&list, "register"), [(AccessKind::AddressOf, Some(0))]);
    let table = XrefTarget::Physical {
        at: PhysAddr::new(0x4000),
        bytes: 1,
    };
    let found = find(&r, table);
    assert!(
        found
            .iter()
            .any(|r| matches!(r.item, ReferenceItem::PageTable(t) if t.level == 3))
    );
}

#[test]
fn registers_and_their_fields_list_the_accesses_that_cover_them() {
    let r = sample();
    let events = |text: &str| {
        let list = find(&r, parse(&r, text).unwrap());
        list.iter().map(|r| r.event.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(events("js1_head_next_lo"), [0]);
    assert_eq!(events("JS1_HEAD_NEXT"), [0, 1]);
    assert_eq!(events("JS1_CONFIG_NEXT.start_flush"), [2]);
    assert_eq!(events("JS0_COMMAND_NEXT"), Vec::<u64>::new());
    let unnamed = XrefTarget::Register {
        register: RegOffset::new(0x20),
        bits: None,
    };
    assert_eq!(parse(&r, "gpu+0x20"), Ok(unnamed));
}

#[test]
fn framebuffer_bytes_list_their_stores() {
    let r = sample();
    let target = parse(&r, "bar1+0x22").unwrap();
    let list = find(&r, target);
    assert_eq!(select(&list, "store"), [(AccessKind::Write, Some(5))]);
    assert!(find(&r, parse(&r, "bar1+0x24").unwrap()).is_empty());
}

#[test]
fn entries_list_the_jobs_whose_walks_may_read_them() {
    let r = sample();
    let entry = |va, level| XrefTarget::Entry { space: 0, va, level };
    let list = find(&r, entry(VA, 3));
    let job = list.iter().find(|r| r.job() == Some(0)).unwrap();
    let reason = EntryReason::Header(VA + 0x100);
    assert!(matches!(job.item, ReferenceItem::EntryJob { reason: r, .. } if r == reason));
    assert!(matches!(list[0].item, ReferenceItem::FirstEntry(Some(_))));
    // The job does not show whether it reads the other address.
    let other = find(&r, entry(ALIAS, 3));
    assert!(
        other
            .iter()
            .any(|r| matches!(r.item, ReferenceItem::OtherJobs { jobs: 1, .. }))
    );
    assert!(find(&r, entry(VA, 200)).len() >= list.len());
    let missing = XrefTarget::Entry {
        space: 7,
        va: VA,
        level: 0,
    };
    assert!(find(&r, missing).is_empty());
}

#[test]
fn texts_that_are_no_target_are_errors() {
    let r = sample();
    let message = |text: &str| parse(&r, text).unwrap_err().to_string();
    assert!(message("nothing").contains("'nothing' is neither an address"));
    assert!(message("data+0x1000").contains("beyond the end of 'data', which has 4096 bytes"));
    assert!(message("JS1_CONFIG_NEXT.nothing").contains("has no field 'nothing'"));
    assert!(message("3,4").contains("describe no screen"));
    assert!(message("").contains("neither"));
}

#[test]
fn searches_are_limited_and_can_be_cancelled() {
    let mut r = sample();
    let mut b = EventsBuilder::new();
    for n in 0..100 {
        b.access(n, 1, write(0, offset("JS1_COMMAND_NEXT"), 0));
    }
    r.events = b.finish();
    let index = index(&r);
    let target = parse(&r, "JS1_COMMAND_NEXT").unwrap();
    let progress = Progress::new();
    let found = find_references(&r, &index, target, (u64::MAX, 10), &progress).unwrap();
    assert_eq!((found.list.len(), found.is_complete), (10, false));
    progress.cancel();
    let bytes = parse(&r, "data").unwrap();
    for target in [target, bytes] {
        assert!(find_references(&r, &index, target, (u64::MAX, 10), &progress).is_err());
    }
}

#[test]
fn job_of_a_gpu_without_page_tables_is_referenced_by_its_address() {
    let map = RegisterMap::by_name("v3d").unwrap();
    let mut b = EventsBuilder::new();
    for (time, (name, value)) in (0u64..).zip([
        ("CSD_QUEUED_CFG5", 0x2_0005),
        ("CSD_QUEUED_CFG0", 0x1_0000),
        ("CLE_CT0QBA", 0x2_0100),
        ("CLE_CT0QEA", 0x2_0200),
    ]) {
        b.access(time, 1, write(0, map.find_by_name(name).unwrap().offset.get(), value));
    }
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.spaces = vec![Space {
        name: map.space().to_owned(),
        kind: SpaceKind::Registers,
        bytes: 0x4000,
    }];
    r.set_hardware(&Hardware::Platform(PlatformDevice {
        compatible: vec!["brcm,2711-v3d".to_owned()],
        ..PlatformDevice::default()
    }));
    let list = find(&r, parse(&r, "0x20000").unwrap());
    assert_eq!(select(&list, "register"), [(AccessKind::AddressOf, Some(0))]);
    assert_eq!(select(&list, "job"), [(AccessKind::Read, Some(1))]);
    let start = |r: &&Reference| {
        matches!(
            r.item,
            ReferenceItem::Job {
                part: JobPart::Start(_),
                ..
            }
        )
    };
    let starts: Vec<(bool, Option<u64>)> = list.iter().filter(start).map(|r| (r.is_page_only, r.event)).collect();
    assert_eq!(starts, [(false, Some(1)), (true, Some(3))]);
}
