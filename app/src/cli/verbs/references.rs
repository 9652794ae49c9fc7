//! `references`: lists what reads, writes, executes or names bytes of memory, a register, a page-table entry or a pixel.

mod rows;

use crate::cli::out::format_count;
use crate::cli::source::{Source, SourceRecording, number};
use crate::cli::{Exit, Failure, Out, Verb, api_trace, event_filter, progress_line};
use clap::{Args, FromArgMatches as _};
use rows::RowContext;
use serde::Serialize;
use trace_core::PhysAddr;
use trace_core::check::Submit;
use trace_core::filter::{Derived, Jobs};
use trace_core::progress::Progress;
use trace_core::timeline::JobSpan;
use trace_core::xref::{self, MAX_BYTES, MAX_REFERENCES, Reference, TargetError, XrefData as _, XrefIndex, XrefTarget};

pub const VERB: Verb = Verb {
    name: "references",
    about: "List what reads, writes, executes or names an address, a register, a buffer or a pixel",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Maximum number of references that a search returns, before the options select some of them.
const MAX_SEARCHED: usize = 1 << 20;

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// GPU address, buffer, NAME+OFFSET, register, REGISTER.FIELD, SPACE+OFFSET, or pixel of the last screen. Buffers of
    /// driver traces are handle:0xHANDLE or #NUMBER. Of a recording of calls and requests, launch:N, submission:N or
    /// event:N lists the submissions of a call, or the call of a submission
    #[arg(value_name = "ADDRESS|REGISTER|BUFFER|X,Y|EVENT")]
    target: String,
    /// Index of the address space, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
    /// List the references of the page-table entry of this level, 0 (top) to 3, on the walk of the address
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3), conflicts_with = "physical")]
    level: Option<u8>,
    /// ADDRESS is a physical address
    #[arg(long, conflicts_with = "space")]
    physical: bool,
    /// Use the page tables, and the buffers of an API trace, before this event [default: at the end, or when the buffer
    /// was freed]
    #[arg(long, visible_alias = "event", value_name = "EVENT")]
    at: Option<u64>,
    /// List only references from this job, and from events that prepare it or occur while it runs: its number,
    /// FIRST..END or FIRST..=LAST
    #[arg(long, value_name = "JOB", value_parser = event_filter::job_filter)]
    job: Option<String>,
    /// List only references that may write
    #[arg(long, conflicts_with = "reads")]
    writes: bool,
    /// List only references that may read or execute
    #[arg(long)]
    reads: bool,
    /// List references to only the page of the address too
    #[arg(long)]
    page: bool,
    /// Maximum number of references
    #[arg(long = "max-references", value_name = "N", default_value_t = MAX_REFERENCES)]
    max: usize,
}

/// The references of a target as rows of text. The engine has an enum of items.
#[derive(Serialize)]
struct Report {
    /// What the references refer to.
    target: TargetRow,
    /// The references: those with an event in event order, then those without one, then those of only the page.
    references: Vec<Row>,
    /// Whether these are all references.
    complete: bool,
    /// Whether all bytes of a long target were searched.
    #[serde(skip)]
    is_driver_trace: bool,
}

/// A target, without the keys that its kind does not have.
#[derive(Default, Serialize)]
struct TargetRow {
    /// `memory`, `physical`, `page-table-entry`, `register`, `framebuffer` or `event` (a call or a submission).
    kind: &'static str,
    /// The event of a call or of a submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u64>,
    /// Index of the address space, and the GPU address.
    #[serde(skip_serializing_if = "Option::is_none")]
    address_space: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    va: Option<String>,
    /// Physical address.
    #[serde(skip_serializing_if = "Option::is_none")]
    physical: Option<String>,
    /// Name of the space of a framebuffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    /// Offset of a register, or of a pixel in its framebuffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// Number of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Level of a page-table entry, 0 to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    /// Name of a register; its offset if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<String>,
    /// First and last bit of a register field.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<[u32; 2]>,
}

