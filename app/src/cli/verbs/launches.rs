//! `launches`: lists every launch of an API trace, with decoded arguments.

use crate::cli::out::{format_count, format_duration};
use crate::cli::source::Source;
use crate::cli::trace_arguments::TraceArguments;
use crate::cli::{Exit, Failure, Out, Verb, api_trace, format_hex};
use clap::{Args, FromArgMatches as _};
use kinescope_session::launch_times::{DEFAULT_REPEATS, MAX_REPEATS};
use kinescope_session::{api_trace as words, memory_trace};
use serde::Serialize;
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, Argument, BufferLocation, Value};
use trace_core::recording::{CALL_OF_GRAPH, LaunchRow};

pub const VERB: Verb = Verb {
    name: "launches",
    about: "List the kernel launches of an API trace with their arguments",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Print only launches of kernels whose name contains this text, ignoring case
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    #[command(flatten)]
    asked: TraceArguments,
    /// Number of replays on the target to measure each launch; the shortest time counts. 0: no measurement
    #[arg(long, value_name = "N", default_value_t = DEFAULT_REPEATS, value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_REPEATS)), requires = "on")]
    repeat: u32,
}

/// A launch, with names instead of indices.
#[derive(Serialize)]
struct Row {
    /// Number of the launch, and its event.
    launch: u32,
    event: u64,
    /// Name of the kernel in its source, if it is known.
    kernel: String,
    /// Index of the kernel, as in `kernels`.
    function: u32,
    /// Three numbers each.
    grid: [u32; 3],
    block: [u32; 3],
    /// Three numbers; `null` if none was requested.
    cluster: Option<[u32; 3]>,
    /// Bytes of requested shared memory.
    shared: u32,
    /// The stream, and its name.
    stream: u32,
    stream_name: String,
    /// Whether it is a cooperative launch.
    cooperative: bool,
    /// Whether the launch of a graph executed it.
    of_graph: bool,
    /// Time of the call on the host.
    took_ns: u32,
    /// Shortest time of the launch on the target's device; `null` if no target measured it.
    device_ns: Option<u64>,
    /// Result of the call; 0 means success.
    result: u32,
    /// Its arguments.
    arguments: Vec<ArgumentRow>,
    /// Memory that the launch changed, by a target or by the recorder. `null` instead of the array: nobody observed it.
    changed: Option<Vec<ChangedRow>>,
}

/// Memory that a launch changed, with the name of its buffer.
#[derive(Serialize)]
struct ChangedRow {
    /// The buffer; `null` outside all buffers.
    buffer: Option<String>,
    /// The first byte in words, with the name that the program gave the memory.
    location: String,
    /// Address of the first byte, and one past the last byte.
    va: String,
    end_va: String,
    /// Number of changed bytes.
    bytes: u64,
}

/// An argument of a launch as text.
#[derive(Serialize)]
struct ArgumentRow {
    /// Position in the parameter buffer, and size.
    offset: u32,
    bytes: u32,
    /// Name in the PTX; empty if there is none, or if the compiler only numbered it.
    name: String,
    /// Type by the signature or the PTX; empty if neither gives it.
    #[serde(rename = "type")]
    kind: String,
    /// The value as text.
    value: String,
    /// Addresses in the argument that lie in a buffer.
    pointers: Vec<PointerRow>,
}

