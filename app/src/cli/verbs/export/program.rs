//! `export --to program`: writes a replay as source code that firmware links.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::replay_arguments::Keys;
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, format_hex, progress_line};
use clap::Args;
use kinescope_session::targets::factories;
use replay_engine::client::fitting::RecordedDevice;
use replay_engine::client::targets::{self, TargetName, parse};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::CompileOptions;
use replay_program::{Options, Program, ProgramBuffer, WriteError, write};
use serde::Serialize;
use std::path::Path;
use trace_core::recording::BufferRole;
use trace_core::registers::RegisterMap;
use trace_core::{PAGE_SIZE, PhysAddr, Recording};

/// User options for an exported program or channel file.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "With --to program or channel")]
pub struct Choices {
    /// Name of the crate and of the C functions [default: from the name of the recording]
    #[arg(long, value_name = "NAME", requires = "as_what")]
    pub(super) name: Option<String>,
    /// Target whose GPU the program is for [default: the simulator of the recording's GPU; for a channel file nvidia:0,
    /// which needs no driver here]
    #[arg(long, value_name = "TARGET")]
    pub(super) on: Option<String>,
    /// Physical address at which the GPU sees the memory that the program receives [default: the target's]
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "as_what")]
    pub(super) arena: Option<u64>,
    /// Buffer that is supplied at run time [default: all inputs]; for a channel file NAME=FILE, its new contents. May be
    /// given more than once
    #[arg(long = "input", value_name = "NAME")]
    pub(super) inputs: Vec<String>,
    /// Buffer that is read at the end; may be given more than once [default: all outputs]
    #[arg(long = "output", value_name = "NAME")]
    pub(super) outputs: Vec<String>,
    /// For a channel file: build each launch of an API trace anew from its code and arguments, even if the recording
    /// holds what the driver submitted
    #[arg(long)]
    pub(super) rebuild: bool,
    #[command(flatten)]
    pub(super) keys: Keys,
}

impl Choices {
    /// Returns the first given option that is only valid for a program.
    pub fn given(&self) -> Option<&'static str> {
        [
            ("--name", self.name.is_some()),
            ("--on", self.on.is_some()),
            ("--arena", self.arena.is_some()),
            ("--input", !self.inputs.is_empty()),
            ("--output", !self.outputs.is_empty()),
            ("--rebuild", self.rebuild),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }
}

/// Parses a page-aligned physical address.
fn address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number
        .filter(|n| n.is_multiple_of(PAGE_SIZE as u64))
        .ok_or_else(|| format!("'{text}' is not the address of a page (expected a multiple of 0x1000)"))
}

/// The written program: its files, and the plan in figures.
#[derive(Serialize)]
struct Report<'a> {
    /// The written folder.
    path: String,
    /// Name of the program.
    name: &'a str,
    /// Relative file names.
    files: Vec<String>,
    /// Size of the data, and of the memory that the program needs.
    data_bytes: u64,
    memory_bytes: u64,
    /// Address at which the GPU sees that memory.
    arena: String,
    /// Number of actions, of compared reads, and of awaited interrupts.
    actions: u64,
    reads_compared: u64,
    interrupts: u64,
    /// Buffers that are supplied at run time, and that are read at the end.
    inputs: Vec<Buffer<'a>>,
    outputs: Vec<Buffer<'a>>,
    /// What the check of the plan could not prove, one sentence each.
    unproved: &'a [String],
    /// What is known from the recording and the program does not check, one sentence each.
    unchecked: &'a [String],
}

/// A buffer of the program, with the name of its element type.
#[derive(Serialize)]
struct Buffer<'a> {
    /// Name of the buffer in the recording.
    name: &'a str,
    /// Its identifier in the sources.
    field: &'a str,
    /// Size.
    bytes: u64,
    /// Type of the elements.
    element: &'static str,
}

fn buffers(list: &[ProgramBuffer]) -> Vec<Buffer<'_>> {
    list.iter()
        .map(|b| Buffer {
            name: &b.name,
            field: &b.id,
            bytes: b.bytes,
            element: b.element.name(),
        })
        .collect()
}

