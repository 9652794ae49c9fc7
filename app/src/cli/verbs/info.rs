//! `info`: prints figures about a recording.

mod driver_trace;
mod program_ranges;
mod run_counts;

use crate::cli::failure::complain;
use crate::cli::gpu::Gpu;
use crate::cli::out::{format_count, format_duration};
use crate::cli::page_tables::describe_problems;
use crate::cli::source::{Source, SourceRecording};
use crate::cli::{Exit, Failure, Out, Verb, api_trace, format_hex};
use clap::{Args as _, FromArgMatches as _};
use driver_trace::DriverCounts;
use kinescope_session::capture_info;
use program_ranges::RangeCount;
use run_counts::RunCounts;
use serde::Serialize;
use std::collections::BTreeSet;
use trace_core::api_trace::{Annotations, buffer_shapes};
use trace_core::families::find_family;
use trace_core::mmu;
use trace_core::recording::{
    AppliedEdit, BufferRole, Capture, ChainReport, ElementType, EventKind, Hardware, ProcessIndex,
};
use wasm_recording::is_wasm_run;

pub const VERB: Verb = Verb {
    name: "info",
    about: "Print the size of every part of a recording",
    args: Source::augment_args,
    run: |matches, out| run(&Source::from_arg_matches(matches)?, out),
};

/// Figures about a recording, counted for this verb.
#[derive(Serialize)]
struct Info {
    /// Driver of the GPU, and its machine; empty if the recording does not say.
    driver: String,
    board: String,
    /// Number of events.
    events: u64,
    /// Number of reads and writes of registers among them.
    reads: u64,
    writes: u64,
    /// Number of accesses of which the recorder saw the address but not the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    undecoded: Option<u64>,
    /// Number of interrupts, polls and jobs in the events.
    interrupts: u64,
    polls: u64,
    jobs: u64,
    /// Page images of 4 KiB in the source.
    pages: u64,
    /// Page images of zeros among them.
    zero_pages: u64,
    /// Number of different page contents.
    distinct_pages: u64,
    /// Pages that the page tables map at the end, and number of page tables.
    mapped_pages: u64,
    address_spaces: u64,
    /// Named buffers.
    buffers: Vec<Buffer>,
    /// Time from the first event to the last; `null` if the clock counts ticks.
    span_ns: Option<u64>,
    /// The same in ticks, if the clock counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    span_ticks: Option<u64>,
    /// Number of events that the recorder reports as lost.
    lost_events: u64,
    /// The GPU.
    gpu: Gpu,
    /// Name of the GPU family: `mali-jm`, `v3d`, `intel`; `mmio` for devices without jobs.
    family: &'static str,
    /// Names of the queues that jobs are submitted to, by slot; absent if the recording does not name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<String>,
    /// Recording method; empty if the recording does not say.
    source: String,
    /// How a recorder on the recorded machine made the recording, if it says so; see `capture` in
    /// [format.md](format.md#record-capture).
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<Capture>,
    /// Inputs that hold other bytes than the recorded ones, in a copy that was saved with edits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    applied_edits: Vec<AppliedEdit>,
    /// How jobs ended on the recorded machine; `null` if the recorder does not say.
    recorded: Option<JobResults>,
    /// Processes of a recorded program, if the file is an index of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<ProcessIndex>,
    /// Content of an API trace; absent from register traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<CallCounts>,
    /// Ranges that the program named, by name; absent if it named none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<RangeCount>,
    /// Content of a recording of a WebAssembly run; absent from other recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunCounts>,
    /// Content of a driver trace; absent from other recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    driver_trace: Option<DriverCounts>,
}

/// Counts of an API trace, counted for this verb.
#[derive(Serialize)]
struct CallCounts {
    /// Name of the interface.
    api: String,
    /// Number of launches.
    launches: u64,
    /// Number of launched kernels.
    kernels: u64,
    /// Number of streams.
    streams: u64,
    /// Number of allocated buffers.
    device_buffers: u64,
    /// Number of copies and of fills.
    copies: u64,
    fills: u64,
}

