//! `memory`: prints bytes at a GPU address as hex or numbers, or searches for a pattern.

mod device;

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::source::{Source, SourceRecording, number};
use crate::cli::trace_arguments::TraceArguments;
use crate::cli::{Exit, Failure, Out, Verb, api_trace, format_hex, progress_line, wasm_recordings};
use clap::{Args, FromArgMatches as _};
use kinescope_files::buffers;
use kinescope_session::{memory_trace, pattern};
use serde::Serialize;
use std::path::PathBuf;
use trace_core::GpuVa;
use trace_core::api_trace::NamedBuffer;
use trace_core::memory::{BufferBytes, ByteState, GpuMemoryView, MAX_HITS, MAX_READ, elements_text};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Buffer, BufferShape, ElementType};

pub const VERB: Verb = Verb {
    name: "memory",
    about: "Print memory as hex or numbers, or search it for a pattern",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Number of bytes that are read at once.
const PIECE: u64 = 16 << 20;
/// Maximum number of ranges without content in text output; JSON lists all.
const MAX_HOLES: usize = 20;

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// First GPU address, a buffer, or NAME+OFFSET; without it, an API trace lists its buffers
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// Bytes to show, at most 1 GiB [default: 256, or the whole buffer]
    #[arg(long, value_name = "N", value_parser = number)]
    bytes: Option<u64>,
    /// Name of a buffer, instead of an address
    #[arg(long, value_name = "NAME", conflicts_with = "address")]
    buffer: Option<String>,
    /// Show elements of this type instead of hex
    #[arg(long = "type", value_name = "TYPE", value_parser = element)]
    element: Option<ElementType>,
    /// Show memory before this event [default: at the end; for a buffer of an API trace, when it was freed]
    #[arg(long, value_name = "EVENT")]
    event: Option<u64>,
    /// Index of the address space, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
    /// Search all mapped memory for this: hex digits, "text", f32:1.5, /expression/, or ->LOCATION for pointers to an
    /// address, a range or a buffer; exit 1 if it is not found
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, conflicts_with_all = ["address", "buffer", "bytes", "element", "to"])]
    search: Option<String>,
    /// Write the bytes to this file (.npy: as NPY) instead of showing them
    #[arg(short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    asked: TraceArguments,
}

fn element(text: &str) -> Result<ElementType, String> {
    let names: Vec<&str> = ElementType::ALL.iter().map(|e| e.name()).collect();
    let found = ElementType::ALL.into_iter().find(|e| e.name() == text);
    found.ok_or_else(|| format!("'{text}' is not a type (expected {})", names.join(", ")))
}

/// Bytes of memory as text, and the ranges of them that are unknown.
#[derive(Serialize)]
struct MemoryReport<H> {
    /// The range.
    va: String,
    bytes: u64,
    /// Type of its elements; `u8` without `--type`.
    #[serde(rename = "type")]
    element: &'static str,
    /// Two digits a byte; not with `--type` or `-o`.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// With `--type`: text, so that no digit is lost; not with `-o`.
    #[serde(skip_serializing_if = "Option::is_none")]
    elements: Option<Vec<String>>,
    /// Ranges of unknown bytes.
    holes: Vec<H>,
}

