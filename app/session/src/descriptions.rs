//! Descriptions of events, accesses, jobs and addresses.

use crate::derived_data::DerivedData;
use crate::jobs::JobFact;
use crate::{Document, text};
use kinescope_files::scene::Selection;
use trace_core::recording::{EventKind, Recording};
use trace_core::registers::Role;

/// Describes the meaning of an event in a few words; empty if the value alone is sufficient.
#[must_use]
pub fn describe_event(doc: &Document, event: u64) -> String {
    means_of(&doc.recording, &doc.derived, event)
}

/// Does the same for a recording that is not the open one.
fn means_of(recording: &Recording, derived: &DerivedData, event: u64) -> String {
    let Ok(at) = usize::try_from(event) else {
        return String::new();
    };
    let events = &recording.events;
    match events.kind(at) {
        Some(EventKind::Interrupt) => {
            return events
                .interrupt(at)
                .map(|i| format!("line {}, status {:#x}", i.line, i.status))
                .unwrap_or_default();
        }
        Some(EventKind::Mark) => {
            let row = events.payload.get(at).unwrap_or(0) as usize;
            return events.marks.get(row).cloned().unwrap_or_default();
        }
        Some(EventKind::HostWrite) => {
            return events
                .host_write(at)
                .map(|w| format!("{} bytes at {:#x}", w.bytes, w.at))
                .unwrap_or_default();
        }
        Some(EventKind::Undecoded) => {
            return events.undecoded(at).map(|u| u.describe()).unwrap_or_default();
        }
        Some(EventKind::DmaMap) => {
            return events.dma_map(at).map(|d| d.describe()).unwrap_or_default();
        }
        Some(kind) if kind.is_call() => {
            if let Some(api_trace) = &derived.api_trace {
                return crate::api_trace::describe_call(api_trace, recording, event);
            }
            let text = recording.describe_driver_event(at);
            return text.or_else(|| recording.describe_call(at)).unwrap_or_default();
        }
        Some(EventKind::Object | EventKind::RingEntry | EventKind::SavedMemory) => {
            return recording.describe_driver_event(at).unwrap_or_default();
        }
        _ => {}
    }
    let Some(a) = events.access(at) else {
        return String::new();
    };
    let Some((device, r)) = derived.device.and_then(|d| Some((d, d.find_accessed(&a)?))) else {
        return String::new();
    };
    if let Some(j) = derived.job_submitted_at(event) {
        return format!("start job {}", j.index);
    }
    if a.write {
        let next = derived.jobs.partition_point(|j| j.submit <= event);
        let soon = derived
            .jobs
            .get(next)
            .filter(|j| j.submit - event < 16 && Some(j.slot) == r.index);
        match (&r.replay.role, soon) {
            (Some(Role::JobHead), Some(j)) if r.name.ends_with("_LO") => return format!("→ job {} header", j.index),
            (Some(Role::FlushId), _) => return "fed from LATEST_FLUSH".into(),
            _ => {}
        }
    }
    device.describe(&a).unwrap_or_default()
}

/// Formats the location of an access without a value: `bar0+0x1000`.
#[must_use]
pub fn format_undecoded_address(doc: &Document, at: usize) -> String {
    undecoded_in(&doc.recording, at)
}

fn undecoded_in(recording: &Recording, at: usize) -> String {
    let events = &recording.events;
    let space = events
        .space
        .get(at)
        .and_then(|s| recording.metadata.spaces.get(usize::from(s)));
    let offset = events.undecoded(at).map_or(0, |u| u.offset.get());
    format!("{}+{offset:#x}", space.map_or("", |s| s.name.as_str()))
}

/// Formats an event on one line.
#[must_use]
pub fn format_event(doc: &Document, event: u64) -> String {
    format_event_in(&doc.recording, &doc.derived, event)
}

