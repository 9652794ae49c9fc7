//! `jobs`: lists every submission with its decoded job chain.

use crate::cli::out::format_interval;
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb, empty_result, format_hex};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::channel_names::ChannelNames;
use trace_core::families::{self, ChainEnd, ChainJob, Dispatch, Family, JobForm};
use trace_core::memory::GpuMemoryView;
use trace_core::recording::{ChainReport, Recording};
use trace_core::timeline::JobSpan;

pub const VERB: Verb = Verb {
    name: "jobs",
    about: "List jobs with their chains, dispatches, shaders and durations",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Print only the job with this index, from 0
    #[arg(long, value_name = "JOB")]
    job: Option<u32>,
}

/// A submission; the keys other than `chain` describe the head of the chain, which the engine reads separately.
#[derive(Serialize)]
struct Submit {
    /// Number of the submit.
    index: u32,
    /// Its events; `done_event` is `null` if it did not end. In a driver trace it is an event where saved memory shows that
    /// the ring entry is complete, and `null` if its end is unknown.
    submit_event: u64,
    done_event: Option<u64>,
    /// Name of the queue that it was submitted to; absent if the recording does not name queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// Start of the chain.
    head_va: String,
    /// Type of the first job of the chain. For a submit of an Adreno it is `command stream`, and nothing is decoded.
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    /// Of the first job of the chain.
    decoded: bool,
    dispatch: Option<Dispatch>,
    shader_va: Option<String>,
    /// Its duration; `null` if it did not end, or its end is not known exactly.
    duration_ns: Option<u64>,
    /// Its duration if the clock counts ticks; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ticks: Option<u64>,
    /// How the chain ended on the recorded machine; `null` if the recorder does not say.
    recorded: Option<RecordedResult>,
    /// The jobs of the chain.
    chain: Vec<Job>,
    /// Why the chain ends, in words.
    chain_end: String,
}

/// The recorded end of a chain, with its status as text. Recordings store the number.
#[derive(Serialize)]
struct RecordedResult {
    /// Exception code that its slot reported.
    status: String,
    /// Whether its shaders ran; `null` if the recorder does not say.
    computed: Option<bool>,
    /// Why not, in words.
    reason: Option<String>,
}

/// A job of a chain, with the name of its type.
#[derive(Clone, Serialize)]
struct Job {
    /// Address of the descriptor.
    va: String,
    /// Type of the job; `null` for an unknown type.
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    /// Whether the descriptor could be decoded.
    decoded: bool,
    /// The dispatch of its shader; `null` if it has none.
    dispatch: Option<Dispatch>,
    /// Address of the shader; `null` if it has none.
    shader_va: Option<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let mut timeline = opened.timeline()?;
    if let Some(job) = arguments.job {
        let all = timeline.jobs.len() as u64;
        timeline.jobs.retain(|j| j.index == job);
        if timeline.jobs.is_empty() {
            return Err(empty_result::no_such_job(job.into(), all, &opened));
        }
    }
    let events: Vec<u64> = timeline.jobs.iter().map(|s| s.submit_event).collect();
    // Each job in the address space that it runs in, with memory as at its submission.
    let memory = opened
        .map
        .map(|map| families::memory_at_submits(&opened.recording, map, &events))
        .unwrap_or_default();
    let reports = opened.recording.chain_reports();
    let family = families::find_family(&opened.recording);
    let clock = opened.recording.metadata.identity.clock;
    let form = families::job_form(&opened.recording);
    let has_no_chains = matches!(
        form,
        JobForm::CommandStreams | JobForm::ControlLists | JobForm::RingEntries | JobForm::DriverJobs
    );
    let submits = timeline.jobs.iter().zip(&memory).map(|(span, memory)| {
        let mut submit = submit(family, span, memory.as_ref());
        if has_no_chains {
            submit.kind = Some(families::job_type(&opened.recording, span.slot));
            submit.chain_end = "no chain".to_owned();
        }
        if clock.counts_ticks() {
            submit.duration_ticks = submit.duration_ns.take();
        }
        submit.queue = opened.recording.job_queue(span.slot).map(str::to_owned);
        let report = reports.binary_search_by_key(&span.submit_event, |r| r.submit_event);
        submit.recorded = report.ok().and_then(|at| reports.get(at)).map(recorded_result);
        submit
    });
    if out.is_json() {
        out.array(submits)?;
        return Ok(Exit::Good);
    }
    // Recordings of ring entries do not show when these end.
    let without_end = match form {
        JobForm::RingEntries => "unknown",
        _ => "never",
    };
    let head = [
        "Job",
        "Submit",
        "Done",
        "Head",
        "Type",
        "Chain",
        "Workgroups",
        "Size",
        "Shader",
        "Duration",
        "Computed",
    ];
    // Only outcomes show whether a job computed.
    let reported = if reports.is_empty() { head.len() - 1 } else { head.len() };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut reasons: Vec<String> = Vec::new();
    let mut queues = vec!["Queue".to_owned()];
    let three = |v: [u32; 3]| format!("{}x{}x{}", v[0], v[1], v[2]);
    for s in submits {
        queues.push(s.queue.unwrap_or_else(|| "-".to_owned()));
        rows.push(vec![
            s.index.to_string(),
            s.submit_event.to_string(),
            s.done_event.map_or_else(|| without_end.into(), |e| e.to_string()),
            s.head_va,
            s.kind.unwrap_or("not decoded").to_owned(),
            if has_no_chains {
                "-".into()
            } else {
                s.chain.len().to_string()
            },
            s.dispatch.map_or_else(|| "-".into(), |d| three(d.workgroups)),
            s.dispatch.map_or_else(|| "-".into(), |d| three(d.size)),
            s.shader_va.unwrap_or_else(|| "-".into()),
            s.duration_ns
                .or(s.duration_ticks)
                .map_or_else(|| "-".into(), |n| format_interval(clock, n)),
            match s.recorded.as_ref().map(|r| (r.status.as_str(), r.computed)) {
                Some(("0x1", Some(true))) => "yes".into(),
                Some(("0x1", Some(false))) => "no".into(),
                Some(("0x1", None)) | None => "-".into(),
                Some((status, _)) => format!("failed {status}"),
            },
        ]);
        if let Some(why) = s.recorded.and_then(|r| r.reason).filter(|w| !reasons.contains(w)) {
            reasons.push(why);
        }
    }
    let none = rows.len() == 1;
    rows.iter_mut().for_each(|row| row.truncate(reported));
    if form == JobForm::DriverJobs {
        for (row, queue) in rows.iter_mut().zip(queues) {
            row.insert(1, queue);
        }
    }
    if form == JobForm::RingEntries {
        add_channels(&opened.recording, &events, &mut rows);
    }
    out.table(&rows)?;
    if none {
        out.line(empty_result::describe_jobs(&opened))?;
    } else if form == JobForm::DriverJobs {
        out.line(
            "A job is one that the driver's trace events name; Done is the event of its end, or of the hang or reset that \
             ended it. The recording does not hold commands.",
        )?;
    } else if form == JobForm::ControlLists {
        out.line(
            "A job is a control list or a compute dispatch; Done is its interrupt. Control lists and shaders are not \
             decoded.",
        )?;
    } else if form == JobForm::CommandStreams {
        out.line(
            "A job is a submit; Done is the last register that its commands write. The file holds no times. Draws, \
             dispatches and shaders are not decoded.",
        )?;
    }
    for why in &reasons {
        out.line(format!("Job results: {why}"))?;
    }
    Ok(Exit::Good)
}

