//! The words for cross references, for the window and the command line.

use crate::api_trace::{describe_call, short_function_name};
use crate::derived_data::DerivedData;
use crate::page_table_marks::{describe_entry, describe_entry_kind};
use crate::text;
use trace_core::GpuVa;
use trace_core::recording::{Access, BufferRole, MmuFormat, ObjectAction, Recording, SaveReason};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::xref::{
    AddressMatch, CallReference, ContentChange, EntryReason, EntryValue, EntryWriter, JobPart, LaunchReference,
    PageUse, Reference, ReferenceItem, SubmittedPart, TableCommand, XrefData, XrefTarget, find_page_uses,
};

/// Returns the name of the kind of item: `register`, `job`, `CPU write`, `page table`.
#[must_use]
pub fn item_label(item: &ReferenceItem) -> &'static str {
    match item {
        ReferenceItem::HostWrite { .. } | ReferenceItem::EntryWrite { .. } => "CPU write",
        ReferenceItem::WalkStep { .. } | ReferenceItem::Mapping { .. } | ReferenceItem::PageTable(_) => "page table",
        ReferenceItem::SavedMemory { .. } => "saved memory",
        item => item.name(),
    }
}

/// Describes a reference of a target.
#[must_use]
pub fn describe(recording: &Recording, data: &impl XrefData, target: XrefTarget, reference: &Reference) -> String {
    let space_number = |space: u32| {
        recording
            .metadata
            .address_spaces
            .get(space as usize)
            .map_or(0, |s| s.number)
    };
    match reference.item {
        ReferenceItem::RegisterAccess(a) => describe_access(recording, &a),
        ReferenceItem::AddressRegister {
            register,
            is_write,
            value,
            matches,
            ..
        } => {
            let map = RegisterMap::for_recording(recording);
            let name = map.and_then(|m| m.at(register)).map_or("", |r| r.name.as_str());
            let name = name.strip_suffix("_LO").unwrap_or(name);
            let verb = if is_write { "set to" } else { "read as" };
            let how = match matches {
                AddressMatch::Exact => "",
                AddressMatch::Range => ", a range that covers it",
                AddressMatch::Page => ", on this page",
            };
            format!("{name} {verb} {value:#x}{how}")
        }
        ReferenceItem::Buffer { buffer, offset } => {
            let b = recording.metadata.buffers.get(buffer as usize);
            b.map_or_else(String::new, |b| format!("{} {} + {offset:#x}", b.role.name(), b.name))
        }
        ReferenceItem::HostWrite { bytes } => {
            let count = text::count_noun(u64::from(bytes), "byte", "bytes");
            format!("the CPU wrote {count}")
        }
        ReferenceItem::WalkStep { step, .. } => {
            let (word, to) = describe_entry_kind(step.kind);
            format!(
                "level {} entry {} at {}: {word} {to}",
                step.level, step.index, step.entry_at
            )
        }
        ReferenceItem::Mapping { space, va } => match target {
            XrefTarget::Physical { .. } => format!("AS {} maps it at {va}", space_number(space)),
            _ => format!("the same memory is mapped at {va} too"),
        },
        ReferenceItem::PageTable(t) => format!(
            "this page is the level {} table of AS {} for {}",
            t.level,
            space_number(t.space),
            t.va
        ),
        ReferenceItem::Snapshot(change) => match change {
            ContentChange::NotHeld => "from this snapshot on, no snapshot holds the page",
            ContentChange::Held => "from this snapshot on, the page is held",
            ContentChange::OtherBytes => "other bytes of the page changed before this snapshot; these bytes did not",
            ContentChange::Differs => "the bytes differ from this snapshot on",
        }
        .to_owned(),
        ReferenceItem::Job {
            job,
            position,
            chain,
            part,
        } => describe_job(job, (position, chain), part, reference.is_page_only),
        ReferenceItem::Finding(index) => {
            let finding = data.findings().get(index as usize);
            finding.map_or_else(String::new, |f| f.message.clone())
        }
        ReferenceItem::EntryWrite { .. }
        | ReferenceItem::FirstEntry(_)
        | ReferenceItem::EntryChange { .. }
        | ReferenceItem::TableCommand { .. }
        | ReferenceItem::EntryJob { .. }
        | ReferenceItem::OtherJobs { .. } => describe_entry_reference(recording, target, &reference.item),
        ReferenceItem::Pixel(a) => {
            let word = if a.write { "stores" } else { "loads" };
            let count = text::count_noun(u64::from(a.width), "byte", "bytes");
            format!("{word} {:#x}, {count} at {:#x}", a.value, a.offset)
        }
        ReferenceItem::Call(CallReference::Copy | CallReference::Fill | CallReference::Allocation) => {
            let api_trace = data.api_trace().zip(reference.event);
            api_trace.map_or_else(String::new, |(a, event)| describe_call(a, recording, event))
        }
        ReferenceItem::Launch { launch, how } => {
            let Some(api_trace) = data.api_trace() else {
                return String::new();
            };
            let launch = api_trace.launches().get(launch as usize);
            let name = launch.map_or("", |l| short_function_name(api_trace.function_name(l.function)));
            match how {
                LaunchReference::Changed { before, after } => {
                    format!("{name} · changed it from {before:#04x} to {after:#04x}")
                }
                LaunchReference::ChangedSome => format!("{name} · changed some of the bytes"),
                LaunchReference::Unchanged(_) => format!("{name} · did not change it"),
                LaunchReference::Possible(kind) => format!("{name} · {}", kind.describe()),
                LaunchReference::ReadOnly => format!("{name} · read-only by its signature"),
            }
        }
        ReferenceItem::DeviceBuffer { location, event } => {
            let buffers = data.api_trace().map(|a| a.buffers());
            buffers.map_or_else(String::new, |b| b.format_location(location, event))
        }
        ReferenceItem::Submitted { submission, word, part } => describe_submitted(submission, word, part),
        ReferenceItem::CallSubmission { submission, word } => match word {
            Some(word) => format!("submission {submission}, word {word}: this launch"),
            None => format!("submission {submission}"),
        },
        ReferenceItem::SubmissionCall { submission, word } => {
            let api_trace = data.api_trace().zip(reference.event);
            let call = api_trace.map_or_else(String::new, |(a, event)| describe_call(a, recording, event));
            match word {
                Some(word) => format!("{call} · submission {submission}, word {word}"),
                None => call,
            }
        }
        ReferenceItem::DriverBuffer {
            action,
            object,
            handle,
            va,
            bytes,
            offset,
        } => {
            let name = handle.map_or_else(|| format!("#{object}"), |h| format!("{h:#x}"));
            let verb = match action {
                ObjectAction::Create => "created",
                ObjectAction::Free => "freed",
                ObjectAction::Map => "mapped",
                ObjectAction::Unmap => "unmapped",
            };
            format!("buffer {name} {verb}, {bytes} bytes at {va}; the target is at offset {offset:#x}")
        }
        ReferenceItem::SavedMemory { va, bytes, reason } => {
            let reason = reason.map_or("memory", SaveReason::name);
            format!("{reason}, {bytes} bytes at {va}")
        }
    }
}