/// Formats an event on one line, for a recording that need not be the open one.
#[must_use]
pub fn format_event_in(recording: &Recording, derived: &DerivedData, event: u64) -> String {
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    let what = match recording.events.access(at) {
        Some(a) => format!(
            "{} {} {}",
            if a.write { "write" } else { "read" },
            derived.access_name(recording, &a),
            text::hex(a.value, a.width)
        ),
        None => match recording.events.kind(at) {
            Some(EventKind::Interrupt) => "interrupt".into(),
            Some(EventKind::Mark) => "note of the recorder".into(),
            Some(EventKind::Submit) => "submit".into(),
            Some(EventKind::HostWrite) => "CPU write to memory".into(),
            Some(EventKind::Undecoded) => undecoded_in(recording, at),
            Some(EventKind::DmaMap) => "memory for the device".into(),
            Some(EventKind::Object) => "object of the driver".into(),
            Some(EventKind::RingEntry) => "ring entry".into(),
            Some(EventKind::SavedMemory) => "saved memory".into(),
            Some(kind) if kind.is_call() => kind.call_name().unwrap_or_default().into(),
            _ => "event of an unknown kind".into(),
        },
    };
    let means = means_of(recording, derived, event);
    if means.is_empty() {
        what
    } else {
        format!("{what} · {means}")
    }
}

/// Describes the selection in a few words; empty if it is only the event.
#[must_use]
pub fn describe_selection(doc: &Document, selection: &Selection) -> String {
    match selection {
        Selection::Register(r) => format!("register {}", doc.derived.register_name(*r)),
        Selection::Job(j) => format!("job {j}"),
        Selection::Buffer(b) => format!("buffer {b}"),
        Selection::Memory { space, va, bytes } => {
            let count = text::count_noun(*bytes, "byte", "bytes");
            if let Some(place) = crate::api_trace::format_address(&doc.derived, *va, doc.current_event()) {
                return format!("{count} at {place}");
            }
            let of = if doc.derived.spaces.len() > 1 {
                format!(" of address space {space}")
            } else {
                String::new()
            };
            format!("{count} at {va:#x}{of}")
        }
        Selection::Entry { space, va, level } => {
            let of = if doc.derived.spaces.len() > 1 {
                format!(" in address space {space}")
            } else {
                String::new()
            };
            format!("level {level} page-table entry of {va:#x}{of}")
        }
        Selection::Framebuffer { space, offset, bytes } => {
            let name = doc.recording.metadata.spaces.get(usize::from(*space)).map(|s| &*s.name);
            let count = text::count_noun(*bytes, "byte", "bytes");
            format!("{count} at {} + {offset:#x}", name.unwrap_or("framebuffer"))
        }
        Selection::Finding(i) => {
            let finding = doc.derived.findings.get(*i as usize);
            finding.map_or_else(|| format!("finding {i}"), |f| format!("finding at {}", f.place))
        }
        Selection::Event | Selection::Note(_) | Selection::Divergence(_) | Selection::Fault(_) => String::new(),
    }
}

/// Describes a job in a few words: `compute, chain of 2`.
#[must_use]
pub fn describe_job(job: &JobFact) -> String {
    match (job.chain.first(), job.chain.len()) {
        (None, _) => "not in the recording".into(),
        (Some(c), 1) => c.kind.clone(),
        (Some(c), n) => format!("{}, chain of {n}", c.kind),
    }
}

/// Formats dispatch dimensions: `28×28×48 in 4×4×1`.
#[must_use]
pub fn format_dispatch(d: ([u32; 3], [u32; 3])) -> String {
    let three = |v: [u32; 3]| format!("{}×{}×{}", v[0], v[1], v[2]);
    format!("{} in {}", three(d.0), three(d.1))
}

/// Formats element type and count of a buffer: `f32 154 587`.
#[must_use]
pub fn describe_buffer_type(doc: &Document, buffer: &trace_core::recording::Buffer) -> String {
    let e = doc.element(buffer);
    format!("{} {}", e.name(), text::count(buffer.bytes / e.bytes() as u64))
}