/// Adds a column with the names of the channels of ring entries, after the number of the job.
fn add_channels(recording: &Recording, events: &[u64], rows: &mut [Vec<String>]) {
    let names = ChannelNames::from_recording(recording);
    let channel = |event: u64| {
        let entry = recording.events.ring_entry(usize::try_from(event).ok()?)?;
        Some(names.find(entry.client, entry.channel)?.format())
    };
    let cells = events.iter().map(|e| channel(*e).unwrap_or_else(|| "-".to_owned()));
    let cells = std::iter::once("Channel".to_owned()).chain(cells);
    for (row, cell) in rows.iter_mut().zip(cells) {
        row.insert(1, cell);
    }
}

fn submit(family: &dyn Family, span: &JobSpan, memory: Option<&GpuMemoryView<'_>>) -> Submit {
    let (list, end) = match memory.and_then(|m| family.read_chain(m, span.head_va)) {
        Some(c) => (c.jobs.iter().map(|j| job(&**j)).collect(), c.end),
        None => (Vec::new(), ChainEnd::Unreadable(span.head_va)),
    };
    let head = list.first().cloned();
    Submit {
        index: span.index,
        submit_event: span.submit_event,
        done_event: span.done_event,
        queue: None,
        duration_ticks: None,
        head_va: format_hex(span.head_va.get()),
        kind: head.as_ref().and_then(|h: &Job| h.kind),
        decoded: head.as_ref().is_some_and(|h| h.decoded),
        dispatch: head.as_ref().and_then(|h| h.dispatch),
        shader_va: head.and_then(|h| h.shader_va),
        duration_ns: span.done_ns.map(|done| done.saturating_sub(span.submit_ns)),
        recorded: None,
        chain: list,
        chain_end: match end {
            ChainEnd::End => "end".into(),
            ChainEnd::Loop(va) => format!("loops back to {va}"),
            ChainEnd::Unreadable(va) => format!("unreadable at {va}"),
            ChainEnd::Undecoded(va) => format!("not a job at {va}"),
            ChainEnd::Limit => "longer than the limit".into(),
        },
    }
}

fn recorded_result(report: &ChainReport) -> RecordedResult {
    RecordedResult {
        status: format_hex(u64::from(report.status)),
        computed: report.computed,
        reason: report.reason.clone(),
    }
}

fn job(job: &dyn ChainJob) -> Job {
    Job {
        va: format_hex(job.va().get()),
        kind: job.type_name(),
        decoded: job.is_decoded(),
        dispatch: job.dispatch(),
        shader_va: job.shader_va().map(|va| format_hex(va.get())),
    }
}
