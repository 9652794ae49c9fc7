//! `events`: what happened, in order, with names and meanings.

use super::source::{Opened, Source, number};
use super::{Exit, Failure, Out, Verb, filtered, hex, waiting};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use trace_core::recording::{DmaMapRow, EventKind, InterruptLine};

pub const VERB: Verb = Verb {
    name: "events",
    about: "What happened, in order, with register names and meanings",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Only these events: FIRST..END (END not included), either may be left out
    #[arg(long, value_name = "FIRST..END", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Only events that pass this filter: 'reg =~ "JS1_.*" and write and value & 0x100 != 0' (docs/query.md)
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<String>,
    /// Only registers whose name contains this, in any case
    #[arg(long, value_name = "TEXT")]
    register: Option<String>,
    /// Only writes
    #[arg(long, conflicts_with = "reads")]
    writes: bool,
    /// Only reads
    #[arg(long)]
    reads: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let bad = || format!("'{text}' is not a range (expected FIRST..END)");
    let (first, end) = text.split_once("..").ok_or_else(bad)?;
    let part = |t: &str, default| if t.is_empty() { Ok(default) } else { number(t) };
    let (first, end) = (part(first, 0)?, part(end, u64::MAX)?);
    if first > end {
        return Err(format!(
            "'{text}' ends before it begins (expected FIRST..END, END not included)"
        ));
    }
    Ok((first, end))
}

/// An event as JSON shows it; keys that its kind has not are left out.
#[derive(Serialize)]
struct Event {
    event: u64,
    kind: &'static str,
    time_ns: u64,
    thread: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let count = opened.recording.events.len() as u64;
    let (first, end) = arguments.range.unwrap_or((0, u64::MAX));
    opened.before(Some(first))?;
    let range = first.min(count)..end.min(count);
    let wanted = Wanted {
        register: arguments.register.as_ref().map(|r| r.to_ascii_lowercase()),
        kind: match (arguments.reads, arguments.writes) {
            (true, _) => Some(EventKind::Read),
            (_, true) => Some(EventKind::Write),
            _ => None,
        },
    };
    let filter = match &arguments.filter {
        Some(text) => Some(filtered::compile("--where", text, &opened)?),
        None => None,
    };
    let each = |out: &mut Out, add: &mut dyn FnMut(&mut Out, &Event) -> io::Result<()>| match &filter {
        None => range
            .clone()
            .filter_map(|e| shown(&opened, e, &wanted))
            .try_for_each(|e| add(out, &e))
            .map_err(Failure::from),
        Some(filter) => waiting::printing("filtering events", |progress, _| {
            let mut flushed: Option<Instant> = None;
            let mut failed = None;
            let scanned = filter.scan(&opened.recording.events, range.clone(), progress, |found| {
                let mut events = found.events().filter_map(|e| shown(&opened, e, &wanted));
                let mut done = events.try_for_each(|e| add(out, &e));
                // Whoever reads along sees the first ones at once, and the others as they come.
                if done.is_ok() && flushed.is_none_or(|f| f.elapsed() > PATIENCE) {
                    done = out.flush();
                    flushed = Some(Instant::now());
                }
                match done {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(e) => {
                        failed = Some(e);
                        ControlFlow::Break(())
                    }
                }
            });
            match failed {
                Some(e) => Err(e.into()),
                None => scanned.map_err(|e| Failure::file(&opened.file, e)),
            }
        }),
    };
    if out.json() {
        out.array_of(each)?;
    } else {
        each(out, &mut |out, e| {
            let what = e.register.as_ref().or(e.offset.as_ref()).map_or("", String::as_str);
            let value = e.value.as_deref().unwrap_or_default();
            let means = e.means.as_deref().unwrap_or_default();
            let line = format!(
                "{:>8}  {:>12.3} us  {:>6}  {:<9}  {what:<24}  {value:>10}  {means}",
                e.event,
                e.time_ns as f64 / 1e3,
                e.thread,
                e.kind,
            );
            out.line(line.trim_end())
        })?;
    }
    Ok(Exit::Good)
}

/// Time between two looks of whoever reads along.
const PATIENCE: Duration = Duration::from_millis(100);

/// What was asked for.
struct Wanted {
    register: Option<String>,
    kind: Option<EventKind>,
}

/// An event as it is shown; `None` where it is not what was asked for.
fn shown(opened: &Opened, index: u64, wanted: &Wanted) -> Option<Event> {
    let events = &opened.recording.events;
    let at = usize::try_from(index).ok()?;
    let kind = events.kind(at);
    if wanted.kind.is_some() && wanted.kind != kind {
        return None;
    }
    let mut event = Event {
        event: index,
        kind: "unknown",
        time_ns: events.time.get(at)?,
        thread: events.thread.get(at)?,
        space: None,
        offset: None,
        register: None,
        width: None,
        value: None,
        means: None,
    };
    let payload = events.payload.get(at)? as usize;
    match kind {
        Some(EventKind::Read | EventKind::Write) => {
            let access = events.access(at)?;
            event.kind = if access.write { "write" } else { "read" };
            event.space = opened
                .recording
                .facts
                .spaces
                .get(usize::from(access.space))
                .map(|s| s.name.clone());
            event.offset = Some(hex(u64::from(access.offset)));
            event.width = Some(access.width);
            event.value = Some(hex(access.value));
            event.means = opened
                .device
                .and_then(|d| d.describe(&access))
                .filter(|m| !m.is_empty());
            event.register = opened.device.and_then(|d| d.name_of(&access)).map(Cow::into_owned);
        }
        Some(EventKind::Interrupt) => {
            let row = events.interrupts.get(payload)?;
            event.kind = "interrupt";
            event.register = InterruptLine::from_raw(row.line).map(|l| l.name().to_owned());
            event.value = Some(hex(u64::from(row.status)));
        }
        Some(EventKind::Mark) => {
            event.kind = "mark";
            event.means = events.marks.get(payload).cloned();
        }
        Some(EventKind::Submit) => {
            let row = events.submits.get(payload)?;
            event.kind = "submit";
            event.value = Some(hex(row.head_va));
            event.means = Some(format!("slot {}, address space {}", row.slot, row.address_space));
        }
        Some(EventKind::HostWrite) => {
            let row = events.host_write(at)?;
            event.kind = "host-write";
            event.value = Some(hex(row.at));
            event.means = Some(format!("{} bytes", row.bytes));
        }
        Some(EventKind::Undecoded) => {
            let row = events.undecoded(at)?;
            event.kind = "undecoded";
            let space = events.space.get(at).map(usize::from);
            let space = space.and_then(|s| opened.recording.facts.spaces.get(s));
            event.space = space.map(|s| s.name.clone());
            event.offset = Some(hex(u64::from(row.offset)));
            event.width = row.width();
            event.means = Some(row.describe());
        }
        Some(EventKind::DmaMap) => {
            let row = events.dma_map(at)?;
            event.kind = "dma-map";
            event.value = (row.bus != DmaMapRow::UNKNOWN).then(|| hex(row.bus));
            event.means = Some(row.describe());
        }
        Some(kind) => {
            event.kind = kind.call_word()?;
            event.means = events.call(at).map(|c| c.describe(opened.calls.as_ref()));
        }
        None => {}
    }
    if let Some(text) = &wanted.register
        && !event
            .register
            .as_ref()
            .is_some_and(|r| r.to_ascii_lowercase().contains(text))
    {
        return None;
    }
    Some(event)
}
