//! The CPU as a target: threads take one input after the other.

use crate::copy::{CopyError, SharedRun, run_copy};
use crate::instrument;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wasm_run::{
    Backend, BackendError, Control, Input, Program, ProgramError, ProgramRun, RunEnd, RunOptions, TrapKind,
};
use wasm_system::{SystemInputs, SystemLayout};
use wasmi::{CompilationMode, Config, Engine, Module};

/// Capacity of each output buffer in bytes. A full buffer costs one call of the host.
const OUTPUT_BUFFER_BYTES: u32 = 64 << 10;
/// Maximum height of the interpreter's value stack in bytes. The call depth is the limit that programs meet.
const VALUE_STACK_BYTES: usize = 64 << 20;
/// The opcode of `call_indirect`.
const CALL_INDIRECT: u8 = 0x11;

/// A program on the CPU.
pub struct CpuBackend {
    program: Program,
    options: RunOptions,
    engine: Engine,
    module: Module,
    /// The program that notes places, which only traps need.
    noting: OnceLock<Result<Module, String>>,
    compile_time: Duration,
}

impl CpuBackend {
    /// Compiles a program for the interpreter.
    ///
    /// # Errors
    /// When the program does not fit the options, or an import has another signature than its system call.
    pub fn new(program: Program, options: RunOptions) -> Result<Self, ProgramError> {
        let start = Instant::now();
        program.check(&options)?;
        let mut config = Config::default();
        config.consume_fuel(true).wasm_multi_memory(true);
        // A function that is compiled at its first call takes fuel for it, and a large one can end a copy.
        config.compilation_mode(CompilationMode::Eager);
        config.set_max_recursion_depth(options.limits.call_depth as usize);
        config.set_max_stack_height(VALUE_STACK_BYTES);
        let engine = Engine::new(&config);
        let failed = |e: &dyn std::fmt::Display| ProgramError::Target(format!("the interpreter: {e}"));
        let changed = instrument::change(program.bytes(), false)?;
        let module = Module::new(&engine, changed).map_err(|e| failed(&e))?;
        Ok(Self {
            program,
            options,
            engine,
            module,
            noting: OnceLock::new(),
            compile_time: start.elapsed(),
        })
    }

    fn system_inputs<'a>(&'a self, standard_input: &'a [u8], number: usize) -> SystemInputs<'a> {
        SystemInputs {
            arguments: &self.options.arguments,
            environment: &self.options.environment,
            standard_input,
            seed: self.options.seed,
            input_number: number as u64,
            clock_start: self.options.clock_start,
            clock_step: self.options.clock_step,
            output_limit: self.options.limits.output_bytes,
        }
    }

    fn layout(&self, inputs: &[Input]) -> Result<SystemLayout, BackendError> {
        let sizes = inputs
            .iter()
            .flat_map(|i| i.more_requests.iter().chain([&i.bytes]))
            .map(|bytes| bytes.len() as u64);
        let first = self.system_inputs(&[], 0);
        let log_entries = self.options.limits.log_entries;
        SystemLayout::new(
            &first,
            sizes.max().unwrap_or(0),
            OUTPUT_BUFFER_BYTES,
            OUTPUT_BUFFER_BYTES,
            log_entries,
        )
        .map_err(|e| BackendError::Target(e.to_string()))
    }

    /// Runs the copy of one input. A copy that traps runs a second time to find the place.
    fn run_input(&self, shared: &SharedRun<'_>, input: &Input, number: usize) -> Result<ProgramRun, BackendError> {
        let failed = |reason: String| BackendError::Input {
            name: input.name.clone(),
            reason,
        };
        let copy_failed = |e| match e {
            CopyError::Cancelled => BackendError::Cancelled,
            CopyError::Failed(reason) => failed(reason),
        };
        let memory = shared
            .layout
            .encode(&self.system_inputs(&input.bytes, number))
            .map_err(|e| failed(e.to_string()))?;
        let fuel = self.options.limits.fuel;
        let mut run = run_copy(shared, &self.module, input, &memory, fuel)
            .map_err(copy_failed)?
            .run;
        let RunEnd::Trap(trap) = &mut run.end else {
            return Ok(run);
        };
        // Where a limit of time ends a copy is chance.
        if trap.kind == TrapKind::TimeLimit {
            return Ok(run);
        }
        let noting = self.noting().map_err(|e| failed(e.to_owned()))?;
        let second = run_copy(shared, noting, input, &memory, None).map_err(copy_failed)?;
        if matches!(&second.run.end, RunEnd::Trap(t) if t.kind == trap.kind) {
            trap.place = second.place.and_then(|offset| self.program.find_place(offset));
        }
        // The interpreter has one kind for both accesses of a table.
        if trap.kind == TrapKind::TableOutOfBounds
            && let Some(place) = &trap.place
            && usize::try_from(place.offset).is_ok_and(|o| self.program.bytes().get(o) == Some(&CALL_INDIRECT))
        {
            trap.kind = TrapKind::UndefinedElement;
        }
        Ok(run)
    }

    fn noting(&self) -> Result<&Module, &str> {
        let module = self.noting.get_or_init(|| {
            let changed = instrument::change(self.program.bytes(), true).map_err(|e| e.to_string())?;
            Module::new(&self.engine, changed).map_err(|e| e.to_string())
        });
        module.as_ref().map_err(String::as_str)
    }
}

impl Backend for CpuBackend {
    fn copies(&self, inputs: usize) -> u32 {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let copies = self.options.copies.map_or(cores, |c| c.min(cores)).max(1);
        copies.min(u32::try_from(inputs).unwrap_or(u32::MAX).max(1))
    }

    fn compile_time(&self) -> Duration {
        self.compile_time
    }

    fn run(&self, inputs: &[Input], control: &dyn Control) -> Result<(), BackendError> {
        let layout = self.layout(inputs)?;
        let system = match self.program.imports() {
            [] => None,
            _ => Some(system_module(&self.engine, layout.pages()).map_err(BackendError::Target)?),
        };
        let stop = AtomicBool::new(false);
        let is_cancelled = || stop.load(Ordering::Relaxed) || control.is_cancelled();
        let shared = SharedRun {
            engine: &self.engine,
            system: system.as_ref(),
            layout: &layout,
            limits: &self.options.limits,
            function: &self.options.function,
            is_cancelled: &is_cancelled,
        };
        let next = AtomicUsize::new(0);
        let first_error: Mutex<Option<BackendError>> = Mutex::new(None);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(input) = inputs.get(number) else { return };
                let result = if is_cancelled() {
                    Err(BackendError::Cancelled)
                } else {
                    control.input_started(number);
                    self.run_input(&shared, input, number)
                };
                let result =
                    result.and_then(|run| control.take_result(number, run).map_err(BackendError::ResultNotTaken));
                if let Err(e) = result {
                    // The first error stops the other threads, which then see a cancellation.
                    let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(e);
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.copies(inputs.len()) {
                scope.spawn(work);
            }
            work();
        });
        let first = first_error.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }
}

fn system_module(engine: &Engine, pages: u32) -> Result<Module, String> {
    let binary = wasm_system::assemble(pages).map_err(|e| e.to_string())?;
    Module::new(engine, binary).map_err(|e| e.to_string())
}
