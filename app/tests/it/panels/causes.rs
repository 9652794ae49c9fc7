//! Tests of the references of a page-table entry: its writers, and the jobs whose page walks may read it.

use crate::common::Window;
use crate::panels::hands::{ReferenceRow, reference_rows};
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;
use kinescope_session::derive;
use kinescope_session::derived_data::DerivedData;
use kinescope_session::jobs::JobFact;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{Access, AddressSpace, EventsBuilder, FrameRole, MemoryBuilder, MmuFormat, Recording};
use trace_core::xref::{AccessKind, MAX_REFERENCES, Reference, ReferenceItem, XrefIndex, XrefTarget, find_references};
use trace_core::{GpuVa, PhysAddr, RegOffset};

fn find_rows(r: &Recording, derived: &DerivedData, (space, va, level): (u32, u64, u8)) -> Vec<ReferenceRow> {
    let target = XrefTarget::Entry {
        space,
        va: GpuVa::new(va),
        level,
    };
    let found = find_references(r, derived, target, (0, MAX_REFERENCES), &Progress::new()).unwrap();
    reference_rows(r, derived, target, &found.list)
}

fn list_xrefs(w: &mut Window, va: u64, level: u8) -> Vec<ReferenceRow> {
    let (r, derived) = (w.doc().recording.clone(), w.doc().derived.clone());
    find_rows(&r, &derived, (0, va, level))
}

fn select_kind<'t>(list: &'t [ReferenceRow], kind: &str) -> Vec<(u64, AccessKind, &'t str)> {
    let mine = list.iter().filter(|t| t.kind == kind);
    mine.filter_map(|t| Some((t.event?, t.access, &*t.description)))
        .collect()
}

#[test]
fn page_table_entry_trail_lists_writes_flushes_and_jobs() {
    let mut w = Window::open_sample("changes.kine");
    let late = w.doc().recording.buffer("late").unwrap().va.get();
    let submits: Vec<u64> = w.doc().derived.jobs.iter().map(|j| j.submit).collect();
    // The buffer was mapped between the first and the second job. No mapping existed before.
    for level in [3, 2] {
        let list = list_xrefs(&mut w, late, level);
        let cpu = select_kind(&list, "CPU write");
        let [(wrote, AccessKind::Write, description)] = cpu[..] else {
            panic!("{list:?}");
        };
        assert!(submits[0] < wrote && wrote < submits[1], "{wrote}");
        let target = if level == 3 { "page → 0x" } else { "table → 0x" };
        assert!(
            description.starts_with("the CPU wrote it: ") && description.contains(target),
            "{description}"
        );
        // The later snapshot only shows the result of the write.
        let snapshots = select_kind(&list, "snapshot");
        assert_eq!(snapshots.len(), 2, "{snapshots:?}");
        assert!(snapshots[0].2.contains("its earlier writer is not recorded"));
        assert!(snapshots[1].1 == AccessKind::AddressOf && snapshots[1].2.contains("the CPU wrote this value"));
        let jobs: Vec<(u64, AccessKind)> = select_kind(&list, "job").iter().map(|j| (j.0, j.1)).collect();
        assert_eq!(jobs, [(submits[1], AccessKind::Read), (submits[2], AccessKind::Read)]);
        let rest = list
            .iter()
            .find(|t| t.event.is_none())
            .expect("the other job is counted");
        assert!(
            rest.description.starts_with("1 more job runs in this address space"),
            "{}",
            rest.description
        );
        let flushed = select_kind(&list, "command");
        let flush = flushed.iter().find(|c| c.2.contains("flush of page tables"));
        assert!(flush.is_some_and(|f| wrote < f.0 && f.0 < submits[1]), "{flushed:?}");
        assert!(list.is_sorted_by_key(|t| t.event.unwrap_or(u64::MAX)));
    }
    // A flush of a range without the entry's address is not listed for the entry. It is listed for the table entry
    // above.
    let data = w.doc().recording.buffer("data").unwrap().va.get();
    let flushes = |w: &mut Window, level| {
        let list = list_xrefs(w, data, level);
        select_kind(&list, "command")
            .iter()
            .filter(|c| c.2.contains("flush of page tables"))
            .count()
    };
    assert_eq!((flushes(&mut w, 3), flushes(&mut w, 2)), (0, 1));
}

#[test]
fn selected_walk_entry_is_inspected_and_links_to_its_writes() {
    let mut w = Window::open_sample("changes.kine");
    w.run("show-page-tables");
    let b = w.doc().recording.buffer("late").unwrap().clone();
    w.run("last-event");
    w.doc().select(Selection::Buffer("late".into()));
    w.settle();
    w.click("level 3 page");
    let entry = |level| Selection::Entry {
        space: 0,
        va: b.va,
        level,
    };
    assert_eq!(*w.doc().selection(), entry(3));
    assert!(w.has("Page-table entry") && w.has(&format!("Trail of L3 {:#x}", b.va.get())));
    let list = list_xrefs(&mut w, b.va.get(), 3);
    let wrote = select_kind(&list, "CPU write")[0].0;
    w.run("last-writer");
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (wrote, entry(3))
    );
    assert!(w.has_part("the CPU wrote it: page → 0x"));
    w.run("next-reader");
    let submit = w.doc().derived.jobs[1].submit;
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (submit, entry(3))
    );
    w.run("previous-touch");
    assert!(wrote < w.doc().current_event() && w.doc().current_event() < submit);
    w.click(&format!("reference event {wrote}"));
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (wrote, entry(3))
    );
    // The button and the key select the entries above.
    w.run("last-event");
    w.doc().select(entry(3));
    w.settle();
    w.click("Entry above");
    assert_eq!(*w.doc().selection(), entry(2));
    w.harness.key_press_modifiers(egui::Modifiers::SHIFT, egui::Key::E);
    w.settle();
    assert_eq!(*w.doc().selection(), entry(1));
    // From selected bytes, the link leads to the entry that maps them.
    w.show_memory(0, b.va.get() + 8, 4);
    w.settle();
    let link = w.harness.get_all_by_label_contains("entry L3 [").next();
    link.expect("the inspector names the entry").click();
    w.settle();
    let of_bytes = Selection::Entry {
        space: 0,
        va: b.va + 8,
        level: 3,
    };
    assert_eq!(*w.doc().selection(), of_bytes);
    // A copied link contains the entry.
    let link = w.run_and_copy("copy-link");
    assert!(link.contains("select=entry"), "{link}");
}