/// Describes the part of a submission that refers to a target: `submission 3, word 12: copy of 64 bytes from … to …`.
fn describe_submitted(submission: u32, word: u32, part: SubmittedPart) -> String {
    let what = match part {
        SubmittedPart::Commands { va, bytes } => {
            return format!("submission {submission}: {bytes} bytes of commands at {va}");
        }
        SubmittedPart::CopySource { from, to, bytes } | SubmittedPart::CopyDestination { from, to, bytes } => {
            format!("copy of {bytes} bytes from {from} to {to}")
        }
        SubmittedPart::Fill { to, bytes } => format!("fill of {bytes} bytes at {to}"),
        SubmittedPart::Upload { to, bytes } => format!("upload of {bytes} bytes to {to}"),
        SubmittedPart::Release { va, payload } => format!("release of the semaphore at {va}, {payload:#x}"),
        SubmittedPart::Acquire { va, payload } => format!("wait for the semaphore at {va}, {payload:#x}"),
        SubmittedPart::Program(va) => format!("launch of the program at {va}"),
        SubmittedPart::Descriptor(va) => format!("launch descriptor at {va}"),
        SubmittedPart::ConstantBank { index, va } => format!("launch with constant bank {index} at {va}"),
        SubmittedPart::Parameter { offset, pointer } => {
            format!("launch with parameter +{offset:#x}, pointer {pointer}")
        }
        SubmittedPart::Method { class, name, va, .. } => format!("{name} of class {class:04x}, address {va}"),
    };
    format!("submission {submission}, word {word}: {what}")
}