/// A range of unknown bytes, by its address instead of its offset.
#[derive(Serialize)]
struct Hole<'a> {
    /// The range.
    va: String,
    bytes: u64,
    /// `not mapped` or `mapped without content`.
    state: &'a str,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    CommandFiles::for_recording(&arguments.source.file)
        .with_output("-o", arguments.to.as_deref())
        .check()?;
    if let Some(to) = &arguments.to {
        buffers::check_file_name(to).map_err(|e| Failure::usage(e.to_string()))?;
    }
    arguments.asked.prestart();
    let opened = arguments.source.open()?;
    let recording = &opened.recording;
    if opened.recording.api().is_some() {
        return print_api_memory(arguments, &opened, out);
    }
    arguments.asked.reject_register_trace(&arguments.source.file)?;
    // The address argument may also be a buffer.
    let given = arguments.address.as_deref();
    let by_name = given.map(str::trim).filter(|name| recording.buffer(name).is_some());
    let buffer = arguments.buffer.as_deref().or(by_name);
    let address = match given.filter(|_| buffer.is_none()) {
        Some(text) => Some(opened.parse_address(text)?),
        None => None,
    };
    if address.is_none() && buffer.is_none() && arguments.search.is_none() {
        return Err(Failure::usage("an address, a buffer or --search is needed"));
    }
    let named = given.and_then(|text| recording.buffer(text.rsplit_once('+')?.0.trim()));
    let space_index = match buffer {
        Some(name) => recording.buffer(name).map_or(arguments.space, |b| b.address_space),
        None => named.map_or(arguments.space, |b| b.address_space),
    };
    let space = opened.address_space(space_index)?;
    let view = GpuMemoryView::new(recording.memory.at(opened.check_event(arguments.event)?), space);
    if let Some(pattern) = &arguments.search {
        return search(&view, pattern, &recording.metadata.buffers, out);
    }
    let (va, bytes, own) = match (buffer, address) {
        (Some(name), _) => {
            let b = opened.buffer(name)?;
            (
                b.va,
                arguments.bytes.map_or(b.bytes, |n| n.min(b.bytes)),
                Some(b.element),
            )
        }
        (None, Some(at)) => (at, arguments.bytes.unwrap_or(256), None),
        (None, None) => return Err(Failure::usage("an address or a buffer is needed")),
    };
    if bytes > MAX_READ {
        return Err(Failure::usage(format!(
            "cannot read {bytes} bytes at once: the maximum is {MAX_READ} (1 GiB); read in parts, with an address and \
             --bytes"
        )));
    }
    let read = progress_line::run_with_progress("reading", |progress, _| {
        read_in_pieces(&view, va, bytes, PIECE, progress).map_err(|e| Failure::usage(e.to_string()))
    })?;
    // Hex marks missing bytes; numbers and files cannot.
    if !out.is_json() && (arguments.to.is_some() || arguments.element.is_some()) {
        warn_about_holes(va, &read);
    }
    if let Some(path) = &arguments.to {
        let shape = buffer.and_then(|name| recording.metadata.valid_shapes().remove(name));
        let shape = shape.unwrap_or_default();
        let element = arguments.element.or(own).unwrap_or(ElementType::U8);
        progress_line::run_with_progress("writing", |_, _| {
            buffers::write_file(path, element, &shape, &read.bytes).map_err(|e| Failure::usage(e.to_string()))
        })?;
    } else if !out.is_json() {
        text(va, &read, arguments.element, out)?;
    }
    if out.is_json() {
        let element = arguments.element.unwrap_or(ElementType::U8);
        let as_hex = arguments.element.is_none() && arguments.to.is_none();
        let as_elements = arguments.element.is_some() && arguments.to.is_none();
        out.value(&MemoryReport {
            va: format_hex(va.get()),
            bytes: read.bytes.len() as u64,
            element: element.name(),
            hex: as_hex.then(|| read.bytes.iter().map(|b| format!("{b:02x}")).collect()),
            elements: as_elements.then(|| elements_text(element, &read.bytes).collect()),
            holes: holes(va, &read),
        })?;
    }
    Ok(Exit::Good)
}

/// Prints bytes of device memory, or the list of its buffers.
/// Reads a range as [`GpuMemoryView::read_range`] does, in pieces of this size, so that it can be cancelled.
fn read_in_pieces(
    view: &GpuMemoryView<'_>,
    va: GpuVa,
    bytes: u64,
    piece: u64,
    progress: &Progress,
) -> Result<BufferBytes, Cancelled> {
    let mut whole = BufferBytes {
        bytes: Vec::new(),
        holes: Vec::new(),
    };
    if va.get().checked_add(bytes).is_none() {
        return Ok(view.read_range(va, bytes));
    }
    let mut done = 0;
    while done < bytes {
        progress.check()?;
        let len = (bytes - done).min(piece);
        let part = view.read_range(GpuVa::new(va.get().saturating_add(done)), len);
        whole.bytes.extend_from_slice(&part.bytes);
        for (range, state) in part.holes {
            let range = done.saturating_add(range.start)..done.saturating_add(range.end);
            match whole.holes.last_mut() {
                Some((last, known)) if last.end == range.start && *known == state => last.end = range.end,
                _ => whole.holes.push((range, state)),
            }
        }
        done = done.saturating_add(len);
    }
    Ok(whole)
}

