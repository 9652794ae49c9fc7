//! `events`: lists the events in order, with names and decoded values.

mod times;

use crate::cli::source::{Source, SourceRecording, number};
use crate::cli::{Exit, Failure, Out, Verb, event_filter, format_hex, progress_line};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use times::EventTimes;
use trace_core::ranges;
use trace_core::recording::{DmaMapRow, EventKind, InterruptLine};
use trace_core::registers::format_location;

pub const VERB: Verb = Verb {
    name: "events",
    about: "List events in order, with register names and meanings",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Print only these events: FIRST..END excludes END, FIRST..=LAST includes LAST; either end may be omitted
    #[arg(long, value_name = "FIRST..END", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Print only events that prepare this job, and all events while it runs: its number, FIRST..END or FIRST..=LAST
    #[arg(long, value_name = "JOB", value_parser = event_filter::job_filter)]
    job: Option<String>,
    /// Print only events that pass this filter: 'reg =~ "JS1_.*" and write and value & 0x100 != 0' (docs/query.md)
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<String>,
    /// Print only registers whose name contains this text, ignoring case; for registers without a name, the offset
    #[arg(long, value_name = "TEXT")]
    register: Option<String>,
    /// Print only writes
    #[arg(long, conflicts_with = "reads")]
    writes: bool,
    /// Print only reads
    #[arg(long)]
    reads: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parsed = ranges::parse(text, number)?;
    Ok((parsed.numbers.start, parsed.numbers.end))
}

