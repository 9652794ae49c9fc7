//! What a recording of a run states besides its events: options, target, names of the inputs. Stored as JSON.

use crate::WasmRecordingError;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use wasm_run::{Input, Limits, RunOptions};

/// Name of the section with the description of a run. Each recording of a run has it.
pub const SECTION: &str = "wasm-run";
/// Version of the form.
const VERSION: u32 = 1;

/// The target of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// Name on the command line: `cpu`, `interpreter`, `cuda:0`.
    pub name: String,
    /// Number of copies that ran at the same time.
    pub copies: u32,
    /// Time of translation and compilation, in nanoseconds.
    pub compile_ns: u64,
    /// Time from the first start of a copy to the last result, in nanoseconds.
    pub run_ns: u64,
    /// Choices of the translator for GPUs; `None` if the program was not translated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<Translation>,
}

/// Choices of a run of a translated program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Translation {
    /// Bytes of a copy's memory that stand together, or `None` for the translator's choice.
    pub cell: Option<u32>,
    /// Each loop can stop for the host.
    pub strict: bool,
    /// Executions and active lanes of each block are counted.
    pub profile: bool,
    /// Large inputs start first.
    pub sort: bool,
}

/// Bytes that are text in most cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Text(String),
    Bytes(Vec<u8>),
}

impl Text {
    fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Limits of a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LimitsForm {
    memory_pages: u32,
    call_depth: u32,
    fuel: Option<u64>,
    time_ns: Option<u64>,
    output_bytes: u64,
    log_entries: u32,
}

/// An input without its bytes, which are a buffer of the recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InputMetadata {
    /// Name of the input.
    pub name: String,
    /// Sizes of its requests in bytes, the first one included; empty if the input is one piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<u64>,
}

/// The section.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunMetadata {
    version: u32,
    function: String,
    arguments: Vec<Text>,
    environment: Vec<(Text, Text)>,
    seed: u64,
    clock_start: u64,
    clock_step: u64,
    copies: Option<u32>,
    limits: LimitsForm,
    /// The target.
    pub target: Target,
    /// The inputs in their order.
    pub inputs: Vec<InputMetadata>,
}

impl RunMetadata {
    pub fn new(options: &RunOptions, target: Target, inputs: &[Input]) -> Self {
        let limits = &options.limits;
        Self {
            version: VERSION,
            function: options.function.clone(),
            arguments: options.arguments.iter().map(|a| Text::new(a)).collect(),
            environment: options
                .environment
                .iter()
                .map(|(name, value)| (Text::new(name), Text::new(value)))
                .collect(),
            seed: options.seed,
            clock_start: options.clock_start,
            clock_step: options.clock_step,
            copies: options.copies,
            limits: LimitsForm {
                memory_pages: limits.memory_pages,
                call_depth: limits.call_depth,
                fuel: limits.fuel,
                time_ns: limits.time.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
                output_bytes: limits.output_bytes,
                log_entries: limits.log_entries,
            },
            target,
            inputs: inputs.iter().map(InputMetadata::new).collect(),
        }
    }

    /// Returns the section.
    pub fn encode(&self) -> Result<Vec<u8>, WasmRecordingError> {
        serde_json::to_vec(self).map_err(|e| section_error(&e))
    }

    /// Returns the contents of a section.
    pub fn decode(bytes: &[u8]) -> Result<Self, WasmRecordingError> {
        let description: Self = serde_json::from_slice(bytes).map_err(|e| section_error(&e))?;
        if description.version != VERSION {
            let version = description.version;
            let reason = format!("it has version {version} (this program reads {VERSION})");
            return Err(section_error(&reason));
        }
        Ok(description)
    }

    /// Returns the options of the run.
    pub fn options(&self) -> RunOptions {
        let bytes = |text: &Text| text.clone().into_bytes();
        RunOptions {
            function: self.function.clone(),
            arguments: self.arguments.iter().map(bytes).collect(),
            environment: self.environment.iter().map(|(n, v)| (bytes(n), bytes(v))).collect(),
            seed: self.seed,
            clock_start: self.clock_start,
            clock_step: self.clock_step,
            limits: Limits {
                memory_pages: self.limits.memory_pages,
                call_depth: self.limits.call_depth,
                fuel: self.limits.fuel,
                time: self.limits.time_ns.map(Duration::from_nanos),
                output_bytes: self.limits.output_bytes,
                log_entries: self.limits.log_entries,
            },
            copies: self.copies,
        }
    }
}

impl InputMetadata {
    fn new(input: &Input) -> Self {
        let mut requests = Vec::new();
        if !input.more_requests.is_empty() {
            requests.push(input.bytes.len() as u64);
            requests.extend(input.more_requests.iter().map(|r| r.len() as u64));
        }
        Self {
            name: input.name.clone(),
            requests,
        }
    }
}

fn section_error(reason: &dyn std::fmt::Display) -> WasmRecordingError {
    WasmRecordingError::Section {
        section: SECTION,
        reason: reason.to_string(),
    }
}

/// Returns the positions of inputs by name, and by their short names `in0`, `in1` and so on, in their order. A name
/// takes precedence over a short name.
#[must_use]
pub fn input_names<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    let names: Vec<&str> = names.collect();
    let short = (0..names.len()).map(|n| (format!("in{n}"), n));
    let mut all: HashMap<String, usize> = short.collect();
    all.extend(names.iter().enumerate().map(|(n, name)| ((*name).to_owned(), n)));
    all
}
