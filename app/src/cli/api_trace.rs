//! The API trace of a recording, and the arguments that name device memory and events in it.

use super::failure::complain;
use super::out::format_count;
use super::source::{SourceRecording, bare_hex, number};
use super::{Exit, Failure, Out, format_hex, progress_line};
use crate::buffers;
use crate::document::api_trace as words;
use serde::Serialize;
use std::path::Path;
use trace_core::api_trace::{ApiTrace, CertainWriter, ContentState, DeviceBytes, LastWriter, MAX_READ_BYTES};
use trace_core::memory::elements_text;
use trace_core::recording::ElementType;

/// Maximum number of unknown ranges in text output; JSON lists all.
const MAX_HOLES: usize = 20;

/// Loads the API calls of a recording.
///
/// # Errors
/// When the recording is not an API trace.
pub fn load(opened: &SourceRecording) -> Result<ApiTrace, Failure> {
    let found = progress_line::run_with_progress("following buffers through the calls", |progress, _| {
        ApiTrace::from_recording(&opened.recording, progress).map_err(|e| Failure::file(&opened.file, e))
    })?;
    found.ok_or_else(|| {
        Failure::file(
            &opened.file,
            "not an API trace (`kinescope record --with cuda` records one)",
        )
    })
}

/// Returns the first address and size in bytes of a named range: device memory, or the part of it that a copy reads or
/// writes.
#[must_use]
pub fn find_named(opened: &SourceRecording, api_trace: &ApiTrace, name: &str) -> Option<(u64, u64)> {
    let index = api_trace.buffers().find(name);
    let buffer = index.and_then(|n| api_trace.buffers().get(n)).map(|b| (b.at, b.bytes));
    buffer.or_else(|| opened.buffer(name).ok().map(|b| (b.va.0, b.bytes)))
}

/// Parses an address argument: a number, a buffer's name, `NAME+OFFSET`.
///
/// # Errors
/// When the text is none of these.
pub fn parse_address(opened: &SourceRecording, api_trace: &ApiTrace, text: &str) -> Result<u64, Failure> {
    let offset = || {
        let (name, by) = text.rsplit_once('+')?;
        let (at, bytes) = find_named(opened, api_trace, name.trim())?;
        Some((name.trim(), at, bytes, number(by.trim()).ok()?))
    };
    if let Some((at, _)) = find_named(opened, api_trace, text.trim()) {
        return Ok(at);
    }
    if let Some((name, at, bytes, by)) = offset() {
        if by >= bytes {
            return Err(Failure::file(
                &opened.file,
                format!("{by:#x} is beyond the end of '{name}', which has {bytes} bytes"),
            ));
        }
        return Ok(at.saturating_add(by));
    }
    let Some(at) = number(text).ok().or_else(|| bare_hex(text)) else {
        return Err(Failure::file(
            &opened.file,
            format!("'{text}' is neither an address nor a buffer (`kinescope memory` without one lists the buffers)"),
        ));
    };
    let end = opened.recording.events.len() as u64;
    let known = api_trace.buffers().locate_nearest(at, end).is_some()
        || api_trace.find_last_write(&opened.recording, at, 0..end).is_some();
    if !known {
        return Err(Failure::file(
            &opened.file,
            format!("{at:#x} is in no buffer (`kinescope memory` without an address lists the buffers)"),
        ));
    }
    Ok(at)
}

/// Returns the event before which memory is shown: the given one, else the last at which the buffer was allocated, else
/// the end.
///
/// # Errors
/// When there is no such event.
pub fn find_event(
    opened: &SourceRecording,
    api_trace: &ApiTrace,
    text: &str,
    given: Option<u64>,
) -> Result<u64, Failure> {
    let at = || parse_address(opened, api_trace, text).ok();
    let end = opened.recording.events.len() as u64;
    let place = || api_trace.buffers().locate_nearest(at()?, end);
    let given_back = || api_trace.buffers().get(place()?.buffer)?.to;
    let event = match given {
        None => given_back().map_or_else(|| opened.check_event(None), Ok)?,
        given => opened.check_event(given)?,
    };
    Ok(event.min(opened.recording.events.len() as u64))
}

