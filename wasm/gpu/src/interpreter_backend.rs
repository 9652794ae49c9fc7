//! The interpreter of translated programs as a target of runs.

use crate::backend::MAX_KEPT_LAUNCHES;
use crate::device::CompiledProgram;
use crate::interpreter_device::InterpreterDevice;
use crate::scheduler::{RunObserver, RunStatistics, Scheduler};
use crate::translation::{TranslationOptions, max_input_bytes, translate};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wasm_run::{
    Backend, BackendError, BlockProfile, Control, Input, LaunchRecord, Program, ProgramError, ProgramRun, RunOptions,
};

/// A program that runs translated, but without a GPU. Much slower than the CPU target: it is for comparisons.
pub struct InterpreterBackend {
    program: Program,
    options: RunOptions,
    translation: TranslationOptions,
    sort: bool,
    copies: AtomicU32,
    compile_time: Mutex<Duration>,
    profile: Mutex<Option<Vec<BlockProfile>>>,
    launches: Mutex<Vec<LaunchRecord>>,
}

impl InterpreterBackend {
    /// Checks a program for runs with these options.
    ///
    /// # Errors
    /// When the program does not fit the options.
    pub fn new(
        program: Program,
        options: RunOptions,
        translation: TranslationOptions,
        sort: bool,
    ) -> Result<Self, ProgramError> {
        program.check(&options)?;
        Ok(Self {
            program,
            options,
            translation,
            sort,
            copies: AtomicU32::new(0),
            compile_time: Mutex::new(Duration::ZERO),
            profile: Mutex::default(),
            launches: Mutex::default(),
        })
    }

    /// Runs the program, and returns what the run took.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub fn run_measured(&self, inputs: &[Input], control: &dyn Control) -> Result<RunStatistics, BackendError> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let start = Instant::now();
        let translated = translate(&self.program, &self.options, self.translation, max_input_bytes(inputs));
        let translated = translated.map_err(|e| BackendError::Target(e.to_string()))?;
        let scheduler = Scheduler {
            translated: &translated,
            program: &self.program,
            options: &self.options,
            inputs,
            sort: self.sort,
        };
        let observer = Observer {
            backend: self,
            control,
            translate_time: start.elapsed(),
        };
        scheduler.run(&mut InterpreterDevice::new(), &observer)
    }
}

impl Backend for InterpreterBackend {
    fn copies(&self, _inputs: usize) -> u32 {
        self.copies.load(Ordering::Relaxed)
    }

    fn compile_time(&self) -> Duration {
        *self.compile_time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launches(&self) -> Vec<LaunchRecord> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn run(&self, inputs: &[Input], control: &dyn Control) -> Result<(), BackendError> {
        let measured = self.run_measured(inputs, control);
        let mut profile = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        *profile = None;
        *profile = measured?.profile;
        Ok(())
    }

    fn profile(&self) -> Option<Vec<BlockProfile>> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Passes what the scheduler says to the backend and the caller.
struct Observer<'a> {
    backend: &'a InterpreterBackend,
    control: &'a dyn Control,
    translate_time: Duration,
}

impl Control for Observer<'_> {
    fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    fn input_started(&self, index: usize) {
        self.control.input_started(index);
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        self.control.take_result(index, run)
    }
}

impl RunObserver for Observer<'_> {
    fn compiled(&self, compiled: &CompiledProgram) {
        let time = self.translate_time + compiled.time;
        *self.backend.compile_time.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    fn started(&self, copies: u32) {
        self.backend.copies.store(copies, Ordering::Relaxed);
    }

    fn alive(&self) {}

    fn launched(&self, launch: LaunchRecord) {
        let mut launches = self.backend.launches.lock().unwrap_or_else(PoisonError::into_inner);
        if launches.len() < MAX_KEPT_LAUNCHES {
            launches.push(launch);
        }
    }
}