/// Results of jobs during the recording in figures. Recordings have a result for each job.
#[derive(Serialize)]
struct JobResults {
    /// Number of jobs whose shaders ran.
    computed: u64,
    /// Number of jobs that were done without running a shader.
    not_computed: u64,
    /// Number of jobs that failed.
    failed: u64,
    /// Why shaders did not run, as text.
    reasons: Vec<String>,
}

/// A named buffer. Metadata of recordings has its names as numbers and its shape elsewhere.
#[derive(Serialize)]
struct Buffer {
    /// Name of the buffer.
    name: String,
    /// `input`, `output`, `shared`, `weights`, `shader` or `descriptor`.
    role: &'static str,
    /// Address of the first byte.
    va: String,
    /// Size.
    bytes: u64,
    /// Type of an element: `u8` to `u64`, `i8` to `i64`, `f16`, `bf16`, `f32`, `f64`.
    #[serde(rename = "type")]
    element: &'static str,
    /// Length of each dimension, the slowest first; `null` if the recording does not say.
    shape: Option<Vec<u64>>,
}

fn run(source: &Source, out: &mut Out) -> Result<Exit, Failure> {
    let opened = source.open()?;
    let (info, unknown) = gather(&opened)?;
    if out.is_json() {
        out.value(&info)?;
        unknown
            .iter()
            .for_each(|line| complain(Failure::file(&source.file, line)));
    } else {
        text(&opened, &info, &unknown, out)?;
    }
    Ok(Exit::Good)
}

/// Collects the figures, and one line for each address space that can only be walked in part.
fn gather(opened: &SourceRecording) -> Result<(Info, Vec<String>), Failure> {
    let recording = &opened.recording;
    let metadata = &recording.metadata;
    let timeline = opened.timeline()?;
    let (mut reads, mut writes, mut undecoded, mut recorded) = (0, 0, 0u64, 0);
    for kind in recording.events.kind.iter() {
        match EventKind::from_raw(kind) {
            Some(EventKind::Read) => reads += 1,
            Some(EventKind::Write) => writes += 1,
            Some(EventKind::Interrupt) => recorded += 1,
            Some(EventKind::Undecoded) => undecoded += 1,
            _ => {}
        }
    }
    let view = recording.memory.last();
    let mut mapped_pages = 0u64;
    let mut unknown = Vec::new();
    for space in &metadata.address_spaces {
        let reach = mmu::count_mapped_pages(space.format, space.root, &view);
        mapped_pages = mapped_pages.saturating_add(reach.pages);
        unknown.extend(describe_problems(space.number, reach.problems, reach.first.as_ref()));
    }
    let shapes = buffer_shapes(recording);
    let buffer = |b: &trace_core::recording::Buffer| Buffer {
        name: b.name.clone(),
        role: b.role.name(),
        va: format_hex(b.va.get()),
        bytes: b.bytes,
        element: b.element.name(),
        shape: shapes.get(&b.name).cloned(),
    };
    let named = Annotations::from_recording(recording);
    let given = named.buffers().iter().map(|b| Buffer {
        name: b.name.name.clone(),
        role: BufferRole::Shared.name(),
        va: format_hex(b.name.at.get()),
        bytes: b.name.bytes,
        element: b.name.form.as_ref().map_or(ElementType::U8, |f| f.element).name(),
        shape: shapes.get(&b.name.name).cloned(),
    });
    let info = Info {
        driver: metadata.identity.driver.clone(),
        board: metadata.identity.board.clone(),
        events: recording.events.len() as u64,
        reads,
        writes,
        undecoded: (undecoded > 0).then_some(undecoded),
        // A recorder that saw interrupts is more reliable than the reads of their handlers.
        interrupts: if recorded > 0 {
            recorded
        } else {
            timeline.interrupts.len() as u64
        },
        polls: timeline.polls.len() as u64,
        jobs: timeline.jobs.len() as u64,
        pages: metadata.source_pages,
        zero_pages: metadata.source_zero_pages,
        distinct_pages: opened.distinct_pages(),
        mapped_pages,
        address_spaces: metadata.address_spaces.len() as u64,
        buffers: metadata.buffers.iter().map(buffer).chain(given).collect(),
        span_ns: Some(recording.span_ns()).filter(|_| !recording.counts_ticks()),
        span_ticks: Some(recording.span_ns()).filter(|_| recording.counts_ticks()),
        lost_events: metadata.lost.iter().map(|l| l.count.unwrap_or(1)).sum(),
        gpu: Gpu::new(
            metadata.identity.gpu_id,
            trace_core::registers::recorded_name(&opened.recording),
        ),
        family: find_family(recording).name(),
        queues: recording
            .register_trace()
            .map(|t| t.job_queues.clone())
            .unwrap_or_default(),
        source: metadata.identity.source.clone(),
        capture: metadata.capture.clone(),
        applied_edits: metadata.applied_edits.clone(),
        recorded: summarize_jobs(recording.chain_reports()),
        calls: call_counts(opened)?,
        ranges: program_ranges::count(recording),
        run: run_counts::count(opened),
        driver_trace: driver_trace::count(opened)?,
        processes: metadata.processes.clone(),
    };
    Ok((info, unknown))
}

