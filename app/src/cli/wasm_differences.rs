//! Differences of two WebAssembly runs, as JSON and as text: of `diff`, and of `replay`.

use super::out::format_count;
use super::{Failure, Out};
use serde::Serialize;
use wasm_recording::{CopyDifference, WasmDifference, WasmRun};
use wasm_run::RunDifference;
use wasm_system::{Stream, SystemCall};

/// The differences of two runs. `a` is the first run, `b` the second.
#[derive(Serialize)]
pub struct RunComparison {
    /// Whether program, options, inputs and results are the same.
    pub same: bool,
    /// The result in a sentence.
    pub summary: String,
    /// Whether the programs differ.
    pub program_differs: bool,
    /// Options that differ.
    pub options: Vec<OptionDifference>,
    /// Names of inputs that only one run has.
    pub only_a: Vec<String>,
    pub only_b: Vec<String>,
    /// Names of inputs with other bytes.
    pub changed_inputs: Vec<String>,
    /// Number of inputs that both runs have, and of their system calls.
    pub compared: u64,
    pub a_calls: u64,
    pub b_calls: u64,
    /// Inputs with different results, in the order of the first run.
    pub copies: Vec<CopyReport>,
}

/// An option of a run that differs.
#[derive(Serialize)]
pub struct OptionDifference {
    /// Name of the option.
    pub option: &'static str,
    /// The values.
    pub a: String,
    pub b: String,
}

/// An input with different results.
#[derive(Serialize)]
pub struct CopyReport {
    /// Name of the input.
    pub input: String,
    /// Numbers of the copies, from 0.
    pub a_copy: u64,
    pub b_copy: u64,
    /// Whether the inputs differ too.
    pub input_differs: bool,
    /// The first system call that differs; `null` if all are the same.
    pub call: Option<CallReport>,
    /// Numbers of system calls after the logs, if they differ; else `null`.
    pub a_lost_calls: Option<u64>,
    pub b_lost_calls: Option<u64>,
    /// Offset of the first byte of each output that differs or is missing; `null` if the output is the same.
    pub stdout_offset: Option<u64>,
    pub stderr_offset: Option<u64>,
    /// How the copies ended, if they ended in different ways; else `null`.
    pub a_end: Option<String>,
    pub b_end: Option<String>,
}

/// A system call that differs.
#[derive(Serialize)]
pub struct CallReport {
    /// Number of the call, from 0.
    pub number: u64,
    /// Events of the calls; `null` for a copy without this call.
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    /// The calls as text; `null` for a copy without this call.
    pub a: Option<String>,
    pub b: Option<String>,
    /// Virtual times of the calls, in nanoseconds.
    pub a_time: Option<u64>,
    pub b_time: Option<u64>,
}

