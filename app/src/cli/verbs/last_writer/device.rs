//! `last-writer` of an API trace: the calls that may have written a byte of device memory.

use crate::cli::out::format_count;
use crate::cli::source::SourceRecording;
use crate::cli::{Exit, Failure, Out, format_hex};
use kinescope_session::api_trace as words;
use serde::Serialize;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, CertainWriter, LastWriter};

/// The last writer of a byte, with the names of its buffer and of kernels.
#[derive(Serialize)]
struct LastWriterReport {
    /// Address of the byte.
    va: String,
    /// Event before which the byte is shown.
    at_event: u64,
    /// Buffer of the byte, and the offset in it.
    buffer: Option<String>,
    buffer_offset: Option<u64>,
    /// The byte's location in words at that event, with the name that the program gave the memory.
    location: Option<String>,
    /// The byte; `null` if it is unknown.
    byte: Option<String>,
    /// Whether the byte is known.
    known: bool,
    /// The source of the known value, or since when it is unknown, in words.
    state: String,
    /// The last copy or fill; `null` if there is none.
    writer: Option<WriterRow>,
    /// The last launch since then that is known to have changed the byte; `null` if there is none.
    changed: Option<ByteChange>,
    /// Whether the byte differs from what that launch left, while no other launch is in doubt. Then something in
    /// between is not recorded, or the launch leaves another value each time.
    changed_unrecorded: bool,
    /// Later launches that may have written it, the last first.
    launches: Vec<LaunchWriterRow>,
    /// Number of later launches with its address that are known to have left it unchanged.
    left_as_it_was: u64,
    /// Number of later launches whose signature says that they read it.
    readers: u64,
    /// Number of other launches.
    other_launches: u64,
    /// Event that allocated the memory.
    taken_event: Option<u64>,
}

/// A write that is certain, with its address as text.
#[derive(Serialize)]
struct WriterRow {
    /// The event.
    event: u64,
    /// `copy-from-host`, `fill` or `copy-on-device`.
    kind: &'static str,
    /// Source of a copy on the device.
    from_va: Option<String>,
}

/// A launch that changed the byte, with the name of its kernel.
#[derive(Serialize)]
struct ByteChange {
    /// The launch, and its event.
    launch: u32,
    event: u64,
    /// Name of the kernel.
    kernel: String,
    /// The byte before and after the launch.
    from: String,
    to: String,
}

/// A launch that may have written the byte, with the name of its kernel.
#[derive(Serialize)]
struct LaunchWriterRow {
    /// The launch, and its event.
    launch: u32,
    event: u64,
    /// Name of the kernel.
    kernel: String,
    /// Whether the launch has the address of the byte for certain.
    certain: bool,
    /// How the launch may reach the byte, in words.
    how: &'static str,
}

/// Prints the last writer of a byte before an event.
///
/// # Errors
/// When the output is closed or full.
pub fn print_last_writer(
    opened: &SourceRecording,
    api_trace: &ApiTrace,
    va: GpuVa,
    event: u64,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let who = api_trace.find_last_writer(&opened.recording, va, event);
    if out.is_json() {
        out.value(&report(api_trace, &who, event))?;
        return Ok(Exit::Good);
    }
    let place = match who.location {
        Some(p) => format!("{va:#x} ({})", api_trace.buffers().format_location(p, event)),
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
        va: format_hex(who.address.get()),
        at_event: event,
        buffer: buffer.map(|b| b.name.clone()),
        buffer_offset: who.location.map(|p| p.offset),
        location: who.location.map(|p| api_trace.buffers().format_location(p, event)),
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
                CertainWriter::CopyFrom(from) => Some(format_hex(from.get())),
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
