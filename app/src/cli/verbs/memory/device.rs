//! `memory` of an API trace: its buffers, and bytes of device memory.

use super::{MAX_HOLES, MemoryReport};
use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::source::SourceRecording;
use crate::cli::{Exit, Failure, Out, format_hex, wasm_recordings};
use kinescope_files::buffers;
use serde::Serialize;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, ContentState, DeviceBytes, MAX_READ_BYTES};
use trace_core::memory::elements_text;
use trace_core::progress::Progress;
use trace_core::recording::{BufferShape, ElementType};
use wasm_recording::{CopyStream, is_whole_run};

/// A buffer, with what is known of it before an event.
#[derive(Serialize)]
struct BufferRow {
    /// Name of the buffer.
    name: String,
    /// Another name, or `null`.
    also: Option<String>,
    /// Address of the first byte.
    va: String,
    /// Size.
    bytes: u64,
    /// What the memory is.
    kind: &'static str,
    /// Event that allocated it.
    from_event: u64,
    /// Event that freed it, or `null`.
    to_event: Option<u64>,
    /// Whether it is allocated.
    live: bool,
    /// Number of bytes whose content is known.
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
    if is_whole_run(&opened.recording) {
        return print_rows(list_streams(opened)?, out);
    }
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
            va: format_hex(b.at.get()),
            bytes: b.bytes,
            kind: b.kind.name(),
            from_event: b.from,
            to_event: b.to,
            live,
            known_bytes: known.map(|p| p.range.end - p.range.start).sum(),
        }
    });
    print_rows(rows, out)
}

/// Returns the inputs and outputs of the copies of a WebAssembly run.
fn list_streams(opened: &SourceRecording) -> Result<Vec<BufferRow>, Failure> {
    let run = wasm_recordings::read(opened, &Progress::new())?;
    let mut rows = Vec::new();
    for (number, copy) in run.copies().iter().enumerate() {
        for stream in CopyStream::ALL {
            if let Some((event, row)) = run.stream_row(number, stream) {
                rows.push(BufferRow {
                    name: stream.buffer_name(&copy.name),
                    also: None,
                    va: format_hex(row.device().get()),
                    bytes: row.bytes,
                    kind: stream.name(),
                    from_event: event,
                    to_event: None,
                    live: true,
                    known_bytes: row.bytes,
                });
            }
        }
    }
    Ok(rows)
}

fn print_rows(rows: impl IntoIterator<Item = BufferRow>, out: &mut Out) -> Result<Exit, Failure> {
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

/// A range of unknown bytes, with the reason as text.
#[derive(Serialize)]
struct Hole {
    /// The range.
    va: String,
    bytes: u64,
    /// Why the bytes are unknown, in words.
    state: String,
    /// Since when, or `null`.
    event: Option<u64>,
}

fn holes(read: &DeviceBytes) -> Vec<Hole> {
    let unknown = read.pieces.iter().filter(|p| !p.state.is_known());
    let hole = |p: &trace_core::api_trace::Piece| Hole {
        va: format_hex(p.range.start.get()),
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
    form: Option<BufferShape>,
    to: Option<&Path>,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if bytes > MAX_READ_BYTES {
        return Err(Failure::usage(format!(
            "cannot read {bytes} bytes at once: the maximum is {MAX_READ_BYTES} (1 GiB); read in parts, with an address \
             and --bytes"
        )));
    }
    let element = form.as_ref().map(|f| f.element);
    let read = api_trace.read(
        &opened.recording,
        GpuVa::new(va)..GpuVa::new(va.saturating_add(bytes)),
        event,
    );
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
        let shape = form.map(|f| f.shape).unwrap_or_default();
        buffers::write_file(path, element.unwrap_or(ElementType::U8), &shape, &read.bytes)
            .map_err(|e| Failure::usage(e.to_string()))?;
    } else if !out.is_json() {
        text(va, &read, element, out)?;
    }
    if out.is_json() {
        out.value(&MemoryReport {
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
    let piece = |at: u64| {
        read.pieces
            .get(read.pieces.partition_point(|p| p.range.end <= GpuVa::new(at)))
    };
    let mut skip = 0;
    for (row, chunk) in read.bytes.chunks(16).enumerate() {
        let here = va.saturating_add(row as u64 * 16);
        if here < skip {
            continue;
        }
        if let Some(p) =
            piece(here).filter(|p| !p.state.is_known() && p.range.end >= GpuVa::new(here + chunk.len() as u64))
        {
            let end = here + (p.range.end - GpuVa::new(here)) / 16 * 16;
            let end = if p.range.end == GpuVa::new(va + read.bytes.len() as u64) {
                p.range.end
            } else {
                GpuVa::new(end)
            };
            out.line(format_args!(
                "{here:#014x}  {} {}",
                format_count(end - GpuVa::new(here), "byte"),
                p.state.describe()
            ))?;
            skip = end.get();
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