/// Names of the two sides in text.
pub type Sides = [&'static str; 2];

impl RunComparison {
    /// Creates the report on the differences of two runs.
    pub fn new(found: &WasmDifference, runs: (&WasmRun, &WasmRun)) -> Self {
        let option = |(name, a, b): &(&'static str, String, String)| OptionDifference {
            option: name,
            a: a.clone(),
            b: b.clone(),
        };
        let [a_calls, b_calls] = found.calls;
        Self {
            same: found.is_same(),
            summary: summarize(found),
            program_differs: found.program_differs,
            options: found.options.iter().map(option).collect(),
            only_a: found.only_first.clone(),
            only_b: found.only_second.clone(),
            changed_inputs: found.changed_inputs.clone(),
            compared: found.compared,
            a_calls,
            b_calls,
            copies: found.copies.iter().map(|c| CopyReport::new(c, runs)).collect(),
        }
    }
}

impl CopyReport {
    /// Creates the report on an input.
    pub fn new(copy: &CopyDifference, runs: (&WasmRun, &WasmRun)) -> Self {
        let [a_copy, b_copy] = copy.copies;
        let mut report = Self {
            input: copy.input.clone(),
            a_copy: a_copy as u64,
            b_copy: b_copy as u64,
            input_differs: copy.input_differs,
            call: None,
            a_lost_calls: None,
            b_lost_calls: None,
            stdout_offset: None,
            stderr_offset: None,
            a_end: None,
            b_end: None,
        };
        for difference in &copy.differences {
            match difference {
                RunDifference::Call { index, first, second } => {
                    let event = |run: &WasmRun, copy| Some(run.call(copy, *index as u64)?.event);
                    let text = |call: &Option<SystemCall>| call.map(|c| c.to_string());
                    report.call = Some(CallReport {
                        number: *index as u64,
                        a_event: event(runs.0, a_copy),
                        b_event: event(runs.1, b_copy),
                        a: text(first),
                        b: text(second),
                        a_time: first.map(|c| c.time),
                        b_time: second.map(|c| c.time),
                    });
                }
                RunDifference::LostCalls { first, second } => {
                    (report.a_lost_calls, report.b_lost_calls) = (Some(*first), Some(*second));
                }
                RunDifference::Output { stream, offset } => match stream {
                    Stream::Output => report.stdout_offset = Some(*offset as u64),
                    Stream::Error => report.stderr_offset = Some(*offset as u64),
                },
                RunDifference::End { first, second } => {
                    (report.a_end, report.b_end) = (Some(first.to_string()), Some(second.to_string()));
                }
            }
        }
        report
    }

    /// Prints the input, then each difference with the names of the sides.
    fn print(&self, [first, second]: Sides, out: &mut Out) -> Result<(), Failure> {
        let input = if self.input_differs { ": the input differs" } else { "" };
        out.line(format_args!("{} (copy {}){input}", self.input, self.a_copy))?;
        if let Some(call) = &self.call {
            let side = |text: &Option<String>, event: Option<u64>, time: Option<u64>| match (text, event, time) {
                (Some(text), Some(event), Some(time)) => format!("{text} at {time} ns (event {event})"),
                _ => "no call".to_owned(),
            };
            out.line(format_args!("  system call {}", call.number))?;
            out.line(format_args!(
                "    {first}: {}",
                side(&call.a, call.a_event, call.a_time)
            ))?;
            out.line(format_args!(
                "    {second}: {}",
                side(&call.b, call.b_event, call.b_time)
            ))?;
        }
        if let (Some(a), Some(b)) = (self.a_lost_calls, self.b_lost_calls) {
            out.line(format_args!("  system calls after the log: {first} {a}, {second} {b}"))?;
        }
        for (name, offset) in [("output", self.stdout_offset), ("error", self.stderr_offset)] {
            if let Some(offset) = offset {
                out.line(format_args!("  standard {name} differs at byte {offset}"))?;
            }
        }
        if let (Some(a), Some(b)) = (&self.a_end, &self.b_end) {
            out.line(format_args!("  end: {first} {a}, {second} {b}"))?;
        }
        Ok(())
    }
}

/// Prints the first `max` inputs with different results, and how many are left.
pub fn print_copies(copies: &[CopyReport], sides: Sides, max: usize, out: &mut Out) -> Result<(), Failure> {
    copies.iter().take(max).try_for_each(|c| c.print(sides, out))?;
    match copies.len().saturating_sub(max) {
        0 => Ok(()),
        rest => Ok(out.line(format_args!("and {rest} more (--json lists all)"))?),
    }
}

/// Prints the first `max` names of a list with its heading; nothing for an empty list.
fn print_names(heading: &str, names: &[String], max: usize, out: &mut Out) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let shown = names.get(..max.min(names.len())).unwrap_or_default().join(", ");
    let more = match names.len().saturating_sub(max) {
        0 => String::new(),
        rest => format!(", and {rest} more"),
    };
    Ok(out.line(format_args!("{heading}: {shown}{more}"))?)
}

impl RunComparison {
    /// Prints the comparison, at most `max` elements of each list.
    pub fn print(&self, max: usize, out: &mut Out) -> Result<(), Failure> {
        out.line(&self.summary)?;
        if self.program_differs {
            out.line("the programs differ")?;
        }
        for option in &self.options {
            out.line(format_args!("{}: {} and {}", option.option, option.a, option.b))?;
        }
        print_names("only in the first run", &self.only_a, max, out)?;
        print_names("only in the second run", &self.only_b, max, out)?;
        print_names("inputs with other bytes", &self.changed_inputs, max, out)?;
        print_copies(&self.copies, ["first", "second"], max, out)
    }
}

fn summarize(found: &WasmDifference) -> String {
    let inputs = match found.has_same_inputs() {
        true => "same program, options and inputs".to_owned(),
        false => "program, options or inputs differ".to_owned(),
    };
    let compared = format_count(found.compared, "input");
    match found.copies.first() {
        None => format!("{inputs}; the results of {compared} are the same"),
        Some(first) => format!(
            "{inputs}; the results of {} of {compared} differ, first those of {}",
            found.copies.len(),
            first.input
        ),
    }
}
