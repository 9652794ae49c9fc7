//! Arguments that the parts of `wasm` share: the program with its limits, and the target.

use crate::cli::{Failure, limit, wasm_target};
use clap::{Args, ValueEnum};
use kinescope_session::wasm_program::open_file;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasm_gpu::{GpuOptions, TranslationOptions};
use wasm_ptx::CellSize;
use wasm_run::{Backend, Limits, PAGE_BYTES, Program, RunOptions};

/// Maximum size of a memory: 4 GiB.
const MAX_PAGES: u64 = 1 << 16;

#[derive(Args)]
pub struct ProgramArguments {
    /// The program, in binary form (.wasm) or text form (.wat)
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Maximum number of copies at the same time [default: what the target allows]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    copies: Option<u32>,
    /// Exported function to call, without parameters
    #[arg(long, value_name = "NAME", default_value = RunOptions::DEFAULT_FUNCTION)]
    function: String,
    /// Argument for the program, after its name; may be given more than once
    #[arg(long = "arg", value_name = "TEXT", allow_hyphen_values = true)]
    arguments: Vec<OsString>,
    /// Environment variable; may be given more than once
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Make each line of an input one request of `invoke`
    #[arg(long)]
    requests: bool,
    /// Seed of the random numbers; equal seeds give equal runs
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Virtual time at the start of each copy, nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 0)]
    clock_start: u64,
    /// Virtual time that each system call takes, nanoseconds
    #[arg(long, value_name = "NS", default_value_t = RunOptions::DEFAULT_CLOCK_STEP)]
    clock_step: u64,
    /// Maximum memory of a copy: 16MiB
    #[arg(long, value_name = "BYTES", value_parser = limit::bytes, default_value = "16MiB")]
    limit_memory: u64,
    /// Maximum number of nested calls
    #[arg(long, value_name = "COUNT", default_value_t = Limits::DEFAULT_CALL_DEPTH)]
    limit_depth: u32,
    /// Maximum running time of a copy in seconds; 0 is no limit
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    limit_time: Duration,
    /// Maximum fuel of a copy, about one for each instruction [default: no limit]
    #[arg(long, value_name = "FUEL")]
    limit_fuel: Option<u64>,
    /// Maximum output of a copy: 16MiB
    #[arg(long, value_name = "BYTES", value_parser = limit::bytes, default_value = "16MiB")]
    limit_output: u64,
    /// Number of system calls that the log of a copy keeps
    #[arg(long, value_name = "COUNT", default_value_t = Limits::DEFAULT_LOG_ENTRIES)]
    limit_calls: u32,
}

fn variable(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("'{text}' is not a variable (expected NAME=VALUE)")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .and_then(|n| Duration::try_from_secs_f64(n).ok())
        .ok_or_else(|| format!("'{text}' is not a number of seconds (expected 60 or 0.5)"))
}

impl ProgramArguments {
    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        &self.program
    }

    /// Returns the file name of the program.
    pub fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns whether each line of an input is a request.
    pub fn by_request(&self) -> bool {
        self.requests
    }

    /// Opens the program.
    ///
    /// # Errors
    /// When it cannot be read, or is no program that can run.
    pub fn open(&self) -> Result<Program, Failure> {
        open_file(&self.program).map_err(|e| Failure::file(&self.program, e))
    }

    /// Returns the options of a run. The first argument is the file name of the program.
    pub fn options(&self) -> Result<RunOptions, Failure> {
        let pages = self.limit_memory.div_ceil(PAGE_BYTES);
        let memory_pages = u32::try_from(pages).ok().filter(|_| pages <= MAX_PAGES);
        let memory_pages = memory_pages.ok_or_else(|| Failure::usage("--limit-memory: a memory has at most 4GiB"))?;
        let name = self.program.file_name().unwrap_or_default().to_owned();
        let words = std::iter::once(name).chain(self.arguments.iter().cloned());
        Ok(RunOptions {
            function: self.function.clone(),
            arguments: words.map(OsString::into_vec).collect(),
            environment: self.environment.clone(),
            seed: self.seed,
            clock_start: self.clock_start,
            clock_step: self.clock_step,
            limits: Limits {
                memory_pages,
                call_depth: self.limit_depth,
                fuel: self.limit_fuel,
                time: Some(self.limit_time).filter(|t| !t.is_zero()),
                output_bytes: self.limit_output,
                log_entries: self.limit_calls,
            },
            copies: self.copies,
        })
    }
}

/// Cell sizes on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cell {
    /// 4 bytes.
    #[value(name = "4")]
    Four,
    /// 8 bytes.
    #[value(name = "8")]
    Eight,
    /// 16 bytes.
    #[value(name = "16")]
    Sixteen,
}

impl Cell {
    fn size(self) -> CellSize {
        match self {
            Self::Four => CellSize::Four,
            Self::Eight => CellSize::Eight,
            Self::Sixteen => CellSize::Sixteen,
        }
    }
}

/// How a program is translated.
#[derive(Args)]
pub struct TranslationArguments {
    /// Bytes of a copy's memory that stand together [default: 8 if most accesses have 64 bits, else 4]
    #[arg(long, value_name = "BYTES")]
    cell: Option<Cell>,
    /// Let each loop stop for the host, so that no launch is long; the code is slower
    #[arg(long)]
    strict: bool,
}

impl TranslationArguments {
    /// Returns the choices of a translation.
    pub fn options(&self) -> TranslationOptions {
        TranslationOptions {
            cell: self.cell.map(Cell::size),
            strict: self.strict,
            counters: false,
        }
    }
}

/// How a target runs a program.
#[derive(Args)]
pub struct TargetArguments {
    #[command(flatten)]
    translation: TranslationArguments,
    /// Start large inputs first, and inputs of the same size with similar first bytes together
    #[arg(long)]
    sort: bool,
    /// Compile for the GPU also if the cache has the program, and keep nothing
    #[arg(long)]
    no_cache: bool,
}

impl TargetArguments {
    fn translation(&self, profile: bool) -> TranslationOptions {
        TranslationOptions {
            counters: profile,
            ..self.translation.options()
        }
    }

    /// Returns the choices of a run on a GPU. With `profile` the run counts executions and active lanes.
    pub fn gpu_options(&self, device: u32, profile: bool) -> GpuOptions {
        GpuOptions {
            device,
            translation: self.translation(profile),
            sort: self.sort,
            no_cache: self.no_cache,
        }
    }

    /// Opens a target for the program in a file. With `profile` a run counts executions and active lanes.
    ///
    /// # Errors
    /// When no target has the name, the target has no profile, the agent cannot be reached, or the program does not fit
    /// the options.
    pub fn open(
        &self,
        on: &str,
        path: &Path,
        options: RunOptions,
        program: Program,
        profile: bool,
    ) -> Result<Box<dyn Backend>, Failure> {
        let target = wasm_target::parse_target(on)?;
        if profile {
            wasm_target::check_profile(&target)?;
        }
        wasm_target::open(&target, program, options, self.gpu_options(0, profile), path)
    }
}
