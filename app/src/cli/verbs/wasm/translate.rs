//! `wasm translate`: writes the PTX text that a GPU runs, and describes it.

use super::arguments::{ProgramArguments, TranslationArguments};
use crate::cli::limit;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::{Exit, Failure, Out};
use clap::Args;
use kinescope_files::output;
use serde::Serialize;
use std::path::PathBuf;
use wasm_gpu::{TranslatedProgram, translate};
use wasm_ptx::Placement;

#[derive(Args)]
pub struct TranslateArguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// File for the PTX text
    #[arg(short = 'o', value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    translation: TranslationArguments,
    /// Size of the largest input: 64KiB
    #[arg(long, value_name = "BYTES", value_parser = limit::bytes, default_value = "64KiB")]
    max_input: u64,
}

/// The description of a translated program.
#[derive(Serialize)]
struct TranslationReport {
    /// Size of the text in bytes.
    text_bytes: u64,
    /// Size of the constants that all copies share, in bytes.
    constant_bytes: u64,
    /// Cell size of interleaved memories in bytes.
    cell: u32,
    /// Size of the area of 32 copies in bytes.
    area_bytes: u64,
    /// Memories of a copy.
    memories: Vec<MemoryReport>,
    /// Number of functions in the text.
    functions: u64,
    /// Number of functions in which a copy can stop for the host.
    resumable_functions: u64,
    /// Maximum number of nested calls that the depth limit does not count.
    uncounted_frames: u32,
    /// Whether a function can call itself.
    recursive: bool,
}

/// A memory of a copy.
#[derive(Serialize)]
struct MemoryReport {
    /// `interleaved` or `contiguous`.
    placement: &'static str,
    /// Offset of the memory in the area, in bytes.
    offset: u64,
    /// Size at the start, in pages of 64 KiB.
    pages: u32,
    /// Maximum size, in pages of 64 KiB.
    max_pages: u32,
}

pub fn run(arguments: &TranslateArguments, out: &mut Out) -> Result<Exit, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::file(arguments.program.path(), e);
    let files = CommandFiles::default().with_input("the program", arguments.program.path());
    files.with_output("-o", Some(&arguments.to)).check()?;
    let program = arguments.program.open()?;
    let options = arguments.program.options()?;
    program.check(&options).map_err(|e| failed(&e))?;
    let translated = translate(&program, &options, arguments.translation.options(), arguments.max_input);
    let translated = translated.map_err(|e| failed(&e))?;
    output::write(&arguments.to, translated.program.text.as_bytes())?;
    let report = describe(&translated);
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Good);
    }
    out.line(format_args!(
        "{} of PTX in {}, {} of them can stop; cells of {} bytes",
        format_count(report.functions, "function"),
        arguments.to.display(),
        report.resumable_functions,
        report.cell
    ))?;
    for memory in &report.memories {
        out.line(format_args!(
            "{} memory at {:#x}: {} of up to {} pages",
            memory.placement, memory.offset, memory.pages, memory.max_pages
        ))?;
    }
    out.line(format_args!(
        "{} bytes of device memory for 32 copies",
        report.area_bytes
    ))?;
    Ok(Exit::Good)
}

fn describe(translated: &TranslatedProgram) -> TranslationReport {
    let program = &translated.program;
    let emitted = || program.functions.iter().filter(|f| f.emitted);
    let memories = program.layout.memories().iter().map(|memory| MemoryReport {
        placement: match memory.placement {
            Placement::Interleaved => "interleaved",
            Placement::Contiguous => "contiguous",
        },
        offset: memory.start.0,
        pages: memory.min_pages,
        max_pages: memory.max_pages,
    });
    TranslationReport {
        text_bytes: program.text.len() as u64,
        constant_bytes: program.constants.len() as u64,
        cell: translated.cell.bytes(),
        area_bytes: program.layout.area_bytes(),
        memories: memories.collect(),
        functions: emitted().count() as u64,
        resumable_functions: emitted().filter(|f| f.resumable).count() as u64,
        uncounted_frames: program.uncounted_frames,
        recursive: program.recursive,
    }
}