pub fn run(source: &Source, choices: &Choices, to: &Path, out: &mut Out) -> Result<Exit, Failure> {
    if choices.rebuild {
        return Err(Failure::usage("--rebuild requires --to channel"));
    }
    let opened = source.open_undamaged()?;
    let mut target = device(&opened.recording, choices, source)?;
    if let Some(base) = choices.arena {
        target.arena.base = PhysAddr::new(base);
    }
    let recording = &opened.recording;
    let mut outputs = choices.outputs.clone();
    if outputs.is_empty() {
        let own = recording
            .metadata
            .buffers
            .iter()
            .filter(|b| b.role == BufferRole::Output);
        outputs.extend(own.map(|b| b.name.clone()));
    }
    let options = Options {
        name: match &choices.name {
            Some(name) => name.clone(),
            None => named_by(&source.file),
        },
        inputs: choices.inputs.clone(),
        compile: CompileOptions {
            outputs,
            ..CompileOptions::default()
        },
    };
    let (program, written) = progress_line::run_with_progress("exporting", |progress, _| {
        let program = Program::from_recording(recording, &options, &target, progress)
            .map_err(|e| Failure::file(&source.file, e))?;
        let written = write(&program, to).map_err(|e| match e {
            WriteError::NotEmpty(_) | WriteError::File { .. } => Failure::usage(e.to_string()),
        })?;
        Ok((program, written))
    })?;
    for u in &program.unproved {
        complain(format_args!("not proved, bounded by time: {u}"));
    }
    for u in &program.unchecked {
        complain(format_args!(
            "known from the recording, but not checked by the program: {u}"
        ));
    }
    if out.is_json() {
        out.value(&Report {
            path: to.display().to_string(),
            name: &program.name,
            files: written.files.iter().map(|f| f.display().to_string()).collect(),
            data_bytes: written.data_bytes,
            memory_bytes: program.bytes,
            arena: format_hex(program.base.get()),
            actions: program.actions,
            reads_compared: program.reads.compared(),
            interrupts: program.interrupts,
            inputs: buffers(&program.inputs),
            outputs: buffers(&program.outputs),
            unproved: &program.unproved,
            unchecked: &program.unchecked,
        })?;
        return Ok(Exit::Good);
    }
    let names = |list: &[ProgramBuffer]| match list {
        [] => "none".to_owned(),
        some => some.iter().map(|b| b.id.as_str()).collect::<Vec<_>>().join(", "),
    };
    out.line(format_args!(
        "{}: program {} of {} and {} of data",
        to.display(),
        program.name,
        format_count(program.actions, "action"),
        format_count(written.data_bytes, "byte")
    ))?;
    out.line(format_args!(
        "inputs: {}; outputs: {}",
        names(&program.inputs),
        names(&program.outputs)
    ))?;
    if program.bytes > 0 {
        out.line(format_args!(
            "it needs {} KiB of memory that the GPU sees at {}",
            program.bytes / 1024,
            format_hex(program.base.get())
        ))?;
    }
    out.line(format_args!("how to build it: {}", to.join("README.md").display()))?;
    Ok(Exit::Good)
}

/// Returns the device that the program is for: that of a named target, or the simulator of the recording's GPU.
fn device(recording: &Recording, choices: &Choices, source: &Source) -> Result<DeviceInfo, Failure> {
    let made_on = &recording.metadata.identity;
    if let Some(name) = &choices.on {
        if matches!(parse(name), Ok(TargetName::Nvidia(_))) {
            return Err(only_channel_file(name));
        }
        let info = choices.keys.open_target(name)?.info().clone();
        if info.takes_submissions() {
            return Err(only_channel_file(name));
        }
        let fits = factories().check_fit(recording, name, &info);
        return fits.map(|()| info).map_err(|e| Failure::file(&source.file, e));
    }
    if RecordedDevice::new(recording).has_submissions {
        return Err(only_channel_file("this recording"));
    }
    let same = |d: &DeviceInfo| {
        let map = RegisterMap::by_name(&d.register_map);
        map.is_some_and(|m| made_on.gpu_id != 0 && m.is_same_product(made_on.gpu_id, d.gpu_id))
    };
    let found = targets::list_local(&factories())
        .into_iter()
        .filter_map(|b| b.info)
        .find(same);
    found.ok_or_else(|| {
        Failure::file(
            &source.file,
            "no simulator has the recording's GPU; name the target of the program with --on TARGET",
        )
    })
}

/// Returns the error that a replay on channels has no sources. `what` needs them.
fn only_channel_file(what: &str) -> Failure {
    Failure::usage(format!(
        "{what} needs submissions to channels, which no source code replays; write a file for the executable replay-channel \
         (--to channel)"
    ))
}

/// Derives a name from the recording's file.
fn named_by(file: &Path) -> String {
    let stem = file
        .file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    let kept = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    let name: String = stem.chars().map(kept).take(40).collect();
    match name.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => name,
        false => format!("replay_{name}"),
    }
}
