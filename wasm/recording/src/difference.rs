//! The comparison of two recorded runs: inputs, then the results of each input that both have.

use crate::{CopyStream, WasmRecordingError, WasmRun};
use std::collections::HashMap;
use trace_core::progress::Progress;
use wasm_run::{RunDifference, RunOptions};

/// Number of copies between two checks for cancellation.
const STEP: usize = 64;

/// The differences of two runs. Targets and times are no differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WasmDifference {
    /// Whether the programs differ.
    pub program_differs: bool,
    /// Options that differ: name, value of the first run, value of the second.
    pub options: Vec<(&'static str, String, String)>,
    /// Inputs that only the first run has.
    pub only_first: Vec<String>,
    /// Inputs that only the second run has.
    pub only_second: Vec<String>,
    /// Inputs of both runs with other bytes.
    pub changed_inputs: Vec<String>,
    /// Number of inputs that both runs have.
    pub compared: u64,
    /// Number of system calls of these inputs in the first run and in the second.
    pub calls: [u64; 2],
    /// Inputs with different results, in the order of the first run.
    pub copies: Vec<CopyDifference>,
}

/// An input with different results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDifference {
    /// Name of the input.
    pub input: String,
    /// Position of the copy in each run.
    pub copies: [usize; 2],
    /// Whether the inputs differ too.
    pub input_differs: bool,
    /// The differences: the first system call, each output, the end.
    pub differences: Vec<RunDifference>,
}

impl WasmDifference {
    /// Compares two runs by the names of their inputs.
    ///
    /// # Errors
    /// When a recording is damaged, or the work was cancelled.
    pub fn find(first: &WasmRun, second: &WasmRun, progress: &Progress) -> Result<Self, WasmRecordingError> {
        let by_name: HashMap<&str, usize> = second.copies().iter().map(|c| c.name.as_str()).zip(0..).collect();
        let mut found = Self {
            program_differs: first.program() != second.program(),
            options: compare_options(first.options(), second.options()),
            ..Self::default()
        };
        let mut has_partner = vec![false; second.copies().len()];
        progress.set_total(first.copies().len() as u64);
        for (number, copy) in first.copies().iter().enumerate() {
            if number % STEP == 0 {
                progress.advance(STEP as u64)?;
            }
            let Some(other) = by_name.get(copy.name.as_str()).copied() else {
                found.only_first.push(copy.name.clone());
                continue;
            };
            if let Some(has) = has_partner.get_mut(other) {
                *has = true;
            }
            found.compare_copies((first, number), (second, other))?;
        }
        let alone = second.copies().iter().zip(&has_partner).filter(|(_, has)| !**has);
        found.only_second = alone.map(|(copy, _)| copy.name.clone()).collect();
        Ok(found)
    }

    fn compare_copies(
        &mut self,
        first: (&WasmRun, usize),
        second: (&WasmRun, usize),
    ) -> Result<(), WasmRecordingError> {
        let damaged = |(run, copy): (&WasmRun, usize)| {
            let copy = run.copies().get(copy);
            match copy.filter(|c| c.end.ended().is_none()) {
                Some(copy) => WasmRecordingError::Unfinished(copy.name.clone()),
                None => WasmRecordingError::Event {
                    event: copy.map_or(0, |c| c.events.start),
                    reason: "the copy that starts here is damaged".to_owned(),
                },
            }
        };
        let result = |side: (&WasmRun, usize)| side.0.result(side.1).ok_or_else(|| damaged(side));
        let input = |side: (&WasmRun, usize)| side.0.stream(side.1, CopyStream::Input).ok_or_else(|| damaged(side));
        let name = first
            .0
            .copies()
            .get(first.1)
            .map(|c| c.name.clone())
            .unwrap_or_default();
        let input_differs = input(first)? != input(second)?;
        if input_differs {
            self.changed_inputs.push(name.clone());
        }
        let (a, b) = (result(first)?, result(second)?);
        let [calls_a, calls_b] = &mut self.calls;
        *calls_a += a.calls.len() as u64;
        *calls_b += b.calls.len() as u64;
        self.compared += 1;
        let differences = RunDifference::find_all(&a, &b);
        if !differences.is_empty() {
            self.copies.push(CopyDifference {
                input: name,
                copies: [first.1, second.1],
                input_differs,
                differences,
            });
        }
        Ok(())
    }

    /// Returns whether both runs have the same program, options and inputs.
    #[must_use]
    pub fn has_same_inputs(&self) -> bool {
        let same_lists = self.only_first.is_empty() && self.only_second.is_empty() && self.changed_inputs.is_empty();
        same_lists && !self.program_differs && self.options.is_empty()
    }

    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.has_same_inputs() && self.copies.is_empty()
    }
}

/// Returns the options that decide about results, as names and texts.
#[must_use]
pub fn describe_options(options: &RunOptions) -> Vec<(&'static str, String)> {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let arguments: Vec<String> = options.arguments.iter().map(text).collect();
    let variable = |(name, value): &(Vec<u8>, Vec<u8>)| format!("{}={}", text(name), text(value));
    let environment: Vec<String> = options.environment.iter().map(variable).collect();
    let limits = &options.limits;
    let optional = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    vec![
        ("function", options.function.clone()),
        ("arguments", format!("{arguments:?}")),
        ("environment", format!("{environment:?}")),
        ("seed", options.seed.to_string()),
        ("clock start", options.clock_start.to_string()),
        ("clock step", options.clock_step.to_string()),
        ("limit of memory", format!("{} pages", limits.memory_pages)),
        ("limit of depth", limits.call_depth.to_string()),
        ("limit of fuel", optional(limits.fuel.map(|f| f.to_string()))),
        (
            "limit of time",
            optional(limits.time.map(|t| format!("{} s", t.as_secs_f64()))),
        ),
        ("limit of output", format!("{} bytes", limits.output_bytes)),
        ("limit of calls", limits.log_entries.to_string()),
    ]
}

fn compare_options(first: &RunOptions, second: &RunOptions) -> Vec<(&'static str, String, String)> {
    let pairs = describe_options(first).into_iter().zip(describe_options(second));
    let differing = pairs.filter(|((_, a), (_, b))| a != b);
    differing.map(|((name, a), (_, b))| (name, a, b)).collect()
}
