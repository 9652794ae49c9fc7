//! Calls into a module: fuel in slices, between which time and cancellation are checked, and memory within its limit.

use super::{ModuleError, check_time};
use crate::document::ModuleLimits;
use std::time::Instant;
use trace_core::progress::Progress;
use wasmi::{Error, Instance, ResumableCall, Store, StoreLimits, StoreLimitsBuilder, TrapCode, Val};

/// Fuel of one slice: some milliseconds.
const SLICE_FUEL: u64 = 1 << 20;
/// Maximum number of elements of a table.
pub(super) const MAX_TABLE_ELEMENTS: usize = 1 << 16;

/// Returns the limits of a store: growth beyond them is a trap.
pub(super) fn store_limits(max_bytes: u64) -> StoreLimits {
    StoreLimitsBuilder::new()
        .memory_size(usize::try_from(max_bytes).unwrap_or(usize::MAX))
        .table_elements(MAX_TABLE_ELEMENTS)
        .instances(1)
        .tables(4)
        .memories(1)
        .trap_on_grow_failure(true)
        .build()
}

/// The fuel and the time of a run.
pub(super) struct FuelMeter<'a> {
    limits: ModuleLimits,
    progress: &'a Progress,
    left: u64,
    /// Fuel that the store got last.
    slice: u64,
    start: Instant,
}

impl<'a> FuelMeter<'a> {
    pub fn new(limits: ModuleLimits, progress: &'a Progress) -> Self {
        Self {
            limits,
            progress,
            left: limits.fuel,
            slice: 0,
            start: Instant::now(),
        }
    }

    /// Returns the used fuel.
    pub fn used(&self) -> u64 {
        self.limits.fuel.saturating_sub(self.left)
    }

    /// Gives the store fuel for a slice.
    pub fn start(&mut self, store: &mut Store<StoreLimits>) -> Result<(), ModuleError> {
        self.refill(store, 0)
    }

    fn refill(&mut self, store: &mut Store<StoreLimits>, required: u64) -> Result<(), ModuleError> {
        self.progress.check().map_err(|_| ModuleError::Cancelled)?;
        check_time(self.start, self.limits.time)?;
        if self.left < required.max(1) {
            return Err(ModuleError::Fuel(self.limits.fuel));
        }
        self.slice = SLICE_FUEL.max(required).min(self.left);
        store.set_fuel(self.slice).map_err(interpreter)
    }

    /// Subtracts what the store used of its slice.
    pub fn account(&mut self, store: &Store<StoreLimits>) -> Result<(), ModuleError> {
        let left = store.get_fuel().map_err(interpreter)?;
        self.left = self.left.saturating_sub(self.slice.saturating_sub(left));
        self.slice = left;
        Ok(())
    }

    /// Calls an exported function, whose type was checked, slice by slice.
    pub fn call(
        &mut self,
        store: &mut Store<StoreLimits>,
        instance: &Instance,
        name: &str,
        arguments: &[Val],
        results: &mut [Val],
    ) -> Result<(), ModuleError> {
        let function = instance.get_func(&*store, name);
        let function = function.ok_or_else(|| ModuleError::Interpreter(format!("function '{name}' is missing")))?;
        self.refill(store, 0)?;
        let mut call = function.call_resumable(&mut *store, arguments, results);
        loop {
            self.account(store)?;
            let stopped = match call {
                Ok(ResumableCall::Finished) => return Ok(()),
                Ok(ResumableCall::HostTrap(trap)) => return Err(self.explain(name, trap.host_error())),
                Ok(ResumableCall::OutOfFuel(stopped)) => stopped,
                Err(e) => return Err(self.explain(name, &e)),
            };
            self.refill(store, stopped.required_fuel())?;
            call = stopped.resume(&mut *store, results);
        }
    }

    /// Returns why a call ended early.
    pub fn explain(&self, function: &str, error: &Error) -> ModuleError {
        let trap = match error.as_trap_code() {
            Some(TrapCode::GrowthOperationLimited) => {
                return ModuleError::Memory {
                    limit: self.limits.memory,
                };
            }
            Some(TrapCode::OutOfFuel) => return ModuleError::Fuel(self.limits.fuel),
            Some(TrapCode::UnreachableCodeReached) => "it reached an `unreachable` instruction".to_owned(),
            Some(TrapCode::MemoryOutOfBounds) => "an access outside its memory".to_owned(),
            Some(TrapCode::IntegerDivisionByZero) => "an integer division by zero".to_owned(),
            Some(TrapCode::StackOverflow) => "its calls are nested too deeply".to_owned(),
            _ => error.to_string(),
        };
        ModuleError::Trap {
            function: function.to_owned(),
            trap,
        }
    }
}

fn interpreter(e: impl std::fmt::Display) -> ModuleError {
    ModuleError::Interpreter(e.to_string())
}
