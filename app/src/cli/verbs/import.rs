//! `import`: converts a foreign recording, or job chains submitted to a simulated GPU, to a `.kine` file.

use crate::cli::findings::{FindingRow, json_name};
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::source::{SourceRecording, number};
use crate::cli::work_watch::CurrentStep;
use crate::cli::{Exit, Failure, Out, Verb, page_table_formats, progress_line};
use clap::{Args, FromArgMatches as _};
use kinescope_session::source::{self, SimulatedSubmission};
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace_core::container::ContainerError;
use trace_core::finding::Severity;
use trace_core::page_table_format::MemoryName;
use trace_core::progress::Progress;
use trace_core::{PhysAddr, Recording, container, timeline};
use trace_import::trace::{DeviceName, regs_history};
use trace_import::{ImportError, OpenOptions, Opened, raw_memory};

pub const VERB: Verb = Verb {
    name: "import",
    about: "Convert a foreign recording or a memory dump to a .kine",
    args: |c| Arguments::augment_args(c).after_help(formats()),
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Folder or file in a supported format, or with --raw a memory dump
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// File to write, a .kine; exit 1 if it has findings of severity error
    #[arg(short = 'o', value_name = "F.kine")]
    to: PathBuf,
    /// Read the source as a dump of physical memory
    #[arg(long, requires_all = ["root", "format"])]
    raw: bool,
    /// Physical address of the dump's first byte, unless it is an ELF core or a LiME image; for a register history or a
    /// log of register accesses, the start address of the registers, if it is not known or the detected one is wrong
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    base: Option<u64>,
    /// Physical address of the top page table
    #[arg(long, value_name = "ADDRESS", value_parser = number, requires = "raw")]
    root: Option<u64>,
    /// Format of the page tables: a name of the list below, or a file that describes it
    #[arg(long, value_name = "FORMAT", requires = "raw")]
    format: Option<String>,
    /// Memory that the dump holds, if the format distinguishes memories: video, system, peer or other [default: the
    /// memory of the format]
    #[arg(long, value_name = "MEMORY", value_parser = memory, requires = "raw")]
    memory: Option<MemoryName>,
    /// Memory attributes that page-table entries index, if known
    #[arg(long, value_name = "VALUE", value_parser = number, requires = "raw", default_value = "0")]
    memattr: u64,
    /// The GPU's id register, if known: for a dump, or a register history without a read of it
    #[arg(long, value_name = "VALUE", value_parser = gpu_id)]
    gpu_id: Option<u32>,
    /// For a log of register accesses: the device to import, if it is not the one with the most accesses, or its
    /// identity, if the log does not have it: VENDOR:DEVICE, an address like 00:03.0, or a compatible string
    #[arg(long, value_name = "DEVICE", conflicts_with = "raw")]
    device: Option<DeviceName>,
    /// For a log of register accesses: file with the windows of the device: sysfs' `resource`, the output of `lspci -v`,
    /// /proc/iomem, or lines of name, address and size; otherwise NAME.resource.txt next to the log
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    resource: Option<PathBuf>,
}

/// Returns the formats that can be opened, one per line.
fn formats() -> String {
    let lines = trace_import::list_formats()
        .into_iter()
        .map(|takes| format!("  {takes}\n"));
    format!(
        "Formats, which every verb opens:\n{}\nFormats of page tables, for --raw:\n{}",
        lines.collect::<String>(),
        page_table_formats::list_formats()
    )
}

fn memory(text: &str) -> Result<MemoryName, String> {
    let names = MemoryName::ALL.map(MemoryName::name).join(", ");
    MemoryName::from_name(text).ok_or_else(|| format!("'{text}' is not a memory (expected {names})"))
}

fn gpu_id(text: &str) -> Result<u32, String> {
    u32::try_from(number(text)?).map_err(|_| "the register has 32 bits".to_owned())
}

/// A recording, and for job chains the result of their run.
struct Imported {
    recording: Recording,
    ran: Option<Chains>,
}

impl From<Recording> for Imported {
    fn from(recording: Recording) -> Self {
        Self { recording, ran: None }
    }
}

impl Imported {
    fn from_run(ran: SimulatedSubmission) -> Self {
        let chains = Chains {
            target: ran.target,
            jobs: ran.done.jobs.len() as u64,
            failed: ran.done.jobs.iter().filter(|j| j.status != 1).count() as u64,
            not_run: ran.done.jobs.iter().filter(|j| j.computed == Some(false)).count() as u64,
            computed: ran.done.has_computed(),
        };
        Self {
            recording: ran.done.recording,
            ran: Some(chains),
        }
    }
}

/// The result of running job chains in figures. The session returns the recording.
#[derive(Serialize)]
struct Chains {
    /// Simulator that ran the job chains.
    #[serde(rename = "board")]
    target: String,
    /// Number of jobs, and of failed ones.
    jobs: u64,
    failed: u64,
    /// Jobs that completed without running their shader.
    #[serde(skip)]
    not_run: u64,
    /// Whether every job ended as done and every shader ran.
    computed: bool,
}