/// Returns a recording of one page: mapped in the first snapshot, remapped in the second, and unmapped in the third.
fn moved() -> Recording {
    let format = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let leaves = [
        mmu::encode_leaf(format, PhysAddr::new(9 << 12), Rights::RO, 0),
        mmu::encode_leaf(format, PhysAddr::new(10 << 12), Rights::RW, 0),
        mmu::INVALID,
    ];
    for (event, leaf) in [0, 4, 6].into_iter().zip(leaves) {
        let mut frames = Vec::new();
        for (frame, raw) in (1u64..).zip([
            mmu::encode_table(format, PhysAddr::new(2 << 12)),
            mmu::encode_table(format, PhysAddr::new(3 << 12)),
            mmu::encode_table(format, PhysAddr::new(4 << 12)),
            leaf,
        ]) {
            let mut page = [0u8; 4096];
            page[..8].copy_from_slice(&raw.to_le_bytes());
            frames.push((frame, m.add_page(&page), FrameRole::Table));
        }
        m.add_snapshot(event, frames);
    }
    let mut b = EventsBuilder::new();
    for offset in 0..8 {
        let access = Access {
            space: 0,
            write: false,
            offset: RegOffset::new(offset * 4),
            width: 4,
            value: 0,
        };
        b.access(u64::from(offset), 0, access);
    }
    let mut r = Recording {
        memory: m.finish(),
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.address_spaces.push(AddressSpace {
        number: 0,
        format,
        root: PhysAddr::new(1 << 12),
        memattr: 0,
        transcfg: 6,
    });
    r
}

#[test]
fn snapshots_bound_entry_changes_without_host_writes() {
    let r = moved();
    let derived = derive::derive(&r, &Progress::new()).unwrap();
    let list = find_rows(&r, &derived, (0, 0, 3));
    let entries = select_kind(&list, "snapshot");
    assert_eq!(entries.iter().map(|t| t.0).collect::<Vec<_>>(), [0, 4, 6]);
    assert!(
        entries.iter().all(|t| t.1 == AccessKind::Write) && list.len() == 3,
        "{list:?}"
    );
    assert!(
        entries[1]
            .2
            .contains("it is page → 0xa000 rw-, no longer page → 0x9000 r--"),
        "{}",
        entries[1].2
    );
    assert!(
        entries[1]
            .2
            .contains("between events 0 and 4; the exact event is not recorded"),
        "{}",
        entries[1].2
    );
    assert!(entries[2].2.contains("it is invalid"), "{}", entries[2].2);
    // The entry above it never changed.
    assert_eq!(find_rows(&r, &derived, (0, 0, 2)).len(), 1);
    // An entry that the walk does not reach has one reference. A missing address space has none.
    let list = find_rows(&r, &derived, (0, 1 << 30, 3));
    assert!(
        list.len() == 1 && list[0].description.contains("an entry above it is invalid"),
        "{list:?}"
    );
    assert!(find_rows(&r, &derived, (7, 0, 3)).is_empty());
}

#[test]
fn window_and_command_line_find_the_same_references() {
    let mut w = Window::open_sample("changes.kine");
    let (r, derived) = (w.doc().recording.clone(), w.doc().derived.clone());
    let submits: Vec<_> = derived.jobs.iter().map(JobFact::to_submit).collect();
    let progress = Progress::new();
    let index = XrefIndex::new(&r, &submits, &progress).unwrap();
    let mut targets = Vec::new();
    for b in &r.metadata.buffers {
        let (space, va) = (b.address_space, b.va);
        for bytes in [1, b.bytes] {
            targets.push(XrefTarget::Bytes { space, va, bytes });
        }
        targets.extend((0..4).map(|level| XrefTarget::Entry { space, va, level }));
    }
    for job in &derived.jobs {
        targets.push(XrefTarget::Bytes {
            space: 0,
            va: job.head_va,
            bytes: 1,
        });
    }
    for target in targets {
        let by_window = find_references(&r, &*derived, target, (u64::MAX, MAX_REFERENCES), &progress).unwrap();
        let by_index = find_references(&r, &index, target, (u64::MAX, MAX_REFERENCES), &progress).unwrap();
        // The index has no findings.
        let is_other = |t: &Reference| !matches!(t.item, ReferenceItem::Finding(_));
        let by_window: Vec<Reference> = by_window.list.into_iter().filter(is_other).collect();
        assert_eq!(by_window, by_index.list, "{target:?}");
    }
}