/// Counts what an API trace holds.
fn call_counts(opened: &SourceRecording) -> Result<Option<CallCounts>, Failure> {
    if opened.recording.api().is_none() {
        return Ok(None);
    }
    let api_trace = api_trace::load(opened)?;
    let count = |kind| {
        let kinds = opened.recording.events.kind.iter();
        kinds.filter(|k| EventKind::from_raw(*k) == Some(kind)).count() as u64
    };
    let kernels: BTreeSet<u32> = api_trace.launches().iter().map(|l| l.function).collect();
    Ok(Some(CallCounts {
        api: api_trace.metadata().api.name().to_owned(),
        launches: api_trace.launches().len() as u64,
        kernels: kernels.len() as u64,
        streams: api_trace.metadata().streams.len() as u64,
        device_buffers: api_trace.buffers().list().len() as u64,
        copies: count(EventKind::Copy),
        fills: count(EventKind::Fill),
    }))
}

/// Returns the results of jobs during the recording; `None` if the recording does not contain them.
fn summarize_jobs(reports: &[ChainReport]) -> Option<JobResults> {
    let mut sum = JobResults {
        computed: 0,
        not_computed: 0,
        failed: 0,
        reasons: Vec::new(),
    };
    for r in reports {
        *(match r.status {
            1 if r.has_computed() => &mut sum.computed,
            1 => &mut sum.not_computed,
            _ => &mut sum.failed,
        }) += 1;
        if let Some(why) = r.reason.as_ref().filter(|w| !sum.reasons.contains(w)) {
            sum.reasons.push(why.clone());
        }
    }
    (!reports.is_empty()).then_some(sum)
}

/// Describes the results of jobs.
fn describe_job_results(r: &JobResults) -> String {
    let mut parts = vec![format!("{} computed", r.computed)];
    parts.extend((r.not_computed > 0).then(|| format!("{} done without running a shader", r.not_computed)));
    parts.extend((r.failed > 0).then(|| format!("{} failed", r.failed)));
    parts.join(", ")
}

/// Describes the number of events, and how many of them are accesses.
fn describe_events(info: &Info) -> String {
    let accesses = [
        (info.reads, format_count(info.reads, "read")),
        (info.writes, format_count(info.writes, "write")),
        (
            info.undecoded.unwrap_or(0),
            format!("{} undecoded", info.undecoded.unwrap_or(0)),
        ),
    ];
    // A recording without accesses does not list them.
    let parts: Vec<String> = accesses.into_iter().filter(|a| a.0 > 0).map(|a| a.1).collect();
    match parts.is_empty() {
        true => info.events.to_string(),
        false => format!("{} ({})", info.events, parts.join(", ")),
    }
}

