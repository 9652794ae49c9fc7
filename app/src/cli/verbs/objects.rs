//! `objects`: lists the objects of the kernel driver in a driver trace, with their life time.

use crate::cli::driver_trace::{format_known, load, name_object};
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::driver_trace::{DriverObject, DriverTrace};
use trace_core::recording::{DriverTraceMetadata, ObjectKind, ObjectRow};

pub const VERB: Verb = Verb {
    name: "objects",
    about: "List the objects of the kernel driver: buffers, channels, address spaces, with their life time",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// List only the objects that exist just before this event
    #[arg(long, visible_alias = "event", value_name = "EVENT")]
    at: Option<u64>,
}

/// An object of the kernel driver. The engine has numbers in place of names and texts.
#[derive(Serialize)]
struct Row<'a> {
    /// `client`, `device`, `subdevice`, `address-space`, `channel-group`, `context`, `channel`, `engine`, `buffer`,
    /// `registers`, `event`, `other` or `unknown`.
    kind: &'static str,
    /// Handle and class; `null` if the recording does not state them.
    handle: Option<String>,
    class: Option<String>,
    /// Size; `null` if unknown, and for channels.
    bytes: Option<u64>,
    /// GPU address of a buffer, where it was mapped first; `null` if unknown, and for channels.
    address: Option<String>,
    /// Events that created and freed it; `null` if they are not recorded.
    alloc_event: Option<u64>,
    free_event: Option<u64>,
    /// The function that asked for it; `null` if unknown.
    caller: Option<&'a str>,
    /// For channels: the push buffer, `null` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    push_buffer: Option<Option<PushBuffer>>,
    /// For channels: the ring, `null` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    indirect_buffer: Option<Option<IndirectBuffer>>,
}

/// The push buffer of a channel.
#[derive(Serialize)]
struct PushBuffer {
    /// GPU address.
    address: Option<String>,
    /// Size.
    bytes: Option<u64>,
}

/// The ring of a channel.
#[derive(Serialize)]
struct IndirectBuffer {
    /// GPU address.
    address: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    opened.check_event(arguments.at)?;
    let trace = load(&opened)?;
    let metadata = opened.recording.driver_trace();
    let all = trace.objects().iter().enumerate();
    let all = all.filter(|(_, o)| arguments.at.is_none_or(|event| o.exists_at(event)));
    if out.is_json() {
        out.array(all.map(|(_, o)| row(o, metadata)))?;
        return Ok(Exit::Good);
    }
    let head = [
        "Object",
        "Kind",
        "Class",
        "Bytes",
        "Address",
        "Created",
        "Freed",
        "Parent",
        "Asked for by",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(all.map(|(index, o)| text_row(index, o, &trace, metadata)));
    let none = rows.len() == 1;
    out.table(&rows)?;
    if none {
        out.line("no objects")?;
    }
    Ok(Exit::Good)
}

fn kind_name(object: &DriverObject) -> &'static str {
    object.kind.map_or("unknown", ObjectKind::name)
}

fn row<'a>(object: &DriverObject, metadata: Option<&'a DriverTraceMetadata>) -> Row<'a> {
    let is_channel = object.kind == Some(ObjectKind::Channel);
    let address = object.address.map(|a| a.to_string());
    let push_buffer = (address.is_some() || object.bytes.is_some()).then(|| PushBuffer {
        address: address.clone(),
        bytes: object.bytes,
    });
    let indirect_buffer = object.ring.map(|ring| IndirectBuffer {
        address: ring.to_string(),
    });
    Row {
        kind: kind_name(object),
        handle: format_known(object.handle),
        class: format_known(object.class),
        bytes: object.bytes.filter(|_| !is_channel),
        address: address.filter(|_| !is_channel),
        alloc_event: object.alloc_event,
        free_event: object.free_event,
        caller: object.caller.and_then(|c| metadata?.name(c)),
        push_buffer: is_channel.then_some(push_buffer),
        indirect_buffer: is_channel.then_some(indirect_buffer),
    }
}

fn text_row(
    index: usize,
    object: &DriverObject,
    trace: &DriverTrace,
    metadata: Option<&DriverTraceMetadata>,
) -> Vec<String> {
    let parent = object
        .parent
        .and_then(|p| Some(name_object(trace.objects().get(p)?, p)));
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let place = match object.flags {
        f if f & ObjectRow::HOST_MEMORY != 0 => " (host)",
        _ => "",
    };
    let address = match (object.address, object.ring) {
        (Some(at), Some(ring)) => Some(format!("{at}, ring {ring}")),
        (None, Some(ring)) => Some(format!("ring {ring}")),
        (at, None) => at.map(|at| at.to_string()),
    };
    vec![
        name_object(object, index),
        format!("{}{place}", kind_name(object)),
        or_dash(format_known(object.class)),
        or_dash(object.bytes.map(|b| b.to_string())),
        or_dash(address),
        or_dash(object.alloc_event.map(|e| e.to_string())),
        or_dash(object.free_event.map(|e| e.to_string())),
        or_dash(parent),
        or_dash(object.caller.and_then(|c| metadata?.name(c)).map(str::to_owned)),
    ]
}
