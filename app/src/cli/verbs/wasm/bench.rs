//! `wasm bench`: measures a program on the CPU and on a GPU with each cell size.

use super::arguments::{ProgramArguments, TargetArguments};
use super::inputs;
use super::run::print_lowered_call_depth;
use crate::cli::wasm_target::{WasmTarget, check_profile, open_gpu, parse_target, run_failure};
use crate::cli::{Exit, Failure, Out, progress_line};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use wasm_cpu::CpuBackend;
use wasm_gpu::GpuOptions;
use wasm_ptx::CellSize;
use wasm_run::{Backend, BlockProfile, Control, Input, PhaseSeconds, Program, ProgramRun, RunOptions};

/// Inputs of the run that measures the compilation alone.
const MAX_COLD_INPUTS: usize = 64;

#[derive(Args)]
pub struct BenchArguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// Inputs: files, folders (each file, in name order), or .jsonl files (each line)
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    inputs: Vec<PathBuf>,
    /// Give each input to so many copies, under the same name
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// GPU that is measured besides the CPU; cpu measures the CPU alone
    #[arg(long, value_name = "TARGET", default_value = "cuda:0")]
    on: String,
    /// Do not measure the CPU
    #[arg(long)]
    no_cpu: bool,
    /// Do not measure the compilation without the cache
    #[arg(long)]
    no_cold: bool,
    #[command(flatten)]
    target: TargetArguments,
    /// Measure the share of active lanes too, in a run of its own
    #[arg(long)]
    profile: bool,
}

/// A measurement.
#[derive(Serialize)]
struct Measurement {
    /// Name of the target.
    target: String,
    /// Cell size in bytes; `null` for the CPU.
    cell: Option<u32>,
    /// Number of copies at the same time.
    copies: u32,
    /// Number of inputs.
    inputs: u64,
    /// Number of copies that trapped or had another exit code than 0.
    failed: u64,
    /// Seconds of translation and compilation, without the cache; `null` if it was not measured.
    cold_compile_seconds: Option<f64>,
    /// Seconds of translation and loading from the cache; `null` for the CPU.
    warm_compile_seconds: Option<f64>,
    /// Seconds of the fastest run: from the allocation of the copies' memory to the last result in memory.
    seconds: f64,
    /// Seconds of this run with the start of the target; a GPU's program comes from the cache.
    wall_seconds: f64,
    /// Inputs in a second of this run.
    inputs_per_second: f64,
    /// Maximum number of nested calls of a copy: the limit, or fewer if the target has no room for their stack.
    call_depth: u32,
    /// Registers of a thread; `null` for the CPU.
    registers: Option<u32>,
    /// Number of launches of the last run; `null` for the CPU.
    launches: Option<u64>,
    /// Seconds that the GPU ran launches in the last run, without the work of the host; `null` for the CPU.
    device_seconds: Option<f64>,
    /// Size of the stack of a thread in bytes; `null` for the CPU.
    stack_bytes: Option<u64>,
    /// Where the time of the fastest run went; `null` for the CPU.
    phases: Option<PhaseSeconds>,
    /// Share of active lanes of all executed blocks, 0 to 1; `null` for the CPU and without `--profile`.
    active_share: Option<f64>,
}