/// Describes how many events the recorder lost, if that is known.
fn describe_lost(opened: &SourceRecording, info: &Info) -> String {
    // Truncated memory loses no event.
    let of_events = |place: &str| !place.starts_with("gr_") || place.starts_with("gr_io_history");
    let cut = info.events > 0 && opened.find_truncation().is_some_and(|f| of_events(&f.place));
    match (cut, info.lost_events) {
        (true, 0) => "unknown: the file is truncated".to_owned(),
        (true, n) => format!("{n} before the end of the truncated file, then unknown"),
        (false, n) => n.to_string(),
    }
}

/// Describes the time from the first event to the last, if the file contains times.
fn describe_span(info: &Info) -> String {
    match (info.span_ns, info.span_ticks, info.events) {
        (None, Some(ticks), _) => format!("{}; the clock counts no time", format_count(ticks, "tick")),
        (None | Some(0), None, 2..) => "no times".to_owned(),
        (span, ..) => format_duration(span.unwrap_or(0)),
    }
}

/// Prints the processes of an index, one per line.
fn processes(index: &ProcessIndex, out: &mut Out) -> Result<(), Failure> {
    out.line("")?;
    let heads = [
        "Process", "Parent", "Launches", "Events", "Device", "Ended", "File", "Command",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(index.processes.iter().map(|p| {
        vec![
            p.process.to_string(),
            p.parent.to_string(),
            p.launches.to_string(),
            p.events.to_string(),
            p.device.clone(),
            if p.complete { "in order" } else { "killed" }.to_owned(),
            p.file.display().to_string(),
            p.command.join(" "),
        ]
    }));
    out.table(&rows)?;
    Ok(())
}

fn text(opened: &SourceRecording, info: &Info, unknown: &[String], out: &mut Out) -> Result<(), Failure> {
    let mut rows = match &info.run {
        Some(run) => run_counts::rows(run),
        None => Vec::new(),
    };
    rows.extend(identity_rows(opened, info));
    match (&info.calls, &info.driver_trace) {
        _ if info.run.is_some() => {}
        (Some(calls), below) => {
            rows.extend(call_rows(calls, info.distinct_pages));
            rows.extend(below.iter().flat_map(driver_trace::rows));
        }
        (None, Some(counts)) => rows.extend(driver_trace::rows(counts)),
        (None, None) => rows.extend(job_rows(info)),
    }
    let capture = info.capture.iter().flat_map(capture_info::describe_capture);
    rows.extend(capture.map(|(what, summary)| row(what, summary)));
    let edits = info.applied_edits.iter().map(capture_info::describe_edit);
    rows.extend(edits.map(|(what, message)| row(what, message)));
    for range in &info.ranges {
        let time = range.total_ns.map(|ns| format!(", {}", format_duration(ns)));
        let times = format_count(range.times, "time");
        rows.push(row(
            "Range",
            format!("{}: {times}{}", range.name, time.unwrap_or_default()),
        ));
    }
    out.table(&rows)?;
    for line in unknown {
        out.line(line)?;
    }
    for why in info.recorded.iter().flat_map(|r| &r.reasons) {
        out.line(format!("Job results: {why}"))?;
    }
    for lost in &opened.recording.metadata.lost {
        out.line(format!("Lost before event {}: {}", lost.before_event, lost.reason))?;
    }
    if let Some(index) = &info.processes {
        processes(index, out)?;
    }
    if !info.buffers.is_empty() {
        buffers(&info.buffers, out)?;
    }
    Ok(())
}

/// Returns a row of the table of figures.
fn row(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

/// Returns the rows about the device, the driver and the events.
fn identity_rows(opened: &SourceRecording, info: &Info) -> Vec<Vec<String>> {
    let identity = &opened.recording.metadata.identity;
    let describe = |s: &str| {
        if s.is_empty() {
            "unknown".to_owned()
        } else {
            s.to_owned()
        }
    };
    // A name without an id, or an id without a name, is useful; empty brackets are not.
    let device = |name: &str, id: Option<String>| match id {
        Some(id) if name.is_empty() || name == id => id,
        Some(id) => format!("{name} ({id})"),
        None => describe(name),
    };
    let has_gpu = !is_wasm_run(&opened.recording);
    let mut rows = Vec::new();
    if has_gpu {
        rows.push(match opened.recording.hardware() {
            Some(h) if identity.gpu_id == 0 && h.is_named() => row("Device", device(&info.gpu.name, Some(h.id()))),
            Some(Hardware::Pci(f))
                if identity.gpu_id == 0 && !(f.address.is_empty() && identity.gpu_name.is_empty()) =>
            {
                let address = Some(f.address.clone()).filter(|a| !a.is_empty());
                let known = device(&identity.gpu_name, address);
                let message = format!("{known}; the log does not give its id, which `--device VENDOR:DEVICE` sets");
                row("Device", message)
            }
            Some(_) if identity.gpu_id == 0 => row(
                "Device",
                "unknown: the log does not name it; import it with `--device VENDOR:DEVICE` or `--device COMPATIBLE`"
                    .to_owned(),
            ),
            _ => {
                let id = (identity.gpu_id != 0).then(|| info.gpu.id.clone());
                row("GPU", device(&info.gpu.name, id))
            }
        });
        let family = find_family(&opened.recording).title();
        if !family.is_empty() {
            rows.push(row("Family", family.to_owned()));
        }
        if !info.queues.is_empty() {
            rows.push(row("Queues", info.queues.join(", ")));
        }
        rows.push(row("Driver", describe(&identity.driver)));
        rows.push(row("Board", describe(&identity.board)));
    } else {
        // A run of a program has no device, and its times are those of a virtual clock.
        rows.push(row("Recorder", describe(&identity.tool)));
        if !identity.when.is_empty() {
            rows.push(row("Recorded", identity.when.clone()));
        }
    }
    rows.extend([
        row("Source", describe(&info.source)),
        row("Events", describe_events(info)),
        row(if has_gpu { "Span" } else { "Virtual time" }, describe_span(info)),
        row("Lost events", describe_lost(opened, info)),
    ]);
    rows
}

/// Returns the rows about an API trace.
fn call_rows(c: &CallCounts, distinct_pages: u64) -> Vec<Vec<String>> {
    let copies = if c.copies == 1 {
        "1 copy".to_owned()
    } else {
        format!("{} copies", c.copies)
    };
    let mut rows = vec![
        row(
            "Launches",
            format!("{} of {}", c.launches, format_count(c.kernels, "kernel")),
        ),
        row("Streams", c.streams.to_string()),
        row("Buffers", c.device_buffers.to_string()),
        row("Copies", format!("{copies}, {}", format_count(c.fills, "fill"))),
    ];
    if distinct_pages > 0 {
        rows.push(row("Content", format_count(distinct_pages, "distinct page")));
    }
    rows
}

/// Returns the rows about jobs, their waits and their memory.
fn job_rows(info: &Info) -> Vec<Vec<String>> {
    let results = info.recorded.as_ref();
    vec![
        row("Jobs", info.jobs.to_string()),
        row(
            "Job results",
            results.map_or_else(|| "unknown".to_owned(), describe_job_results),
        ),
        row("Interrupts", info.interrupts.to_string()),
        row("Polls", info.polls.to_string()),
        row(
            "Pages",
            format!(
                "{} in the source ({} zero), {} distinct",
                info.pages, info.zero_pages, info.distinct_pages
            ),
        ),
        row(
            "Mapped",
            format!(
                "{} in {}",
                format_count(info.mapped_pages, "page"),
                format_count(info.address_spaces, "address space")
            ),
        ),
    ]
}

/// Prints the named buffers, one per line.
fn buffers(buffers: &[Buffer], out: &mut Out) -> Result<(), Failure> {
    out.line("")?;
    let mut rows = vec![
        ["Buffer", "Role", "GPU address", "Bytes", "Type", "Shape"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(buffers.iter().map(|b| {
        let sides = |s: &Vec<u64>| s.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        vec![
            b.name.clone(),
            b.role.into(),
            b.va.clone(),
            b.bytes.to_string(),
            b.element.into(),
            b.shape.as_ref().map_or_else(String::new, sides),
        ]
    }));
    Ok(out.table(&rows)?)
}
