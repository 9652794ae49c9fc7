//! Budgets of the WebAssembly runs of clients: what a run asks for, and what its inputs occupy.

use crate::wasm::{INPUT_COST, PAGE_BYTES, REQUEST_COST, WasmBudgets, WasmRun};
use crate::wire::wasm_message::WasmInputHeader;
use std::fmt;
use std::time::Duration;

/// Why inputs are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputError {
    /// An input has no request.
    #[error("an input without a standard input")]
    NoRequest,
    /// The sizes of an input's requests have no sum.
    #[error("an input of an invalid size")]
    Overflow,
    /// The budget of the agent is exceeded.
    #[error("inputs that exceed the budget of this agent")]
    Budget,
    /// The announced size is exceeded.
    #[error("more bytes of inputs than announced")]
    NotAnnounced,
}

/// What is left of the budget of a run's inputs, bytes.
pub(super) struct InputBudget {
    /// Of the agent's budget.
    left: u64,
    /// Of the size that the client announced.
    announced: u64,
}

impl InputBudget {
    /// Creates the budget of a run.
    pub fn new(run: &WasmRun, budgets: &WasmBudgets) -> Self {
        Self {
            left: budgets.input_bytes,
            announced: run.input_bytes,
        }
    }

    /// Returns whether all announced bytes are charged.
    pub fn is_complete(&self) -> bool {
        self.announced == 0
    }

    /// Charges inputs before their bytes arrive, and returns the size of their bytes.
    ///
    /// # Errors
    /// If the inputs are not valid, or exceed the budget or the announced size.
    pub fn charge(&mut self, headers: &[WasmInputHeader]) -> Result<u64, InputError> {
        let mut bytes = 0u64;
        let mut cost = 0u64;
        for header in headers {
            if header.lengths.is_empty() {
                return Err(InputError::NoRequest);
            }
            let content = header.lengths.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
            let content = content.ok_or(InputError::Overflow)?;
            bytes = bytes.saturating_add(content);
            let requests = (header.lengths.len() as u64).saturating_mul(REQUEST_COST);
            let overhead = INPUT_COST
                .saturating_add(header.name.len() as u64)
                .saturating_add(requests);
            cost = cost.saturating_add(content).saturating_add(overhead);
        }
        self.left = self.left.checked_sub(cost).ok_or(InputError::Budget)?;
        let announced = self.announced.checked_sub(bytes);
        self.announced = announced.ok_or(InputError::NotAnnounced)?;
        Ok(bytes)
    }
}

/// Checks what a client asks for against the budgets of the server.
///
/// # Errors
/// The budget that is exceeded, with its value.
pub(super) fn check_budgets(run: &WasmRun, budgets: &WasmBudgets, longest_run: Duration) -> Result<(), String> {
    let over = |what: &str, value: &dyn fmt::Display, limit: &dyn fmt::Display, unit: &str| {
        Err(format!("{what}: {value} {unit}; this agent allows {limit}"))
    };
    let limits = &run.limits;
    if run.program_bytes > budgets.program_bytes {
        return over("program", &run.program_bytes, &budgets.program_bytes, "bytes");
    }
    if run.inputs > budgets.inputs {
        return over("number of inputs", &run.inputs, &budgets.inputs, "inputs");
    }
    let input_bytes = run
        .input_bytes
        .saturating_add(run.inputs.saturating_mul(INPUT_COST + REQUEST_COST));
    if input_bytes > budgets.input_bytes {
        let what = "size of all inputs, with 96 bytes for each";
        return over(what, &input_bytes, &budgets.input_bytes, "bytes");
    }
    let variables = run
        .environment
        .iter()
        .map(|(name, value)| name.len().saturating_add(value.len()));
    let sizes = run.arguments.iter().map(Vec::len).chain(variables);
    let (count, bytes) = sizes.fold((0u64, 0u64), |(count, bytes), size| {
        (count.saturating_add(1), bytes.saturating_add(size as u64))
    });
    if count > budgets.arguments {
        let what = "number of arguments and environment variables (--arg, --env)";
        return over(what, &count, &budgets.arguments, "entries");
    }
    if bytes > budgets.argument_bytes {
        let what = "size of arguments and environment variables (--arg, --env)";
        return over(what, &bytes, &budgets.argument_bytes, "bytes");
    }
    if limits.output_bytes > budgets.output_bytes {
        let what = "output of a copy (--limit-output)";
        return over(what, &limits.output_bytes, &budgets.output_bytes, "bytes");
    }
    if limits.log_entries > budgets.log_entries {
        let what = "logged system calls (--limit-calls)";
        return over(what, &limits.log_entries, &budgets.log_entries, "calls");
    }
    let memory = u64::from(limits.memory_pages).saturating_mul(PAGE_BYTES);
    if memory > budgets.memory_bytes / 2 {
        let what = "memory of a copy (--limit-memory)";
        return over(what, &memory, &(budgets.memory_bytes / 2), "bytes");
    }
    if limits.time_ns.is_some_and(|ns| Duration::from_nanos(ns) > longest_run) {
        let seconds = Duration::from_nanos(limits.time_ns.unwrap_or_default()).as_secs();
        return over("time of a copy (--limit-time)", &seconds, &longest_run.as_secs(), "s");
    }
    Ok(())
}