pub fn run(arguments: &BenchArguments, out: &mut Out) -> Result<Exit, Failure> {
    let target = parse_target(&arguments.on)?;
    if target == WasmTarget::Interpreter {
        return Err(Failure::usage(
            "--on interpreter: the interpreter is no target for measurements",
        ));
    }
    if arguments.profile {
        check_profile(&target)?;
    }
    if let WasmTarget::Agent { name, .. } = &target {
        return Err(Failure::usage(format!(
            "--on {name}: a measurement is of this machine; run `kinescope wasm bench` on the agent's machine"
        )));
    }
    let program = arguments.program.open()?;
    let mut options = arguments.program.options()?;
    // Nothing reads the log.
    options.limits.log_entries = 0;
    let measurements = progress_line::run_with_progress("measuring", |progress, step| {
        step.set("reading the inputs");
        let inputs = inputs::read(&arguments.inputs, arguments.program.by_request(), progress)?;
        let inputs = repeat(inputs, arguments.repeat, progress)?;
        let mut all = Vec::new();
        if !arguments.no_cpu {
            step.set("measuring the CPU");
            all.push(measure_cpu(arguments, &program, &options, &inputs, progress)?);
        }
        if let WasmTarget::Cuda(device) = target {
            let chosen = arguments.target.gpu_options(device, false);
            let cells = match chosen.translation.cell {
                Some(cell) => vec![cell],
                None => vec![CellSize::Four, CellSize::Eight, CellSize::Sixteen],
            };
            step.set("measuring the GPU");
            for cell in cells {
                let mut gpu = chosen;
                gpu.translation.cell = Some(cell);
                all.push(measure_gpu(arguments, (&program, &options), gpu, &inputs, progress)?);
            }
        }
        Ok(all)
    })?;
    if out.is_json() {
        out.value(&measurements)?;
    } else {
        print(&measurements, options.limits.call_depth, out)?;
    }
    Ok(Exit::Good)
}

fn measure_cpu(
    arguments: &BenchArguments,
    program: &Program,
    options: &RunOptions,
    inputs: &[Input],
    progress: &Progress,
) -> Result<Measurement, Failure> {
    let failed = |e| Failure::file(arguments.program.path(), e);
    let backend = CpuBackend::new(program.clone(), options.clone()).map_err(failed)?;
    let counter = Counter::new(progress);
    let start = Instant::now();
    backend.run(inputs, &counter).map_err(run_failure)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Measurement {
        target: "cpu".to_owned(),
        cell: None,
        copies: backend.copies(inputs.len()),
        inputs: inputs.len() as u64,
        failed: counter.failed.into_inner(),
        cold_compile_seconds: Some(backend.compile_time().as_secs_f64()),
        warm_compile_seconds: None,
        seconds,
        wall_seconds: seconds,
        inputs_per_second: rate(inputs.len(), seconds),
        call_depth: options.limits.call_depth,
        registers: None,
        launches: None,
        device_seconds: None,
        stack_bytes: None,
        phases: None,
        active_share: None,
    })
}

/// Measures a GPU without the cache, then twice with it: the first of these runs may have to fill it.
fn measure_gpu(
    arguments: &BenchArguments,
    (program, options): (&Program, &RunOptions),
    gpu: GpuOptions,
    inputs: &[Input],
    progress: &Progress,
) -> Result<Measurement, Failure> {
    let failed = |e| Failure::file(arguments.program.path(), e);
    let run = |gpu: GpuOptions, no_cache: bool, inputs: &[Input]| {
        let gpu = GpuOptions { no_cache, ..gpu };
        let backend = open_gpu(program.clone(), options.clone(), gpu).map_err(failed)?;
        let counter = Counter::new(progress);
        let start = Instant::now();
        backend.run(inputs, &counter).map_err(run_failure)?;
        Ok::<_, Failure>((backend.report(), start.elapsed(), counter.failed.into_inner()))
    };
    let few = inputs.get(..inputs.len().min(MAX_COLD_INPUTS)).unwrap_or(inputs);
    let cold = if arguments.no_cold {
        None
    } else {
        Some(run(gpu, true, few)?.0)
    };
    let (first, first_wall, _) = run(gpu, false, inputs)?;
    let (warm, warm_wall, failed_copies) = run(gpu, false, inputs)?;
    let active_share = if arguments.profile {
        let mut counted = gpu;
        counted.translation.counters = true;
        let profile = run(counted, false, inputs)?.0.statistics.profile;
        profile.and_then(|blocks| BlockProfile::total_share(&blocks))
    } else {
        None
    };
    let time = |duration: Duration| duration.as_secs_f64();
    // The first of these runs compiles: its wall clock is no measurement.
    let (fastest, wall) = if first.compiled.cached && first.statistics.run_time < warm.statistics.run_time {
        (&first, first_wall)
    } else {
        (&warm, warm_wall)
    };
    let seconds = time(fastest.statistics.run_time);
    Ok(Measurement {
        target: arguments.on.clone(),
        cell: gpu.translation.cell.map(CellSize::bytes),
        copies: warm.copies,
        inputs: inputs.len() as u64,
        failed: failed_copies,
        cold_compile_seconds: cold.map(|report| time(report.compiled.time)),
        warm_compile_seconds: Some(time(warm.compiled.time)),
        seconds,
        wall_seconds: time(wall),
        inputs_per_second: rate(inputs.len(), seconds),
        call_depth: warm.statistics.lowered_call_depth.unwrap_or(options.limits.call_depth),
        registers: Some(warm.compiled.registers),
        launches: Some(warm.statistics.launches),
        device_seconds: Some(time(warm.statistics.device_time)),
        stack_bytes: Some(warm.compiled.stack_bytes),
        phases: Some(fastest.statistics.phases.in_seconds()),
        active_share,
    })
}