fn print_api_memory(arguments: &Arguments, opened: &SourceRecording, out: &mut Out) -> Result<Exit, Failure> {
    if arguments.asked.is_requested() {
        wasm_recordings::reject_run(
            opened,
            "it has no memory between launches that --on could read; without --on, `kinescope memory` prints inputs and \
             outputs by name",
        )?;
    }
    if arguments.search.is_some() {
        return Err(Failure::usage("--search is not for API traces"));
    }
    let mut api_trace = api_trace::load(opened)?;
    let event = opened
        .check_event(arguments.event)?
        .min(opened.recording.events.len() as u64);
    let text = match (&arguments.buffer, &arguments.address) {
        (Some(name), _) => name,
        (None, Some(address)) => address,
        (None, None) if arguments.asked.is_requested() => {
            return Err(Failure::usage(
                "--on reads bytes on a target: an address or --buffer is needed",
            ));
        }
        (None, None) => return device::print_buffers(opened, &api_trace, event, out),
    };
    let event = api_trace::find_event(opened, &api_trace, text, arguments.event)?;
    let va = api_trace::parse_address(opened, &api_trace, text)?;
    // A name refers to the whole buffer. For an address, the user gives the size.
    let bytes = match api_trace::find_named(opened, &api_trace, text) {
        Some((_, all)) => arguments.bytes.map_or(all, |n| n.min(all)),
        None => arguments.bytes.unwrap_or(256),
    };
    let mut whole = true;
    let range = va..va.saturating_add(bytes);
    let known = api_trace.pieces(&opened.recording, range.clone(), event);
    if known.iter().any(|p| !p.state.is_known()) && bytes > 0 {
        (api_trace, whole) =
            arguments
                .asked
                .trace_memory(opened, api_trace, memory_trace::request_for_memory(range, event))?;
    }
    device::print_memory(
        opened,
        &api_trace,
        (va.get(), bytes, event),
        file_form(arguments, api_trace.annotations().find_buffer(text), bytes),
        arguments.to.as_deref(),
        out,
    )?;
    Ok(Exit::differs_if(!whole))
}

/// Returns the element type that the user wants, or for a file the form that the program gave to all of these bytes.
fn file_form(arguments: &Arguments, named: Option<&NamedBuffer>, bytes: u64) -> Option<BufferShape> {
    let wanted = arguments.element.map(|element| BufferShape {
        element,
        shape: Vec::new(),
    });
    let named = named.filter(|n| arguments.to.is_some() && n.name.bytes == bytes);
    wanted.or_else(|| named?.name.form.clone())
}

fn state_name(state: ByteState) -> &'static str {
    match state {
        ByteState::Content => "content",
        ByteState::NoContent => "mapped without content",
        ByteState::Unmapped => "not mapped",
    }
}

fn holes(va: GpuVa, read: &BufferBytes) -> Vec<Hole<'_>> {
    let hole = |(range, state): &(std::ops::Range<u64>, ByteState)| Hole {
        va: format_hex(va.get().saturating_add(range.start)),
        bytes: range.end.saturating_sub(range.start),
        state: state_name(*state),
    };
    read.holes.iter().map(hole).collect()
}

