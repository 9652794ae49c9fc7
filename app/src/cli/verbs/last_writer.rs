//! `last-writer`: prints the last writer of a byte on the simulated GPU: job, workgroup, thread, clause, operation, and its
//! inputs.

mod device;

use crate::cli::memory_access::AccessRow;
use crate::cli::replay_arguments::Inputs;
use crate::cli::source::{Source, number};
use crate::cli::trace_arguments::TraceArguments;
use crate::cli::{Exit, Failure, Out, Verb, api_trace, format_hex, progress_line, wasm_recordings};
use clap::{Args, FromArgMatches as _};
use device_mali::debug::{JobLocation, Writer};
use kinescope_session::debug::{self, DebugSession, WriterReport};
use kinescope_session::memory_trace;
use serde::Serialize;
use trace_core::GpuVa;

pub const VERB: Verb = Verb {
    name: "last-writer",
    about: "Print the last writer of a byte",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Arguments of the verb.
#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// GPU address of the byte, a buffer, or NAME+OFFSET
    #[arg(value_name = "ADDRESS", required_unless_present = "va")]
    address: Option<String>,
    /// GPU address of the byte
    #[arg(long, value_name = "ADDRESS", value_parser = number, conflicts_with = "address")]
    va: Option<u64>,
    /// In an API trace: the last writer before this event [default: at the end, or when its buffer was freed]
    #[arg(long, visible_alias = "event", value_name = "EVENT")]
    at: Option<u64>,
    /// Index of the address space, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    asked: TraceArguments,
}

/// The last writer of a byte on the simulator, of any kind. The engine has a type for each kind.
#[derive(Serialize)]
struct Report {
    /// The byte, the index of its address space, and its value at the end.
    va: String,
    address_space: u32,
    byte: String,
    /// `shader`; `write-value` (a job that writes a value); `status` (the hardware, when a job ended); `cpu` (a write
    /// of the CPU between jobs); `recording` (nothing in this run).
    writer: &'static str,
    /// Event of the job's submit; for `cpu` the last write of the CPU before the next job.
    event: Option<u64>,
    /// The writing job: its index, its position in the chain, its address; `null` for `cpu` and `recording`.
    job: Option<u32>,
    position: Option<u32>,
    job_va: Option<String>,
    /// `null` unless a shader wrote it.
    shader: Option<ShaderRow>,
}

/// The thread that wrote the byte, with the text of its operations.
#[derive(Serialize)]
struct ShaderRow {
    /// The shader.
    shader_va: String,
    /// The thread, along x, y, z.
    workgroup: [u32; 3],
    thread: [u32; 3],
    /// The clause that wrote the byte, the number of its tuple, and the operation.
    clause_va: String,
    label: String,
    tuple: u8,
    instruction: String,
    /// Step of the thread, counted from its start.
    step: u64,
    /// The write, as in `writes[]` of `shader --thread`.
    write: Option<AccessRow>,
    /// What the thread had read until then, the latest 256.
    reads: Vec<ReadRow>,
    /// Number of earlier reads that are left out.
    reads_before: u64,
}

/// A read of the thread, with the text of the operation.
#[derive(Serialize)]
struct ReadRow {
    /// Step of the thread, counted from its start.
    step: u64,
    /// The clause that read.
    clause_va: String,
    /// The access.
    #[serde(flatten)]
    access: AccessRow,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    arguments.asked.prestart();
    let opened = arguments.source.open()?;
    wasm_recordings::reject_run(
        &opened,
        "it holds system calls and streams, and no memory of the program; \
         `kinescope events --where 'call.name = fd_write'` lists what wrote the outputs",
    )?;
    if opened.recording.api().is_some() {
        if !arguments.inputs.is_empty() {
            return Err(Failure::usage(
                "--input is for replays on the simulator; for an API trace, `kinescope replay --input … -o OUTCOME.kine` makes a \
                 recording with these inputs",
            ));
        }
        let mut api_trace = api_trace::load(&opened)?;
        let va = match (&arguments.address, arguments.va) {
            (Some(text), _) => api_trace::parse_address(&opened, &api_trace, text)?,
            (None, va) => GpuVa::new(va.unwrap_or(0)),
        };
        let text = arguments.address.as_deref().unwrap_or_default();
        let event = api_trace::find_event(&opened, &api_trace, text, arguments.at)?;
        let mut whole = true;
        let doubt = api_trace.find_last_writer(&opened.recording, va, event);
        if let Some(request) =
            memory_trace::request_for_byte(&api_trace, &doubt, event).filter(|_| arguments.asked.is_requested())
        {
            (api_trace, whole) = arguments.asked.trace_memory(&opened, api_trace, request)?;
        }
        device::print_last_writer(&opened, &api_trace, va, event, out)?;
        return Ok(Exit::differs_if(!whole));
    }
    arguments.asked.reject_register_trace(&arguments.source.file)?;
    if arguments.at.is_some() {
        return Err(Failure::usage(
            "--at is for API traces; this verb shows the byte after a complete replay",
        ));
    }
    let va = match (&arguments.address, arguments.va) {
        (Some(text), _) => opened.parse_address(text)?,
        (None, va) => GpuVa::new(va.unwrap_or(0)),
    };
    opened.address_space(arguments.space)?;
    let file = &arguments.source.file;
    let edits = arguments.inputs.edits(&opened)?;
    let writer_report = progress_line::run_with_progress("replaying", |progress, _| {
        let fail = |e: debug::WriterError| Failure::file(file, e);
        let ready = DebugSession::new(&opened.recording, &edits, progress).map_err(fail)?;
        ready
            .find_last_writer(&opened.recording, arguments.space, va, progress)
            .map_err(fail)
    })?;
    if out.is_json() {
        let code = writer_report
            .location
            .as_ref()
            .zip(writer_report.submit)
            .and_then(|(w, event)| debug::code_at(&opened.recording, arguments.space, event, w.shader));
        out.value(&report(arguments, &writer_report, code.as_ref()))?;
    } else {
        text(&writer_report, out)?;
    }
    Ok(Exit::Good)
}

