//! Recording of CUDA programs: options of `record`, and the report on such a recording.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::{Failure, Out};
use clap::Args;
use cuda_code::names::Patterns;
use replay_cuda::Script;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace_core::Recording;
use trace_core::container;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{ProcessEntry, ProcessIndex};
use trace_import::processes::index_of;

/// The recorded part of a CUDA program.
#[derive(Args)]
pub(super) struct CudaArguments {
    /// CUDA: range to record: whole, first:N for the first N launches, marks for the range between the program's own
    /// marks (kinescope_mark)
    #[arg(long, value_name = "RANGE", default_value = "whole", value_parser = range)]
    range: String,
    /// CUDA: record only launches of these functions, each with memory before and after it. A pattern is part of a
    /// name, a whole name with * and ?, or an expression between slashes; it matches mangled and source names
    #[arg(long, value_name = "PATTERN,…", value_parser = patterns)]
    kernels: Option<String>,
    /// CUDA: launches to record of each such function: first, largest (each with more threads than all before), every:N
    /// (the first of each N), all
    #[arg(long, value_name = "WHICH", default_value = "first", value_parser = pick, requires = "kernels")]
    pick: String,
    /// CUDA: maximum number of recorded launches of each such function
    #[arg(long = "max-launches", alias = "most", value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "kernels")]
    most: Option<u64>,
}