/// Describes an access to a register: `JS1_COMMAND_NEXT set to 0x1, start`.
fn describe_access(recording: &Recording, access: &Access) -> String {
    let device = RecordedRegisters::new(recording);
    let name = device.and_then(|d| d.name_of(access));
    let name = name.map_or_else(|| format!("{:#06x}", access.offset), |n| n.into_owned());
    let verb = if access.write { "set to" } else { "read as" };
    match device.and_then(|d| d.describe(access)).filter(|m| !m.is_empty()) {
        Some(meaning) => format!("{name} {verb} {:#x}, {meaning}", access.value),
        None => format!("{name} {verb} {:#x}", access.value),
    }
}

fn describe_job(job: u32, (position, chain): (u32, u32), part: JobPart, is_page_only: bool) -> String {
    let name = match chain {
        1 => format!("job {job}"),
        _ => format!("job {job}, {} of its chain", position + 1),
    };
    match part {
        JobPart::Header(va) if is_page_only => format!("{name} has its header on this page, at {va}"),
        JobPart::Header(_) => format!("header of {name}"),
        JobPart::Start(va) if is_page_only => format!("{name} starts on this page, at {va}"),
        JobPart::Start(_) => format!("{name} starts here"),
        JobPart::Shader(va) if is_page_only => format!("shader of {name} starts on this page, at {va}"),
        JobPart::Shader(_) => format!("shader of {name} starts here"),
        JobPart::Pointer { to, through: None, .. } => format!("{name} points at {to}"),
        JobPart::Pointer {
            to, through: Some(p), ..
        } => format!("{name} points at {to} through {p}"),
    }
}

/// Describes a reference of a page-table entry.
fn describe_entry_reference(recording: &Recording, target: XrefTarget, item: &ReferenceItem) -> String {
    let XrefTarget::Entry { space, level, .. } = target else {
        return String::new();
    };
    let address_space = recording.metadata.address_spaces.get(space as usize);
    let format = address_space.map_or(MmuFormat::Aarch64_4k, |s| s.format);
    let entry = |raw: u64| describe_entry(format, level, raw);
    match *item {
        ReferenceItem::EntryWrite { raw: Some(raw) } => format!("the CPU wrote it: {}", entry(raw)),
        ReferenceItem::EntryWrite { raw: None } => "the CPU wrote some of its bytes".to_owned(),
        ReferenceItem::FirstEntry(value) => {
            let what = match value {
                Some(v) => format!("the first snapshot holds it: {}", entry(v.raw)),
                None => "the first snapshot does not hold it: an entry above it is invalid".to_owned(),
            };
            what + "; its earlier writer is not recorded"
        }
        ReferenceItem::EntryChange { before, after, writer } => {
            let change = describe_entry_change((before, after), entry);
            match writer {
                EntryWriter::Cpu => change + "; the CPU wrote this value",
                EntryWriter::Between(from, to) => format!(
                    "{change}. It was written between events {} and {}; the exact event is not recorded",
                    text::count(from),
                    text::count(to)
                ),
            }
        }
        ReferenceItem::TableCommand { command, has_range, .. } => {
            let range = match has_range {
                true => "of a range that overlaps it",
                false => "of an unrecorded range",
            };
            let what = match command {
                TableCommand::Update => {
                    let root = address_space.map(|s| s.root).unwrap_or_default();
                    format!("update: from here on walks begin at the root {root}")
                }
                TableCommand::Lock => format!("lock {range}: its walks wait until the unlock"),
                TableCommand::Unlock => "unlock: walks go on".to_owned(),
                TableCommand::FlushTables => format!("flush of page tables {range}: the next walk reads it again"),
                TableCommand::FlushMemory => format!("flush of memory {range}: the next walk reads it again"),
            };
            format!("AS {} {what}", address_space.map_or(0, |s| s.number))
        }
        ReferenceItem::EntryJob { job, reason, raw } => {
            let reason = match reason {
                EntryReason::Header(va) => format!("has its header at {va}"),
                EntryReason::Shader(va) => format!("has its shader at {va}"),
                EntryReason::Pointer(p) => format!("points at {p}"),
                EntryReason::Buffer { pointer, buffer } => {
                    let b = recording.metadata.buffers.get(buffer as usize);
                    let name = b.map_or("", |b| b.name.as_str());
                    format!("points at {pointer} into {name}, which reaches here")
                }
            };
            match raw {
                Some(raw) => format!("job {job} {reason}: its walk reads this entry, {}", entry(raw)),
                None => format!("job {job} {reason}: its walk ends above this entry"),
            }
        }
        ReferenceItem::OtherJobs { jobs, has_known } => {
            let count = match has_known {
                true => text::count_noun(jobs, "more job", "more jobs"),
                false => text::count_noun(jobs, "job", "jobs"),
            };
            let (verb, they) = match jobs {
                1 => ("runs", "it reaches"),
                _ => ("run", "they reach"),
            };
            format!("{count} {verb} in this address space; the recording does not show whether {they} this entry.")
        }
        _ => String::new(),
    }
}

