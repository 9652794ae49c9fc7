//! `channels`: lists the channels of a driver trace, with their submissions and doorbells.

use crate::cli::driver_trace::{format_known, load, name_object};
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::channel_names::ChannelNames;
use trace_core::families::find_family;

pub const VERB: Verb = Verb {
    name: "channels",
    about: "List the channels of a driver trace, with their submissions and doorbells",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
}

/// A channel. The engine keeps its handle and class with its object.
#[derive(Serialize)]
struct Row {
    /// Handle and class; `null` if the recording does not state them.
    handle: Option<String>,
    class: Option<String>,
    /// Engine that runs its commands: `graphics and compute`, `copy engine` or `copy engine N`; `null` if unknown.
    engine: Option<String>,
    /// Number of ring entries.
    submits: u64,
    /// Number of doorbells: stores that make the GPU read the ring.
    doorbells: u64,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let trace = load(&opened)?;
    let object = |n: usize| trace.objects().get(n);
    let engines = find_family(&opened.recording).channel_engines(&opened.recording);
    let engine = |n: usize| {
        let object = trace.objects().get(n)?;
        let key = (object.client.unwrap_or(0), object.handle.unwrap_or(0));
        engines.get(&key).map(|e| e.describe())
    };
    if out.is_json() {
        out.array(trace.channels().iter().map(|c| Row {
            handle: format_known(object(c.object).and_then(|o| o.handle)),
            class: format_known(object(c.object).and_then(|o| o.class)),
            engine: engine(c.object),
            submits: c.submits,
            doorbells: c.doorbells,
        }))?;
        return Ok(Exit::Good);
    }
    let names = ChannelNames::from_recording(&opened.recording);
    let head = [
        "Channel",
        "Handle",
        "Class",
        "Engine",
        "Ring",
        "Submits",
        "Doorbells",
        "Created",
        "Freed",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in trace.channels() {
        let Some(o) = object(c.object) else { continue };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        rows.push(vec![
            or_dash(names.find_object(o).map(|n| n.format())),
            name_object(o, c.object),
            or_dash(format_known(o.class)),
            or_dash(engine(c.object)),
            or_dash(o.ring.map(|r| r.to_string())),
            c.submits.to_string(),
            c.doorbells.to_string(),
            or_dash(o.alloc_event.map(|e| e.to_string())),
            or_dash(o.free_event.map(|e| e.to_string())),
        ]);
    }
    let none = rows.len() == 1;
    out.table(&rows)?;
    if none {
        out.line("no channels")?;
    }
    Ok(Exit::Good)
}