#[derive(Serialize)]
struct BufferRow {
    name: String,
    also: Option<String>,
    va: String,
    bytes: u64,
    kind: &'static str,
    from_event: u64,
    to_event: Option<u64>,
    live: bool,
    known_bytes: u64,
}

/// Prints the buffers, and how much of each is known before an event.
///
/// # Errors
/// When the output is closed or full.
pub fn print_buffers(
    opened: &SourceRecording,
    api_trace: &ApiTrace,
    event: u64,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let rows = api_trace.buffers().list().iter().map(|b| {
        let live = b.is_live_at(event);
        let pieces = if live {
            api_trace.pieces(&opened.recording, b.at..b.end(), event)
        } else {
            Vec::new()
        };
        let known = pieces.iter().filter(|p| p.state.is_known());
        BufferRow {
            name: b.name.clone(),
            also: b.alias.clone(),
            va: format_hex(b.at),
            bytes: b.bytes,
            kind: b.kind.name(),
            from_event: b.from,
            to_event: b.to,
            live,
            known_bytes: known.map(|p| p.range.end - p.range.start).sum(),
        }
    });
    if out.is_json() {
        out.array(rows)?;
        return Ok(Exit::Good);
    }
    let mut table = vec![
        ["Buffer", "Address", "Bytes", "Known", "Kind", "From", "To"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for r in rows {
        table.push(vec![
            r.name,
            r.va,
            r.bytes.to_string(),
            if r.live {
                r.known_bytes.to_string()
            } else {
                "not allocated".to_owned()
            },
            r.kind.to_owned(),
            r.from_event.to_string(),
            r.to_event.map_or_else(|| "-".to_owned(), |e| e.to_string()),
        ]);
    }
    out.table(&table)?;
    Ok(Exit::Good)
}

#[derive(Serialize)]
struct Report {
    va: String,
    bytes: u64,
    #[serde(rename = "type")]
    element: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elements: Option<Vec<String>>,
    holes: Vec<Hole>,
}

#[derive(Serialize)]
struct Hole {
    va: String,
    bytes: u64,
    state: String,
    event: Option<u64>,
}

fn holes(read: &DeviceBytes) -> Vec<Hole> {
    let unknown = read.pieces.iter().filter(|p| !p.state.is_known());
    let hole = |p: &trace_core::api_trace::Piece| Hole {
        va: format_hex(p.range.start),
        bytes: p.range.end - p.range.start,
        state: p.state.describe(),
        event: match p.state {
            ContentState::Unknown(_, e) if e > 0 => Some(e),
            _ => None,
        },
    };
    unknown.map(hole).collect()
}

/// Prints bytes of device memory before an event, or writes them to a file.
///
/// # Errors
/// When there are too many bytes, or they cannot be written.
pub fn print_memory(
    opened: &SourceRecording,
    api_trace: &ApiTrace,
    (va, bytes, event): (u64, u64, u64),
    element: Option<ElementType>,
    to: Option<&Path>,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if bytes > MAX_READ_BYTES {
        return Err(Failure::usage(format!(
            "cannot read {bytes} bytes at once: the maximum is {MAX_READ_BYTES} (1 GiB); read in parts, with an address \
             and --bytes"
        )));
    }
    let read = api_trace.read(&opened.recording, va..va.saturating_add(bytes), event);
    if !out.is_json() && to.is_some() {
        let list = holes(&read);
        for h in list.iter().take(MAX_HOLES) {
            complain(format_args!(
                "{}: {} {}, printed as 0",
                h.va,
                format_count(h.bytes, "byte"),
                h.state
            ));
        }
        if list.len() > MAX_HOLES {
            complain(format_args!(
                "and {} more such ranges (--json lists all)",
                list.len() - MAX_HOLES
            ));
        }
    }
    if let Some(path) = to {
        let element = element.unwrap_or(ElementType::U8);
        buffers::write_file(path, element, &[], &read.bytes).map_err(|e| Failure::usage(e.to_string()))?;
    } else if !out.is_json() {
        text(va, &read, element, out)?;
    }
    if out.is_json() {
        out.value(&Report {
            va: format_hex(va),
            bytes: read.bytes.len() as u64,
            element: element.unwrap_or(ElementType::U8).name(),
            hex: (element.is_none() && to.is_none()).then(|| read.bytes.iter().map(|b| format!("{b:02x}")).collect()),
            elements: element
                .filter(|_| to.is_none())
                .map(|e| elements_text(e, &read.bytes).collect()),
            holes: holes(&read),
        })?;
    }
    Ok(Exit::Good)
}

/// Prints lines of sixteen bytes. For an unknown range it prints one line with the reason.
fn text(va: u64, read: &DeviceBytes, element: Option<ElementType>, out: &mut Out) -> Result<(), Failure> {
    let piece = |at: u64| read.pieces.get(read.pieces.partition_point(|p| p.range.end <= at));
    let mut skip = 0;
    for (row, chunk) in read.bytes.chunks(16).enumerate() {
        let here = va.saturating_add(row as u64 * 16);
        if here < skip {
            continue;
        }
        if let Some(p) = piece(here).filter(|p| !p.state.is_known() && p.range.end >= here + chunk.len() as u64) {
            let end = here + (p.range.end - here) / 16 * 16;
            let end = if p.range.end == va + read.bytes.len() as u64 {
                p.range.end
            } else {
                end
            };
            out.line(format_args!(
                "{here:#014x}  {} {}",
                format_count(end - here, "byte"),
                p.state.describe()
            ))?;
            skip = end;
            continue;
        }
        if let Some(element) = element {
            let values: Vec<String> = elements_text(element, chunk).collect();
            out.line(format_args!("{here:#014x}  {}", values.join("  ")))?;
            continue;
        }
        let (mut digits, mut letters) = (String::new(), String::new());
        for (at, b) in (here..).zip(chunk) {
            let known = piece(at).is_some_and(|p| p.state.is_known());
            digits.push_str(&if known { format!("{b:02x} ") } else { "-- ".to_owned() });
            let shown = known && (b.is_ascii_graphic() || *b == b' ');
            letters.push(if shown { char::from(*b) } else { '.' });
        }
        out.line(format_args!("{here:#014x}  {digits:<48} {letters}"))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct LastWriterReport {
    va: String,
    at_event: u64,
    buffer: Option<String>,
    buffer_offset: Option<u64>,
    byte: Option<String>,
    known: bool,
    state: String,
    writer: Option<WriterRow>,
    changed: Option<ByteChange>,
    changed_unrecorded: bool,
    launches: Vec<LaunchWriterRow>,
    left_as_it_was: u64,
    readers: u64,
    other_launches: u64,
    taken_event: Option<u64>,
}

#[derive(Serialize)]
struct WriterRow {
    event: u64,
    kind: &'static str,
    from_va: Option<String>,
}

#[derive(Serialize)]
struct ByteChange {
    launch: u32,
    event: u64,
    kernel: String,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct LaunchWriterRow {
    launch: u32,
    event: u64,
    kernel: String,
    certain: bool,
    how: &'static str,
}

/// Prints the last writer of a byte before an event.
///
/// # Errors
/// When the output is closed or full.
pub fn print_last_writer(
    opened: &SourceRecording,
    api_trace: &ApiTrace,
    va: u64,
    event: u64,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let who = api_trace.find_last_writer(&opened.recording, va, event);
    if out.is_json() {
        out.value(&report(api_trace, &who, event))?;
        return Ok(Exit::Good);
    }
    let place = match who.location {
        Some(p) => format!("{va:#x} ({})", api_trace.buffers().format_location(p)),
        None => format!("{va:#x} (in no known buffer)"),
    };
    match who.byte {
        Some(b) => out.line(format_args!(
            "{place} holds {b:#04x}: {}",
            words::describe_state(api_trace, who.state)
        ))?,
        None => out.line(format_args!("{place}: {}", words::describe_state(api_trace, who.state)))?,
    }
    for l in &who.launches {
        let name = launch_name(api_trace, l.launch);
        let sure = if l.reference.is_certain() {
            "may have written it"
        } else {
            "possibly wrote it"
        };
        out.line(format_args!(
            "launch {} at event {}, {}, {sure}: {}",
            l.launch,
            l.event,
            words::short_function_name(&name),
            l.reference.describe()
        ))?;
    }
    if let Some(c) = &who.change {
        let name = launch_name(api_trace, c.launch);
        out.line(format_args!(
            "{}launch {} at event {}, {}, changed it from {:#04x} to {:#04x}, as {} saw",
            if who.launches.is_empty() { "" } else { "before these, " },
            c.launch,
            c.event,
            words::short_function_name(&name),
            c.before,
            c.after,
            words::describe_targets(api_trace)
        ))?;
    }
    if who.unrecorded {
        out.line(words::UNRECORDED)?;
    }
    match who.certain {
        Some((e, _)) => {
            let message = words::describe_call(api_trace, &opened.recording, e);
            out.line(format_args!("certain write at event {e}: {message}"))?;
        }
        None if who.launches.is_empty() && who.change.is_none() => match who.allocated_at {
            Some(e) => out.line(format_args!("no write since its allocation at event {e}"))?,
            None => out.line("no write in this recording")?,
        },
        None => {}
    }
    if who.excluded > 0 {
        out.line(format_args!(
            "{} with its address since then did not change it, as {} saw",
            describe_launches(who.excluded),
            words::describe_targets(api_trace)
        ))?;
    }
    if who.readers > 0 {
        out.line(format_args!(
            "{} with its address since then, only to read it by the signatures",
            describe_launches(who.readers)
        ))?;
    }
    if who.others > 0 {
        let n = format_count(who.others, "other launch").replace("launchs", "launches");
        out.line(format_args!(
            "{n} since then, without an address in this buffer among the arguments"
        ))?;
    }
    let doubt = !who.launches.is_empty() || who.others > 0;
    if doubt && api_trace.memory_traces().is_empty() {
        out.line("a target can show which launch wrote it: --on cuda:0, or another that `kinescope targets` lists")?;
    }
    Ok(Exit::Good)
}

fn describe_launches(n: u64) -> String {
    match n {
        1 => "1 launch".to_owned(),
        n => format!("{n} launches"),
    }
}

fn launch_name(api_trace: &ApiTrace, launch: u32) -> String {
    let l = api_trace.launches().get(launch as usize);
    l.map_or_else(String::new, |l| api_trace.function_name(l.function).to_owned())
}

fn report(api_trace: &ApiTrace, who: &LastWriter, event: u64) -> LastWriterReport {
    let buffer = who.location.and_then(|p| api_trace.buffers().get(p.buffer));
    LastWriterReport {
        va: format_hex(who.address),
        at_event: event,
        buffer: buffer.map(|b| b.name.clone()),
        buffer_offset: who.location.map(|p| p.offset),
        byte: who.byte.map(|b| format_hex(u64::from(b))),
        known: who.state.is_known(),
        state: words::describe_state(api_trace, who.state),
        writer: who.certain.map(|(event, w)| WriterRow {
            event,
            kind: match w {
                CertainWriter::Copy => "copy-from-host",
                CertainWriter::Fill => "fill",
                CertainWriter::CopyFrom(_) => "copy-on-device",
            },
            from_va: match w {
                CertainWriter::CopyFrom(from) => Some(format_hex(from)),
                _ => None,
            },
        }),
        changed: who.change.map(|c| ByteChange {
            launch: c.launch,
            event: c.event,
            kernel: launch_name(api_trace, c.launch),
            from: format_hex(u64::from(c.before)),
            to: format_hex(u64::from(c.after)),
        }),
        left_as_it_was: who.excluded,
        changed_unrecorded: who.unrecorded,
        launches: who
            .launches
            .iter()
            .map(|l| LaunchWriterRow {
                launch: l.launch,
                event: l.event,
                kernel: launch_name(api_trace, l.launch),
                certain: l.reference.is_certain(),
                how: l.reference.describe(),
            })
            .collect(),
        readers: who.readers,
        other_launches: who.others,
        taken_event: who.allocated_at,
    }
}