/// An event as JSON output, without the keys that its kind does not have.
#[derive(Serialize)]
struct Event {
    /// Index of the event.
    event: u64,
    /// `read`, `write`, `interrupt`, `submit`, `host-write`, `undecoded`, `dma-map`, `mark`, `launch`, `copy`, `fill`,
    /// `order`, `allocation`, `call`, `unknown`.
    kind: &'static str,
    /// Text output for an access that no map names.
    #[serde(skip)]
    place: Option<String>,
    /// Time; `null` if the clock counts ticks.
    time_ns: Option<u64>,
    /// Ticks, if the clock counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ticks: Option<u64>,
    /// Thread.
    thread: u32,
    /// Space of an access.
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    /// Offset in the space.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// Name of the register, or of the interrupt line.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<String>,
    /// Width in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u8>,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The value in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let count = opened.recording.events.len() as u64;
    let (first, end) = arguments.range.unwrap_or((0, u64::MAX));
    opened.check_event(Some(first))?;
    let range = first.min(count)..end.min(count);
    let selection = EventSelection {
        register: arguments.register.as_ref().map(|r| r.to_ascii_lowercase()),
        kind: match (arguments.reads, arguments.writes) {
            (true, _) => Some(EventKind::Read),
            (_, true) => Some(EventKind::Write),
            _ => None,
        },
    };
    if let Some(job) = &arguments.job {
        event_filter::check_job(job, &opened)?;
    }
    let filter = event_filter::of_events(arguments.filter.as_deref(), arguments.job.as_deref(), &opened)?;
    let each = |out: &mut Out, add: &mut dyn FnMut(&mut Out, &Event) -> io::Result<()>| match &filter {
        None => range
            .clone()
            .filter_map(|e| event_row(&opened, e, &selection))
            .try_for_each(|e| add(out, &e))
            .map_err(Failure::from),
        Some(filter) => progress_line::run_printing("filtering events", |progress, _| {
            let mut flushed: Option<Instant> = None;
            let mut failed = None;
            let scanned = filter.scan(&opened.recording.events, range.clone(), progress, |found| {
                let mut events = found.events().filter_map(|e| event_row(&opened, e, &selection));
                let mut done = events.try_for_each(|e| add(out, &e));
                // A reader of a pipe sees the first events at once, and the others as they come.
                if done.is_ok() && flushed.is_none_or(|f| f.elapsed() > FLUSH_INTERVAL) {
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
    if out.is_json() {
        out.array_with(each)?;
    } else {
        let times = EventTimes::for_recording(&opened.recording);
        let head = format_columns(
            "Event",
            times.column_header(),
            "Thread",
            "Kind",
            "Register",
            "Value",
            "Means",
        );
        out.line(head)?;
        each(out, &mut |out, e| {
            let what = e.register.as_ref().or(e.place.as_ref()).map_or("", String::as_str);
            let value = e.value.as_deref().unwrap_or_default();
            let means = e.means.as_deref().unwrap_or_default();
            let (event, time, thread) = (
                e.event.to_string(),
                times.format_time(e.time_ns.or(e.time_ticks).unwrap_or(0)),
                e.thread.to_string(),
            );
            out.line(format_columns(&event, &time, &thread, e.kind, what, value, means))
        })?;
    }
    Ok(Exit::Good)
}

/// Formats a line of the table. Column widths fit typical values, because events are printed as they are found.
fn format_columns(event: &str, time: &str, thread: &str, kind: &str, what: &str, value: &str, means: &str) -> String {
    let line = format!("{event:>8}  {time:>14}  {thread:>6}  {kind:<10}  {what:<24}  {value:>10}  {means}");
    line.trim_end().to_owned()
}

/// Interval between two flushes for a reader of the output.
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// The requested events.
struct EventSelection {
    register: Option<String>,
    kind: Option<EventKind>,
}

/// Returns an event as it is shown; `None` if it is not requested.
fn event_row(opened: &SourceRecording, index: u64, selection: &EventSelection) -> Option<Event> {
    let events = &opened.recording.events;
    let at = usize::try_from(index).ok()?;
    let kind = events.kind(at);
    if selection.kind.is_some() && selection.kind != kind {
        return None;
    }
    let (time, ticks) = (events.time.get(at)?, opened.recording.counts_ticks());
    let mut event = Event {
        event: index,
        kind: "unknown",
        place: None,
        time_ns: Some(time).filter(|_| !ticks),
        time_ticks: Some(time).filter(|_| ticks),
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
                .metadata
                .spaces
                .get(usize::from(access.space))
                .map(|s| s.name.clone());
            event.offset = Some(format_hex(u64::from(access.offset.get())));
            event.place = Some(format_location(&opened.recording, access.space, access.offset));
            event.width = Some(access.width);
            event.value = Some(format_hex(access.value));
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
            event.value = Some(format_hex(u64::from(row.status)));
        }
        Some(EventKind::Mark) => {
            event.kind = "mark";
            event.means = events.marks.get(payload).cloned();
        }
        Some(EventKind::Submit) => {
            let row = events.submits.get(payload)?;
            event.kind = "submit";
            event.value = Some(format_hex(row.head_va.get()));
            let has_spaces = !opened.recording.metadata.address_spaces.is_empty();
            let space = has_spaces.then(|| format!(", address space {}", row.address_space));
            let queue = u8::try_from(row.slot).ok().and_then(|s| opened.recording.job_queue(s));
            let slot = queue.map_or_else(|| format!("slot {}", row.slot), |q| format!("queue {q}"));
            event.means = Some(format!("{slot}{}", space.unwrap_or_default()));
        }
        Some(EventKind::HostWrite) => {
            let row = events.host_write(at)?;
            event.kind = "host-write";
            event.value = Some(format_hex(row.at.get()));
            event.means = Some(format!("{} bytes", row.bytes));
        }
        Some(EventKind::Undecoded) => {
            let row = events.undecoded(at)?;
            event.kind = "undecoded";
            let number = events.space.get(at).unwrap_or(0);
            let space = opened.recording.metadata.spaces.get(usize::from(number));
            event.space = space.map(|s| s.name.clone());
            event.offset = Some(format_hex(u64::from(row.offset.get())));
            event.place = Some(format_location(&opened.recording, number, row.offset));
            event.width = row.width();
            event.means = Some(row.describe());
        }
        Some(EventKind::DmaMap) => {
            let row = events.dma_map(at)?;
            event.kind = "dma-map";
            event.value = (row.bus != DmaMapRow::UNKNOWN).then(|| format_hex(row.bus.get()));
            event.means = Some(row.describe());
        }
        Some(kind) => {
            event.kind = kind.call_name().or_else(|| kind.driver_name())?;
            event.value = events
                .stored_content(at)
                .filter(|_| !kind.is_call())
                .map(|c| format_hex(c.va.get()));
            let text = opened.recording.describe_driver_event(at);
            event.means = text.or_else(|| opened.recording.describe_call(at));
        }
        None => {}
    }
    if let Some(text) = &selection.register
        && !(event.register.as_ref().or(event.place.as_ref()))
            .is_some_and(|name| name.to_ascii_lowercase().contains(text))
    {
        return None;
    }
    // The lookup of the values above compared them with their digests.
    (!opened.recording.damage.has_damage() || !events.is_damaged(at)).then_some(event)
}