/// An address in an argument, with the name of its buffer.
#[derive(Serialize)]
struct PointerRow {
    /// Offset in the argument, bytes.
    at: u32,
    /// The address.
    va: String,
    /// The buffer, and the offset in it.
    buffer: String,
    buffer_offset: u64,
    /// The address in words, with the name that the program gave the memory.
    location: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    arguments.asked.prestart();
    let opened = arguments.source.open()?;
    let api_trace = api_trace::load(&opened)?;
    let request = memory_trace::request_for_launches(&opened.recording);
    let (api_trace, whole) = arguments.asked.trace_memory(&opened, api_trace, request)?;
    let times = match arguments.repeat {
        0 => BTreeMap::new(),
        repeat => arguments.asked.launch_times(&opened, repeat)?,
    };
    let search = arguments.kernel.as_deref().unwrap_or_default();
    let functions = words::match_launches(&api_trace, search);
    let passes = |f: u32| functions.get(f as usize).copied().unwrap_or(search.trim().is_empty());
    let chosen = (0u32..).zip(api_trace.launches()).filter(|(_, l)| passes(l.function));
    let rows = chosen.filter_map(|(n, l)| {
        let row = words::launch(&opened.recording, l.event)?;
        let list = api_trace.arguments(&opened.recording, l.event, &row);
        let device_ns = times.get(&l.event).copied();
        Some(report(&api_trace, n, l.event, &row, device_ns, &list))
    });
    if out.is_json() {
        out.array(rows)?;
        return Ok(Exit::differs_if(!whole));
    }
    let mut table = vec![
        [
            "Launch",
            "Event",
            "Kernel",
            "Grid",
            "Block",
            "Shared",
            "Stream",
            "Host",
            "Result",
            "Arguments",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let changes = api_trace.has_changes() || arguments.asked.is_requested();
    if changes && let Some(heads) = table.first_mut() {
        heads.push("Changed".to_owned());
    }
    if !times.is_empty()
        && let Some(heads) = table.first_mut()
    {
        heads.push("Device".to_owned());
    }
    for r in rows {
        let worded = |a: &ArgumentRow| match a.name.as_str() {
            "" => a.value.clone(),
            name => format!("{name} = {}", a.value),
        };
        let messages: Vec<String> = r.arguments.iter().map(worded).collect();
        table.push(vec![
            r.launch.to_string(),
            r.event.to_string(),
            words::short_function_name(&r.kernel).to_owned(),
            format_dim3(r.grid),
            format_dim3(r.block),
            r.shared.to_string(),
            r.stream_name,
            format_duration(u64::from(r.took_ns)),
            if r.result == 0 {
                "ok".to_owned()
            } else {
                format!("failed {}", r.result)
            },
            messages.join(", "),
        ]);
        if changes && let Some(line) = table.last_mut() {
            line.push(describe_changes(r.changed.as_deref()));
        }
        if !times.is_empty()
            && let Some(line) = table.last_mut()
        {
            line.push(r.device_ns.map_or_else(|| "not known".to_owned(), format_duration));
        }
    }
    out.table(&table)?;
    Ok(Exit::differs_if(!whole))
}

fn describe_changes(changed: Option<&[ChangedRow]>) -> String {
    let Some(changed) = changed else {
        return "not known".to_owned();
    };
    if changed.is_empty() {
        return "nothing".to_owned();
    }
    let one = |c: &ChangedRow| {
        let place = c.buffer.as_deref().unwrap_or(&c.va);
        format!("{place}: {}", format_count(c.bytes, "byte"))
    };
    changed.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn format_dim3(d: [u32; 3]) -> String {
    format!("{}x{}x{}", d[0], d[1], d[2])
}

fn report(
    api_trace: &ApiTrace,
    n: u32,
    event: u64,
    l: &LaunchRow,
    device_ns: Option<u64>,
    arguments: &[Argument],
) -> Row {
    Row {
        launch: n,
        event,
        kernel: api_trace.function_name(l.function).to_owned(),
        function: l.function,
        grid: l.grid,
        block: l.block,
        cluster: (l.cluster != [0; 3]).then_some(l.cluster),
        shared: l.shared,
        stream: l.stream,
        stream_name: api_trace.stream_name(l.stream),
        cooperative: l.flags & LaunchRow::COOPERATIVE != 0,
        of_graph: l.flags & CALL_OF_GRAPH != 0,
        took_ns: l.took,
        device_ns,
        result: l.result,
        arguments: arguments.iter().map(|a| argument(api_trace, a)).collect(),
        changed: api_trace.launch_changes(event).map(|left| {
            let row = |l: &trace_core::api_trace::BufferChange| ChangedRow {
                buffer: l.buffer.and_then(|n| Some(api_trace.buffers().get(n)?.name.clone())),
                location: api_trace.buffers().format_address(l.span.start, event),
                va: format_hex(l.span.start.get()),
                end_va: format_hex(l.span.end.get()),
                bytes: l.bytes,
            };
            left.list.iter().map(row).collect()
        }),
    }
}

fn argument(api_trace: &ApiTrace, a: &Argument) -> ArgumentRow {
    let pointer = |at: u32, to: GpuVa, place: BufferLocation| PointerRow {
        at,
        va: format_hex(to.get()),
        buffer: api_trace
            .buffers()
            .get(place.buffer)
            .map_or_else(String::new, |b| b.name.clone()),
        buffer_offset: place.offset,
        location: api_trace.buffers().format_location(place, a.event),
    };
    let pointers = match &a.value {
        Value::Pointer { to, place: Some(p), .. } => vec![pointer(0, *to, *p)],
        Value::Bytes(list) => list.iter().map(|(at, to, p)| pointer(*at, *to, *p)).collect(),
        _ => Vec::new(),
    };
    ArgumentRow {
        offset: a.parameter.offset,
        bytes: a.parameter.bytes,
        name: a.parameter.label.clone(),
        kind: a.parameter.name.clone(),
        value: a.describe(api_trace),
        pointers,
    }
}