/// Returns each input `count` times: all of them, then all again.
fn repeat(inputs: Vec<Input>, count: u32, progress: &Progress) -> Result<Vec<Input>, Failure> {
    let bytes = |input: &Input| input.bytes.len() + input.more_requests.iter().map(Vec::len).sum::<usize>();
    let sum: u64 = inputs.iter().map(|input| bytes(input) as u64).sum();
    let limit = progress.unpack_limit();
    if sum.saturating_mul(count.into()) > limit {
        return Err(Failure::usage(format!(
            "--repeat {count}: the inputs have more than {limit} bytes then: give a smaller number"
        )));
    }
    Ok((0..count).flat_map(|_| inputs.iter().cloned()).collect())
}

/// Returns the number of inputs in a second.
fn rate(inputs: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { inputs as f64 / seconds } else { 0.0 }
}

fn print(measurements: &[Measurement], limit: u32, out: &mut Out) -> Result<(), Failure> {
    let headings = [
        "target", "cell", "copies", "failed", "cold s", "warm s", "run s", "wall s", "GPU s", "launches", "inputs/s",
        "lanes",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for m in measurements {
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        rows.push(vec![
            m.target.clone(),
            optional(m.cell.map(|c| c.to_string())),
            m.copies.to_string(),
            m.failed.to_string(),
            optional(m.cold_compile_seconds.map(|s| format!("{s:.2}"))),
            optional(m.warm_compile_seconds.map(|s| format!("{s:.2}"))),
            format!("{:.3}", m.seconds),
            format!("{:.3}", m.wall_seconds),
            optional(m.device_seconds.map(|s| format!("{s:.3}"))),
            optional(m.launches.map(|l| l.to_string())),
            format!("{:.1}", m.inputs_per_second),
            optional(m.active_share.map(|s| format!("{:.0} %", s * 100.0))),
        ]);
    }
    out.table(&rows)?;
    let depth = measurements.iter().map(|m| m.call_depth).min();
    match depth.filter(|depth| *depth < limit) {
        Some(depth) => print_lowered_call_depth(depth, limit, out),
        None => Ok(()),
    }
}

/// Counts results, and drops them.
struct Counter<'a> {
    progress: &'a Progress,
    failed: AtomicU64,
}

impl<'a> Counter<'a> {
    fn new(progress: &'a Progress) -> Self {
        Self {
            progress,
            failed: AtomicU64::new(0),
        }
    }
}

impl Control for Counter<'_> {
    fn is_cancelled(&self) -> bool {
        self.progress.check().is_err()
    }

    fn take_result(&self, _index: usize, run: ProgramRun) -> Result<(), String> {
        if !run.is_success() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
