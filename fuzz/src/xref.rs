//! Fuzz target for cross references: a target as text, in a small recording that the start of the input describes.

use crate::filter::recorded;
use crate::input::Input;
use trace_core::check::Submit;
use trace_core::filter::{Derived, Query};
use trace_core::progress::Progress;
use trace_core::recording::{
    AddressSpace, Buffer, BufferRole, ElementType, FrameRole, MemoryBuilder, MmuFormat, Recording,
};
use trace_core::xref::{Reference, XrefIndex, XrefTarget, find_references, parse_target};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

/// Number of frames that page-table entries fill, from frame 1 on.
const FRAMES: u8 = 8;
/// Maximum number of entries.
const MAX_ENTRIES: u8 = 64;
/// Maximum size of a text that is also a filter, bytes.
const MAX_TEXT: usize = 1000;
/// Maximum number of references of a search.
const MAX: usize = 1000;

/// Fuzzes cross references. The input has the events of [`recorded`], then page-table entries (number, with the format
/// in the highest bit; frame, index and value of each), an event, and the text of the target. References are in order,
/// and the filter `references` finds the same events.
pub fn xref(data: &[u8]) -> bool {
    let mut input = Input(data);
    let (mut recording, derived) = recorded(&mut input);
    add_memory(&mut recording, &mut input);
    let event = u64::from(input.u8());
    let text = String::from_utf8_lossy(input.0);
    let submits: Vec<Submit> = (0u32..)
        .zip(&derived.jobs)
        .map(|(index, j)| Submit {
            index,
            event: j.submit,
            head_va: j.head_va,
        })
        .collect();
    let progress = Progress::new();
    let index = XrefIndex::new(&recording, &submits, &progress)
        .and_then(|i| i.with_findings(&recording, &submits, &progress))
        .unwrap_or_else(|e| panic!("{e}"));
    let Ok(target) = parse_target(&recording, None, (0, &text), &progress) else {
        return false;
    };
    let find = |target, event| {
        let found = find_references(&recording, &index, target, (event, MAX), &progress);
        let found = found.unwrap_or_else(|e| panic!("{e}"));
        check_list(&found.list, recording.events.len() as u64);
        found.list
    };
    let list = find(target, u64::MAX);
    find(target, event);
    if let XrefTarget::Bytes { space, va, bytes } = target {
        for level in 0..4 {
            find(XrefTarget::Entry { space, va, level }, event);
        }
        let at = PhysAddr::new(va.get());
        find(XrefTarget::Physical { at, bytes }, event);
    }
    check_filter(&recording, &derived, &text, &list);
    true
}

fn add_memory(recording: &mut Recording, input: &mut Input<'_>) {
    let head = input.u8();
    let mut pages = vec![[0u8; PAGE_SIZE]; usize::from(FRAMES)];
    for _ in 0..(head & 0x7f).min(MAX_ENTRIES) {
        let (frame, index, raw) = (input.u8(), input.u16(), input.u64());
        let at = usize::from(index % 512) * 8;
        if let Some(page) = pages.get_mut(usize::from(frame % FRAMES))
            && let Some(entry) = page.get_mut(at..at + 8)
        {
            entry.copy_from_slice(&raw.to_le_bytes());
        }
    }
    let mut memory = MemoryBuilder::new();
    let frames: Vec<_> = (1u64..)
        .zip(&pages)
        .map(|(frame, page)| (frame, memory.add_page(page), FrameRole::Table))
        .collect();
    memory.add_snapshot(0, frames);
    recording.memory = memory.finish();
    recording.metadata.address_spaces = vec![AddressSpace {
        number: 0,
        format: match head >> 7 {
            0 => MmuFormat::Aarch64_4k,
            _ => MmuFormat::MaliLpae,
        },
        root: PhysAddr::new(PAGE_SIZE as u64),
        memattr: 0,
        transcfg: 6,
    }];
    recording.metadata.buffers = vec![Buffer {
        name: "data".into(),
        role: BufferRole::Output,
        address_space: 0,
        va: GpuVa::new(0x5000),
        bytes: PAGE_SIZE as u64,
        element: ElementType::U8,
    }];
}

/// Checks the order of references: those with events, those without, those of only the page.
fn check_list(list: &[Reference], events: u64) {
    assert!(list.len() <= MAX);
    assert!(list.is_sorted_by_key(|r| (r.is_page_only, r.event.unwrap_or(u64::MAX))));
    assert!(list.iter().all(|r| r.event.is_none_or(|e| e < events.max(1))));
}

/// Checks that the filter finds the events of the references to the target itself.
fn check_filter(recording: &Recording, derived: &Derived, text: &str, list: &[Reference]) {
    if list.len() >= MAX || text.len() > MAX_TEXT || text.contains(['\'', '"', '\\']) {
        return;
    }
    let query = Query::parse(&format!("references '{text}'")).unwrap_or_else(|e| panic!("{e}"));
    let filter = query
        .compile(recording, Some(derived))
        .unwrap_or_else(|e| panic!("{e}"));
    let found = filter.select(&recording.events, &Progress::new());
    let found: Vec<u64> = found.unwrap_or_else(|e| panic!("{e}")).iter().collect();
    let own = list.iter().filter(|r| !r.is_page_only);
    let mut events: Vec<u64> = own.filter_map(|r| r.event).collect();
    events.dedup();
    // A recording without events has a snapshot before its first one.
    events.retain(|e| *e < recording.events.len() as u64);
    assert_eq!(found, events, "{text}");
}