/// Returns the kind of the writer, and its job.
fn writer_kind(writer: &Writer) -> (&'static str, Option<JobLocation>) {
    match writer {
        Writer::Recording => ("recording", None),
        Writer::Cpu { .. } => ("cpu", None),
        Writer::Shader(place, _) => ("shader", Some(*place)),
        Writer::WriteValue(place) => ("write-value", Some(*place)),
        Writer::Status(place) => ("status", Some(*place)),
    }
}

fn report(arguments: &Arguments, writer_report: &WriterReport, code: Option<&trace_core::shader_code::Code>) -> Report {
    let (writer, place) = writer_kind(&writer_report.writer);
    let text = |clause: u64, tuple: u8| {
        code.map_or_else(String::new, |c| debug::format_instruction(c, GpuVa::new(clause), tuple))
    };
    let shader = match (&writer_report.writer, &writer_report.location) {
        (Writer::Shader(_, shown), Some(w)) => Some(ShaderRow {
            shader_va: format_hex(w.shader.get()),
            workgroup: shown.workgroup,
            thread: w.thread,
            clause_va: format_hex(shown.clause.get()),
            label: w.label.clone(),
            tuple: shown.tuple,
            instruction: w.instruction.clone(),
            step: w.step,
            write: w.write.as_ref().map(|a| AccessRow::new(a, w.instruction.clone())),
            reads: w
                .reads
                .iter()
                .map(|r| ReadRow {
                    step: r.step,
                    clause_va: format_hex(r.clause.get()),
                    access: AccessRow::new(&r.access, text(r.clause.get(), r.access.tuple)),
                })
                .collect(),
            reads_before: w.reads_before,
        }),
        _ => None,
    };
    Report {
        va: format_hex(writer_report.va.get()),
        address_space: arguments.space,
        byte: format_hex(u64::from(writer_report.byte)),
        writer,
        event: writer_report.submit,
        job: place.map(|p| p.chain),
        position: place.map(|p| p.position),
        job_va: place.map(|p| format_hex(p.va.get())),
        shader,
    }
}

fn text(report: &WriterReport, out: &mut Out) -> Result<(), Failure> {
    let (va, byte) = (report.va, report.byte);
    let job = |p: &JobLocation| match p.position {
        0 => format!("job {}", p.chain),
        n => format!("job {}, position {n} of its chain", p.chain),
    };
    match (&report.writer, &report.location) {
        (Writer::Recording, _) => {
            out.line(format_args!(
                "{va:#x} holds {byte:#04x}: no write in this run; the value is from the start"
            ))?;
        }
        (Writer::Cpu { after }, _) => {
            let when = match after {
                0 => "before the first job".to_owned(),
                n => format!("after job {}", n - 1),
            };
            let event = report
                .submit
                .map_or_else(String::new, |e| format!(", event {e} or before"));
            out.line(format_args!(
                "{va:#x} holds {byte:#04x}: the CPU wrote it {when}{event}"
            ))?;
        }
        (Writer::WriteValue(p), _) => {
            out.line(format_args!(
                "{va:#x} holds {byte:#04x}: {} wrote it, a write-value job at {:#x}",
                job(p),
                p.va
            ))?;
        }
        (Writer::Status(p), _) => {
            out.line(format_args!(
                "{va:#x} holds {byte:#04x}: the hardware wrote it when {} at {:#x} ended",
                job(p),
                p.va
            ))?;
        }
        (Writer::Shader(p, shown), within) => {
            let [gx, gy, gz] = shown.workgroup;
            out.line(format_args!(
                "{va:#x} holds {byte:#04x}: the shader of {} wrote it",
                job(p)
            ))?;
            let Some(w) = within else { return Ok(()) };
            let [x, y, z] = w.thread;
            out.table(&[
                vec!["Workgroup".into(), format!("{gx},{gy},{gz}")],
                vec!["Thread".into(), format!("{x},{y},{z}")],
                vec![
                    "Clause".into(),
                    format!("{} at {:#x}, step {} of the thread", w.label, shown.clause, w.step),
                ],
                vec!["Operation".into(), w.instruction.clone()],
                vec![
                    "Wrote".into(),
                    w.write.map_or_else(String::new, |a| {
                        format!("{} at {:#x}, {} bytes", debug::value(&a), a.va, a.bytes)
                    }),
                ],
            ])?;
            if w.reads_before > 0 {
                out.line(format_args!("{} earlier reads are not listed", w.reads_before))?;
            }
            for r in &w.reads {
                let a = &r.access;
                out.line(format_args!(
                    "read {} at {:#x}, {} bytes, step {}",
                    debug::value(a),
                    a.va,
                    a.bytes,
                    r.step
                ))?;
            }
        }
    }
    Ok(())
}