/// A reference, without the details that its kind does not have.
#[derive(Default, Serialize)]
struct Row {
    /// `register`, `job`, `cpu-write`, `page-table`, `snapshot`, `buffer`, `finding`, `command` (to an address space),
    /// `store` or `load`. In an API trace: `copy`, `fill`, `memory` (allocated or freed), `launch` or `buffer`. In a driver
    /// trace: `submission` (its commands), `copy`, `fill`, `upload`, `semaphore`, `launch`, `method`, `object` (a buffer was
    /// created, mapped, unmapped or freed) or `saved-memory`. In a recording of both: `submission` (of a call) or `call` (of
    /// a submission).
    kind: &'static str,
    /// `write`, `read`, `read-or-write` (which one is not known), `execute`, `address-of` (the item holds or names the
    /// address), `resident` (the item contains the target), `cause` (the call of a submission) or `effect` (a submission of
    /// a call).
    access: &'static str,
    /// Event of the reference.
    event: Option<u64>,
    /// Job through which it happens, or that its event prepares, or that runs at its event. In a driver trace, the ring
    /// entry through which it happens.
    job: Option<u32>,
    /// In an API trace: launch through which it happens.
    launch: Option<u32>,
    /// Whether it refers to the page of the address and not to the address. Such references need `--page`.
    page_only: bool,
    /// The reference, in words.
    description: String,
    /// The register.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<String>,
    /// Value of the access, or the page-table entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Buffer that contains the target or leads to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer: Option<String>,
    /// Offset in the buffer, or of a pixel in its framebuffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// Index of the address space, and the address of the item or in the pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    address_space: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    va: Option<String>,
    /// Level of the page table or entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    /// Part of a job that refers to the target: `header`, `start`, `shader` or `pointer`. In a driver trace, part of a
    /// submission: `commands`, `source`, `destination`, `release`, `acquire`, `program`, `descriptor`, `constant-bank`,
    /// `parameter` or `method`; or `create`, `map`, `unmap` or `free` of a buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    /// Position of the job in its chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
    /// Address of the word that holds a pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    word_va: Option<String>,
    /// Pointer of the descriptors that leads to the word, if the descriptors do not hold the word.
    #[serde(skip_serializing_if = "Option::is_none")]
    through_va: Option<String>,
    /// Arguments of a launch that point into the buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Vec<String>>,
    /// In a driver trace: number of the submission, and offset of the method in 32-bit words of its commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    submit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    word: Option<u32>,
    /// In a driver trace: offset in the parameters of a launch, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter_offset: Option<u32>,
    /// In a driver trace: number of a constant bank.
    #[serde(skip_serializing_if = "Option::is_none")]
    bank: Option<u32>,
    /// In a driver trace: name of a method.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    /// In a driver trace: number of bytes of the buffer, copy, upload, commands or saved memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// In a driver trace: the other side of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_va: Option<String>,
    /// Text output for the kind.
    #[serde(skip)]
    label: &'static str,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    opened.check_event(arguments.at)?;
    if let Some(job) = &arguments.job {
        event_filter::check_job(job, &opened)?;
    }
    let timeline = opened.timeline()?;
    let submits: Vec<Submit> = timeline.jobs.iter().map(submit).collect();
    let fail = |e| Failure::file(&opened.file, e);
    let index = progress_line::run_with_progress("reading jobs and page tables", |progress, _| {
        XrefIndex::new(&opened.recording, &submits, progress).map_err(fail)
    })?;
    let target = find_target(arguments, &opened, &index)?;
    let is_register_trace = index.api_trace().is_none();
    let index = match target {
        XrefTarget::Bytes { .. } if is_register_trace => {
            progress_line::run_with_progress("checking", |progress, _| {
                index.with_findings(&opened.recording, &submits, progress).map_err(fail)
            })?
        }
        _ => index,
    };
    let event = match index.api_trace() {
        Some(api_trace) => api_trace::find_event(&opened, api_trace, &arguments.target, arguments.at)?,
        None => arguments.at.unwrap_or(u64::MAX),
    };
    // The options that select references apply before the maximum.
    let found = progress_line::run_with_progress("searching for references", |progress, _| {
        xref::find_references(&opened.recording, &index, target, (event, MAX_SEARCHED), progress).map_err(fail)
    })?;
    let filter = match &arguments.job {
        Some(job) => Some(event_filter::compile("--job", job, &opened)?),
        None => None,
    };
    let passes = |r: &Reference| {
        let is_kind = (r.access.may_write() || !arguments.writes) && (r.access.may_read() || !arguments.reads);
        let is_job = || match (&filter, r.event) {
            (Some(filter), Some(event)) => filter.is_match(&opened.recording.events, event),
            (Some(_), None) => false,
            (None, _) => true,
        };
        is_kind && (arguments.page || !r.is_page_only) && is_job()
    };
    let mut list: Vec<Reference> = found.list.into_iter().filter(passes).collect();
    let complete = found.is_complete && list.len() <= arguments.max;
    list.truncate(arguments.max);
    let context = RowContext {
        opened: &opened,
        index: &index,
        jobs: Jobs::new(&Derived::from(&timeline), opened.device),
        target,
    };
    let report = Report {
        target: context.target_row(),
        references: list.iter().map(|r| context.row(r)).collect(),
        complete,
        is_driver_trace: opened.recording.driver_trace().is_some(),
    };
    if out.is_json() {
        out.value(&report)?;
    } else {
        print_text(arguments, target, &report, out)?;
    }
    Ok(Exit::Good)
}