impl CudaArguments {
    /// Sets the options of the recorder in the program's environment.
    pub fn set_environment(&self, command: &mut Command) {
        command.env("KINESCOPE_CUDA_RANGE", &self.range);
        let kernels = [
            ("KINESCOPE_CUDA_KERNELS", self.kernels.clone()),
            ("KINESCOPE_CUDA_PICK", self.kernels.as_ref().map(|_| self.pick.clone())),
            ("KINESCOPE_CUDA_MOST", self.most.map(|n| n.to_string())),
        ];
        for (name, value) in kernels {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

/// Parses the recorded range of a CUDA program.
fn range(text: &str) -> Result<String, String> {
    let first = text.strip_prefix("first:").and_then(|n| n.parse::<u64>().ok());
    if matches!(text, "whole" | "marks") || first.is_some_and(|n| n > 0) {
        Ok(text.to_owned())
    } else {
        Err("expected whole, first:N or marks".to_owned())
    }
}

/// Parses patterns of function names.
fn patterns(text: &str) -> Result<String, String> {
    Patterns::parse(text).map_err(|e| e.to_string())?;
    Ok(text.to_owned())
}

/// Parses which launches of a function are recorded.
fn pick(text: &str) -> Result<String, String> {
    let every = text.strip_prefix("every:").and_then(|n| n.parse::<u64>().ok());
    if matches!(text, "first" | "largest" | "all") || every.is_some_and(|n| n > 0) {
        Ok(text.to_owned())
    } else {
        Err("expected first, largest, every:N or all".to_owned())
    }
}

/// The recording of a CUDA program in figures. The recorder runs in the program.
#[derive(Serialize)]
struct CallsReport {
    /// The recording: its file and size.
    path: String,
    bytes: u64,
    /// Number of events, launches and copies.
    events: u64,
    launches: u64,
    copies: u64,
    /// Number of functions and of modules.
    functions: u64,
    modules: u64,
    /// What the recording lacks, as text.
    lost: Vec<String>,
    /// What the program used and the recording does not hold, as text.
    not_recorded: Vec<String>,
    /// The first event that no replay can execute, and why, as text; `null` if there is none.
    obstacle: Option<String>,
    /// The index of the program's processes; `null` if there is only one process.
    index: Option<String>,
    /// Name of the GPU.
    gpu: String,
    /// Exit code of the program.
    exit_code: u8,
    /// Other recordings, of further processes.
    also: Vec<String>,
    /// Limits of the recordings of `also[]`.
    processes: Vec<ProcessGaps>,
}

/// The gaps in the recording of one process of the program, read from its file.
#[derive(Serialize)]
struct ProcessGaps {
    /// The recording.
    path: String,
    /// As above, for this process.
    not_recorded: Vec<String>,
    obstacle: Option<String>,
}

impl ProcessGaps {
    fn for_recording(path: &Path, recording: &Recording) -> Self {
        let findings = recording.metadata.findings.iter();
        let not_recorded = findings.filter(|f| f.kind == FindingKind::NotRecorded);
        let obstacle = Script::new(recording).ok().and_then(|script| script.obstacle());
        Self {
            path: path.display().to_string(),
            not_recorded: not_recorded.map(|f| format!("{}: {}", f.place, f.message)).collect(),
            obstacle: obstacle.map(|o| format!("event {}: {}", o.event, o.why)),
        }
    }

    fn print_warnings(&self) {
        let path = &self.path;
        for why in &self.not_recorded {
            complain(format_args!("{path}: not recorded: {why}"));
        }
        if let Some(why) = &self.obstacle {
            complain(format_args!("{path}: cannot be replayed: {why}"));
        }
    }
}

/// Returns the index entry of the process of a recording. An unreadable recording has no figures.
fn index_entry(path: &Path, recording: Option<&Recording>) -> ProcessEntry {
    let file = PathBuf::from(path.file_name().unwrap_or_default());
    let Some(recording) = recording else {
        return ProcessEntry {
            file,
            ..ProcessEntry::default()
        };
    };
    let metadata = recording.api().cloned().unwrap_or_default();
    ProcessEntry {
        file,
        process: metadata.process.number,
        parent: metadata.process.parent,
        command: metadata.process.command,
        device: metadata.device.name,
        events: recording.events.len() as u64,
        launches: recording.events.launches.len() as u64,
        complete: metadata.process.ended,
    }
}

/// Writes the index of a program's processes, if there are several, and returns its path.
fn write_index(at: &Path, mut processes: Vec<ProcessEntry>) -> Result<Option<PathBuf>, Failure> {
    if processes.len() < 2 {
        return Ok(None);
    }
    processes.sort_by_key(|p| p.process);
    let index = ProcessIndex {
        kinescope_processes: 1,
        processes,
    };
    let to = index_of(at);
    let failed = |e: &dyn std::fmt::Display| Failure::file(&to, e);
    let json = serde_json::to_vec_pretty(&index).map_err(|e| failed(&e))?;
    std::fs::write(&to, json).map_err(|e| failed(&e))?;
    Ok(Some(to))
}

/// Stores in the recording file the derived data that the window would compute before it shows anything.
pub(in crate::cli::verbs) fn save_derived(recording: &Recording, at: &Path) {
    if let Err(e) = trace_core::timeline::append(recording, at, &Progress::new()) {
        complain(format_args!(
            "cannot store derived data in the recording: {e}; it is computed again at each opening"
        ));
    }
}

/// Prints the report on an API trace.
pub(in crate::cli::verbs) fn report_api_trace(
    to: &Path,
    recording: &Recording,
    bytes: u64,
    code: u8,
    also: &[PathBuf],
    out: &mut Out,
) -> Result<(), Failure> {
    let path = to.display().to_string();
    let mut entries = vec![index_entry(to, Some(recording))];
    let mut processes = Vec::new();
    for path in also {
        let other = container::open(path).ok();
        entries.push(index_entry(path, other.as_ref()));
        if let Some(recording) = &other {
            save_derived(recording, path);
        }
        processes.extend(other.map(|recording| ProcessGaps::for_recording(path, &recording)));
    }
    let index = write_index(to, entries)?;
    let lack = ProcessGaps::for_recording(to, recording);
    let metadata = recording.api().cloned().unwrap_or_default();
    let report = CallsReport {
        path: path.clone(),
        bytes,
        events: recording.events.len() as u64,
        launches: recording.events.launches.len() as u64,
        copies: recording.events.copies.len() as u64,
        functions: metadata.functions.len() as u64,
        modules: metadata.modules.len() as u64,
        lost: recording.metadata.lost.iter().map(|l| l.reason.clone()).collect(),
        not_recorded: lack.not_recorded.clone(),
        obstacle: lack.obstacle.clone(),
        index: index.map(|path| path.display().to_string()),
        gpu: recording.metadata.identity.gpu_name.clone(),
        exit_code: code,
        also: also.iter().map(|p| p.display().to_string()).collect(),
        processes,
    };
    if out.is_json() {
        return Ok(out.value(&report)?);
    }
    let launches = match report.launches {
        1 => "1 launch".to_owned(),
        n => format!("{n} launches"),
    };
    complain(format_args!(
        "{path}: {launches}, {}, {}, {} on {}",
        format_count(report.events, "event"),
        format_count(report.modules, "module"),
        format_count(bytes, "byte"),
        report.gpu
    ));
    for other in &report.also {
        complain(format_args!("{other}: another process of the program"));
    }
    if let Some(index) = &report.index {
        complain(format_args!(
            "{index}: index of these recordings; it opens as the process with the most work"
        ));
    }
    lack.print_warnings();
    report.processes.iter().for_each(ProcessGaps::print_warnings);
    for lost in &report.lost {
        complain(format_args!("{path}: the recording ends early: {lost}"));
    }
    Ok(())
}
