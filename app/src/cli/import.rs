//! `import`: a foreign recording into a `.kine` file.

use super::check::{Shown, name_of};
use super::out::counted;
use super::outputs::Files;
use super::source::{Opened, format_name, number};
use super::{Exit, Failure, Out, Verb, waiting};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace_core::container::ContainerError;
use trace_core::import::{self, raw_memory};
use trace_core::progress::Progress;
use trace_core::recording::MmuFormat;
use trace_core::{PhysAddr, Recording, container, timeline};

pub const VERB: Verb = Verb {
    name: "import",
    about: "Make a .kine of a foreign recording, or of a raw memory dump with --raw",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// What to import: a folder or file that an importer knows, or with --raw a memory dump
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The .kine to write
    #[arg(short = 'o', value_name = "F.kine")]
    to: PathBuf,
    /// The source is a dump of physical memory and nothing else
    #[arg(long, requires_all = ["base", "root", "format"])]
    raw: bool,
    /// Physical address of the dump's first byte
    #[arg(long, value_name = "ADDRESS", value_parser = number, requires = "raw")]
    base: Option<u64>,
    /// Physical address of the top page table
    #[arg(long, value_name = "ADDRESS", value_parser = number, requires = "raw")]
    root: Option<u64>,
    /// Format of the page tables: aarch64-4k or mali-lpae
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "raw")]
    format: Option<MmuFormat>,
    /// Memory attributes that page-table entries index, where they are known
    #[arg(long, value_name = "VALUE", value_parser = number, requires = "raw", default_value = "0")]
    memattr: u64,
    /// The GPU's id register, where it is known
    #[arg(long, value_name = "VALUE", value_parser = number, requires = "raw", default_value = "0")]
    gpu_id: u64,
}

fn format(text: &str) -> Result<MmuFormat, String> {
    let all = [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae];
    let found = all.into_iter().find(|f| format_name(*f) == text);
    found.ok_or_else(|| format!("'{text}' is not a format (expected aarch64-4k or mali-lpae)"))
}

#[derive(Serialize)]
struct Report<'a> {
    path: String,
    bytes: u64,
    events: u64,
    pages: u64,
    distinct_pages: u64,
    findings: Vec<Shown<'a>>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let (source, to) = (&arguments.source, &arguments.to);
    let at = Files::of(source).writes("-o", Some(to)).check_kine(to)?;
    let recording = waiting::show("importing", |progress, _| to_kine(arguments, &at, progress))?;
    let bytes = std::fs::metadata(to).map_err(|e| Failure::file(to, e))?.len();
    report(Opened::new(recording), to, bytes, out)
}

/// Reads the source and writes the `.kine` to the file `at`.
fn to_kine(arguments: &Arguments, at: &Path, progress: &Progress) -> Result<Recording, Failure> {
    let source = &arguments.source;
    // What was not written is the fault of the file to write, and never of the source.
    let unwritten = |e: ContainerError| Failure::file(&arguments.to, e);
    match (arguments.base, arguments.root, arguments.format) {
        (Some(base), Some(root), Some(format)) if arguments.raw => {
            let gpu_id =
                u32::try_from(arguments.gpu_id).map_err(|_| Failure::usage("--gpu-id: the register has 32 bits"))?;
            let options = raw_memory::Options {
                base: PhysAddr(base),
                root: PhysAddr(root),
                format,
                memattr: arguments.memattr,
                gpu_id,
            };
            let recording = raw_memory::import(source, &options, progress).map_err(|e| Failure::file(source, e))?;
            container::write(&recording, at, progress).map_err(unwritten)?;
            Ok(recording)
        }
        _ => {
            let recording = import::open(source, progress).map_err(|e| Failure::file(source, e))?;
            timeline::write(&recording, at, progress).map_err(unwritten)?;
            Ok(recording)
        }
    }
}

/// Says what is in the new file.
fn report(opened: Opened, to: &Path, bytes: u64, out: &mut Out) -> Result<Exit, Failure> {
    let facts = &opened.recording.facts;
    let events = opened.recording.events.len() as u64;
    if out.json() {
        out.value(&Report {
            path: to.display().to_string(),
            bytes,
            events,
            pages: facts.source_pages,
            distinct_pages: opened.distinct_pages(),
            findings: facts.findings.iter().map(Shown::from).collect(),
        })?;
    } else {
        for f in &facts.findings {
            out.line(format_args!("{}: {}: {}", name_of(&f.severity), f.place, f.message))?;
        }
        let (pages, distinct) = (facts.source_pages, opened.distinct_pages());
        out.line(format_args!(
            "{}: {}, {}, {} ({distinct} distinct)",
            to.display(),
            counted(bytes, "byte"),
            counted(events, "event"),
            counted(pages, "page")
        ))?;
    }
    Ok(Exit::Good)
}