/// Warns on standard error which bytes are zero because their content is unknown.
fn warn_about_holes(va: GpuVa, read: &BufferBytes) {
    for hole in holes(va, read).iter().take(MAX_HOLES) {
        let bytes = format_count(hole.bytes, "byte");
        complain(format_args!("{}: {bytes} {}, printed as 0", hole.va, hole.state));
    }
    let more = read.holes.len().saturating_sub(MAX_HOLES);
    if more > 0 {
        complain(format_args!("and {more} more such ranges (--json lists all)"));
    }
}

fn search(view: &GpuMemoryView<'_>, text: &str, buffers: &[Buffer], out: &mut Out) -> Result<Exit, Failure> {
    let pattern = pattern::parse(text, None, buffers).map_err(|e| Failure::usage(format!("--search: {e}")))?;
    let hits = progress_line::run_with_progress("searching", |progress, _| {
        view.search(&pattern, GpuVa::ZERO..GpuVa::MAX, progress)
            .map_err(|e| Failure::usage(e.to_string()))
    })?;
    if hits.len() >= MAX_HITS {
        complain(format_args!(
            "only the first {MAX_HITS} addresses are listed; there are more"
        ));
    }
    if out.is_json() {
        out.array(hits.iter().map(|h| format_hex(h.va.get())))?;
    } else {
        for h in &hits {
            out.line(h.va)?;
        }
    }
    Ok(Exit::differs_if(hits.is_empty()))
}

/// Prints lines of sixteen bytes, or of as many elements as fit in sixteen bytes. Bytes that the recording does not
/// contain show as `--`. A line without any bytes is collapsed.
fn text(va: GpuVa, read: &BufferBytes, element: Option<ElementType>, out: &mut Out) -> Result<(), Failure> {
    let held = |at: u64| !read.holes.iter().any(|(r, _)| r.contains(&at));
    let mut skipped_to = 0;
    for (row, chunk) in read.bytes.chunks(16).enumerate() {
        let at = row as u64 * 16;
        if at < skipped_to {
            continue;
        }
        let here = va.get().saturating_add(at);
        if let Some((range, state)) = read.holes.iter().find(|(r, _)| r.contains(&at) && r.end >= at + 16) {
            let lines_end = range.end - range.end % 16;
            out.line(format_args!(
                "{here:#014x}  {} {}",
                format_count(lines_end - at, "byte"),
                state_name(*state)
            ))?;
            skipped_to = lines_end;
            continue;
        }
        if let Some(element) = element {
            let values: Vec<String> = elements_text(element, chunk).collect();
            out.line(format_args!("{here:#014x}  {}", values.join("  ")))?;
            continue;
        }
        let mut digits = String::new();
        let mut letters = String::new();
        for (i, b) in chunk.iter().enumerate() {
            let known = held(at + i as u64);
            digits.push_str(&if known { format!("{b:02x} ") } else { "-- ".to_owned() });
            letters.push(if known && (b.is_ascii_graphic() || *b == b' ') {
                char::from(*b)
            } else {
                '.'
            });
        }
        out.line(format_args!("{here:#014x}  {digits:<48} {letters}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ctrl-C waited for the end of a long read.
    #[test]
    fn pieces_are_the_same_as_the_whole_and_can_be_cancelled() {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample-traces/vecadd.kine");
        let recording = trace_core::container::open(sample.as_ref()).unwrap();
        let view = GpuMemoryView::at(&recording, 0, recording.events.len() as u64).unwrap();
        let start = recording.metadata.buffers[0].va.get().saturating_sub(0x1800);
        for (start, bytes) in [(start, 0x9000), (start, 0), (u64::MAX - 0x100, 0x1000)] {
            let whole = view.read_range(GpuVa::new(start), bytes);
            let pieces = read_in_pieces(&view, GpuVa::new(start), bytes, 0x123, &Progress::new()).unwrap();
            assert_eq!((pieces.bytes, pieces.holes), (whole.bytes, whole.holes), "{start:#x}");
        }
        let cancelled = Progress::new();
        cancelled.cancel();
        assert!(read_in_pieces(&view, GpuVa::new(start), 1 << 30, PIECE, &cancelled).is_err());
    }
}