/// The new file in figures, with findings as text.
#[derive(Serialize)]
struct Report<'a> {
    /// The written file, and its size.
    path: String,
    bytes: u64,
    /// Number of events.
    events: u64,
    /// Page images of 4 KiB in the source; different contents among them.
    pages: u64,
    distinct_pages: u64,
    /// What was skipped or assumed, as for [`check`](#check).
    findings: Vec<FindingRow<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    ran: Option<Chains>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let (source, to) = (&arguments.source, &arguments.to);
    let at = CommandFiles::for_recording(source)
        .with_output("-o", Some(to))
        .check_kine(to)?;
    let imported = progress_line::run_with_progress("importing", |progress, doing| {
        write_kine(arguments, &at, progress, doing)
    })?;
    let bytes = std::fs::metadata(to).map_err(|e| Failure::file(to, e))?.len();
    report(
        SourceRecording::new(to, imported.recording),
        imported.ran,
        to,
        bytes,
        out,
    )
}

/// Reads the source and writes the `.kine` to the file `at`.
fn write_kine(arguments: &Arguments, at: &Path, progress: &Progress, doing: &CurrentStep) -> Result<Imported, Failure> {
    let from = &arguments.source;
    let options = options(arguments)?;
    let opened = trace_import::open(from, &options, progress).map_err(|e| match (&e, &options) {
        (ImportError::OtherFormat { message, .. }, OpenOptions { device: Some(_), .. }) => {
            Failure::usage(format!("--device: {message}"))
        }
        (ImportError::OtherFormat { message, .. }, OpenOptions { resource: Some(_), .. }) => {
            Failure::usage(format!("--resource: {message}"))
        }
        (ImportError::OtherFormat { message, .. }, _) => {
            let flag = if arguments.base.is_some() { "--base" } else { "--gpu-id" };
            Failure::usage(format!("{flag}: {message} (a memory dump needs --raw)"))
        }
        _ => Failure::file(from, e),
    })?;
    let imported = match opened {
        Opened::Recording(opened) => opened.recording.into(),
        Opened::Submission(chains) => {
            doing.set("running job chains");
            let ran = source::run_submission(&chains, progress).map_err(|e| Failure::file(from, e))?;
            doing.set("importing");
            Imported::from_run(ran)
        }
    };
    let written = match options.raw_memory {
        Some(_) => container::write(&imported.recording, at, progress),
        None => timeline::write(&imported.recording, at, progress),
    };
    // A write failure is an error of the output file, not of the source.
    written.map_err(|e| match e {
        ContainerError::DamagedSource(_) => Failure::file(from, e),
        e => Failure::file(&arguments.to, e),
    })?;
    Ok(imported)
}

/// Returns what the arguments say about the source.
fn options(arguments: &Arguments) -> Result<OpenOptions, Failure> {
    let (base, gpu_id) = (arguments.base, arguments.gpu_id);
    Ok(match (arguments.root, &arguments.format) {
        (Some(root), Some(format)) if arguments.raw => OpenOptions {
            raw_memory: Some(raw_memory::Options {
                base: base.map(PhysAddr::new),
                root: PhysAddr::new(root),
                format: page_table_formats::find_format(format, arguments.memory)?,
                memattr: arguments.memattr,
                gpu_id: gpu_id.unwrap_or(0),
            }),
            ..OpenOptions::default()
        },
        _ if base.is_some() || gpu_id.is_some() => OpenOptions {
            regs_history: Some(regs_history::Options {
                base: base.map(PhysAddr::new),
                gpu_id,
            }),
            device: arguments.device.clone(),
            resource: arguments.resource.clone(),
            ..OpenOptions::default()
        },
        _ => OpenOptions {
            device: arguments.device.clone(),
            resource: arguments.resource.clone(),
            ..OpenOptions::default()
        },
    })
}

/// Prints a report on the new file.
fn report(opened: SourceRecording, ran: Option<Chains>, to: &Path, bytes: u64, out: &mut Out) -> Result<Exit, Failure> {
    let metadata = &opened.recording.metadata;
    let events = opened.recording.events.len() as u64;
    let wrong = metadata.findings.iter().any(|f| f.severity == Severity::Error);
    if out.is_json() {
        out.value(&Report {
            path: to.display().to_string(),
            bytes,
            events,
            pages: metadata.source_pages,
            distinct_pages: opened.distinct_pages(),
            findings: metadata.findings.iter().map(FindingRow::from).collect(),
            ran,
        })?;
    } else {
        for f in &metadata.findings {
            out.line(format_args!("{}: {}: {}", json_name(&f.severity), f.place, f.message))?;
        }
        let (pages, distinct) = (metadata.source_pages, opened.distinct_pages());
        out.line(format_args!(
            "{}: {}, {}, {} ({distinct} distinct)",
            to.display(),
            format_count(bytes, "byte"),
            format_count(events, "event"),
            format_count(pages, "page")
        ))?;
        if let Some(ran) = ran {
            let how = match (ran.failed, ran.not_run) {
                (0, 0) => String::new(),
                (0, n) => format!(
                    "; the shaders of {} did not run, so their results are not in the recording",
                    format_count(n, "job")
                ),
                (n, _) => format!("; {} failed", format_count(n, "job")),
            };
            let jobs = format_count(ran.jobs, "job");
            out.line(format_args!("{}: {jobs} ran on {}{how}", to.display(), ran.target))?;
        }
    }
    Ok(Exit::differs_if(wrong))
}