fn describe_entry_change(states: (Option<EntryValue>, Option<EntryValue>), entry: impl Fn(u64) -> String) -> String {
    let describe = |value: Option<EntryValue>| value.map_or_else(|| "not present".to_owned(), |v| entry(v.raw));
    match states {
        (Some(a), Some(b)) if a.raw == b.raw => format!(
            "from this snapshot on, its table is at another address: the entry is at {}, not at {}",
            b.at, a.at
        ),
        (Some(a), Some(b)) => format!(
            "from this snapshot on it is {}, no longer {}",
            entry(b.raw),
            entry(a.raw)
        ),
        (None, b) => format!(
            "from this snapshot on it is present: {}; before, an entry above it was invalid",
            describe(b)
        ),
        (a, None) => format!(
            "from this snapshot on an entry above it is invalid; it was {}",
            describe(a)
        ),
    }
}

/// Describes the use of the page of a byte; `unknown` if it is not known.
#[must_use]
pub fn describe_page(recording: &Recording, derived: &DerivedData, space: u32, va: GpuVa, event: u64) -> String {
    let list = find_page_uses(recording, derived, &derived.page_usage, (space, va), event);
    match list.is_empty() {
        true => "unknown".into(),
        false => describe_uses(recording, &list),
    }
}

/// Describes the uses of a page or range on one line; empty if there are none.
#[must_use]
pub fn describe_uses(recording: &Recording, list: &[PageUse]) -> String {
    let parts: Vec<String> = list.iter().map(|u| describe_use(recording, u)).collect();
    parts.join(" · ")
}

fn describe_use(recording: &Recording, page_use: &PageUse) -> String {
    let jobs = |list: &[u32], n: usize, what: &str| {
        let named: Vec<String> = list.iter().map(|j| format!("job {j}")).collect();
        let more = if n > list.len() {
            format!(" and {} more", n - list.len())
        } else {
            String::new()
        };
        format!("{what} of {}{more}", named.join(", "))
    };
    match page_use {
        PageUse::Table(t) => format!("level {} page table of {}", t.level, t.va),
        PageUse::Heads(list, n) => jobs(list, *n, if *n == 1 { "header" } else { "headers" }),
        PageUse::Shaders(list, n) => jobs(list, *n, "shader code"),
        PageUse::Buffer(i) => recording
            .metadata
            .buffers
            .get(*i as usize)
            .map_or_else(String::new, |b| match b.role {
                BufferRole::Shared => b.name.clone(),
                r if r.name() == b.name => b.name.clone(),
                r => format!("{} {}", r.name(), b.name),
            }),
    }
}