fn submit(job: &JobSpan) -> Submit {
    Submit {
        index: job.index,
        event: job.submit_event,
        head_va: job.head_va,
    }
}

/// Returns the target of the arguments.
fn find_target(arguments: &Arguments, opened: &SourceRecording, index: &XrefIndex) -> Result<XrefTarget, Failure> {
    let text = arguments.target.trim();
    if arguments.physical {
        let at = number(text).map_err(Failure::usage)?;
        return Ok(XrefTarget::Physical {
            at: PhysAddr::new(at),
            bytes: 1,
        });
    }
    let parse = |progress: &Progress| {
        xref::parse_target(&opened.recording, index.api_trace(), (arguments.space, text), progress)
    };
    let target = progress_line::run_with_progress("finding the target", |progress, _| match parse(progress) {
        // The contents of copies have names of their own.
        Err(e @ TargetError::Unknown(_)) => match opened.api_buffers().iter().find(|b| b.name == text) {
            Some(b) => Ok(XrefTarget::Bytes {
                space: 0,
                va: b.va,
                bytes: b.bytes.max(1),
            }),
            None => Err(Failure::file(&opened.file, e)),
        },
        parsed => parsed.map_err(|e| Failure::file(&opened.file, e)),
    })?;
    let XrefTarget::Bytes { space, va, .. } = target else {
        return match arguments.level {
            Some(_) => Err(Failure::usage(
                "--level is for addresses and buffers, which page tables translate",
            )),
            None => Ok(target),
        };
    };
    // Without page tables, one address space is that of all jobs.
    let is_common = space == 0 && opened.recording.metadata.address_spaces.is_empty();
    if index.api_trace().is_none() && !is_common {
        opened.address_space(space)?;
    }
    Ok(match arguments.level {
        Some(level) => XrefTarget::Entry { space, va, level },
        None => target,
    })
}

fn print_text(arguments: &Arguments, target: XrefTarget, report: &Report, out: &mut Out) -> Result<(), Failure> {
    if report.references.is_empty() {
        out.line(format_args!("no references of {}", arguments.target.trim()))?;
    } else {
        let mut rows = vec![
            ["Event", "Job", "Kind", "Access", "Reference"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        rows.extend(report.references.iter().map(|r| {
            vec![
                number(r.event),
                number(r.job.map(u64::from)),
                r.label.to_owned(),
                r.access.to_owned(),
                r.description.clone(),
            ]
        }));
        out.table(&rows)?;
    }
    if !report.complete {
        let max = arguments.max;
        out.line(format_args!(
            "only the first {max} references are listed; --max-references lists more"
        ))?;
    }
    let is_limited = !report.is_driver_trace;
    let is_long = |bytes: u64| bytes > MAX_BYTES && is_limited;
    if let XrefTarget::Bytes { bytes, .. } = target
        && is_long(bytes)
    {
        let all = format_count(bytes, "byte");
        out.line(format_args!("only the first {MAX_BYTES} of {all} were searched"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use trace_core::RegOffset;
    use trace_core::recording::Access;
    use trace_core::xref::{AccessKind, ReferenceItem};

    #[test]
    fn access_names_are_the_documented_ones() {
        let names = [
            AccessKind::Write,
            AccessKind::Read,
            AccessKind::ReadOrWrite,
            AccessKind::Execute,
            AccessKind::AddressOf,
            AccessKind::Resident,
        ]
        .map(AccessKind::name);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
        let text = std::fs::read_to_string(page).unwrap();
        for name in names {
            assert!(text.contains(&format!("`{name}`")), "{name}");
        }
        let store = ReferenceItem::Pixel(Access {
            space: 0,
            write: true,
            offset: RegOffset::ZERO,
            width: 4,
            value: 0,
        });
        assert!(text.contains(&format!("`{}`", store.name())));
    }
}
