//! A batch of copies of a WebAssembly program, as work of a campaign.

use super::detail_columns::{DetailColumns, Details, list_names, quote_name};
use super::{FieldHasher, InputFile, KeptOutcomes, Locate, RecordingFile, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs of a program, one for each input of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WasmWork {
    /// The program.
    pub program: RecordingFile,
    /// The inputs of the batch, by name.
    pub inputs: BTreeMap<String, InputFile>,
    /// Expected standard outputs, by the name of the input; empty if exit codes alone decide.
    #[serde(default)]
    pub expected: BTreeMap<String, InputFile>,
    /// How the program runs.
    #[serde(default)]
    pub options: WasmOptions,
    /// Time limit of a copy, seconds; `None` for the default one.
    #[serde(default)]
    pub time_limit_s: Option<u64>,
    /// Which batches are kept as recordings.
    #[serde(default)]
    pub keep_outcomes: KeptOutcomes,
}

/// How a program runs: the options of `wasm run`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WasmOptions {
    /// `--function`; `None` for the default one.
    pub function: Option<String>,
    /// `--arg`, in their order.
    pub arguments: Vec<String>,
    /// `--env`, by name.
    pub environment: BTreeMap<String, String>,
    /// `--requests`.
    pub requests: bool,
    /// `--seed`.
    pub seed: u64,
    /// `--limit-memory`, bytes.
    pub memory_bytes: Option<u64>,
    /// `--limit-fuel`.
    pub fuel: Option<u64>,
}

impl WasmWork {
    /// Returns the file name of the program, which is its first argument.
    pub(crate) fn program_name(&self) -> String {
        let name = &self.program.name;
        name.rsplit('/').next().unwrap_or(name).to_owned()
    }
}

impl Work for WasmWork {
    fn kind(&self) -> &'static str {
        "wasm"
    }

    fn recording(&self) -> &RecordingFile {
        &self.program
    }

    fn files(&self) -> Vec<(&PathBuf, &str)> {
        let others = self.inputs.values().chain(self.expected.values());
        std::iter::once((&self.program.path, self.program.digest.as_str()))
            .chain(others.map(|f| (&f.path, f.digest.as_str())))
            .collect()
    }

    fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.program.relocate(locate);
        self.inputs.values_mut().for_each(|i| i.relocate(locate));
        self.expected.values_mut().for_each(|e| e.relocate(locate));
    }

    fn describe_options(&self) -> String {
        let (mut names, last) = (self.inputs.keys(), self.inputs.keys().next_back());
        let batch = match (names.next(), last) {
            (Some(first), Some(last)) if first != last => format!("inputs {first} to {last}"),
            (Some(only), _) => format!("input {only}"),
            _ => String::new(),
        };
        let function = self.options.function.iter().map(|f| format!("function {f}"));
        let arguments = self.options.arguments.iter().map(|a| format!("argument {a}"));
        let parts = std::iter::once(batch).chain(function).chain(arguments);
        parts.collect::<Vec<_>>().join(", ")
    }

    fn hash_into(&self, hasher: &mut FieldHasher<'_>) {
        hasher.add("wasm");
        hasher.add(&self.program.digest);
        // The program sees its name.
        hasher.add(&self.program_name());
        hasher.add_files(&self.inputs);
        hasher.add_files(&self.expected);
        hasher.add_option(self.options.function.as_deref());
        hasher.add_list(&self.options.arguments);
        hasher.add_map(&self.options.environment);
        hasher.add(if self.options.requests { "requests" } else { "" });
        hasher.add_number(self.options.seed);
        hasher.add_option(self.options.memory_bytes);
        hasher.add_option(self.options.fuel);
        hasher.add_option(self.time_limit_s);
    }
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmDetails {
    /// Number of copies: one for each input.
    pub copies: u64,
    /// Inputs whose copy trapped or ended with another exit code than 0, and how.
    pub failed: BTreeMap<String, String>,
    /// Inputs whose output is not the expected one.
    pub different: Vec<String>,
    /// Digest of the end and the output of each input, 16 hex digits, in order of their names.
    pub digests: Vec<String>,
    /// Name of the first input.
    pub first: String,
}

impl WasmDetails {
    /// Returns how a later result differs, in words; `None` if it does not.
    pub(crate) fn describe_change(&self, later: &Self) -> Option<String> {
        let pairs = self.digests.iter().zip(&later.digests).enumerate();
        let changed: Vec<usize> = pairs.filter(|(_, (a, b))| a != b).map(|(n, _)| n + 1).collect();
        let text = || {
            let count = changed.len();
            let numbers = list_names(changed.iter(), 8);
            format!("{count} other results, of the inputs {numbers} from {} on", self.first)
        };
        (!changed.is_empty()).then(text)
    }
}

impl Details for WasmDetails {
    fn columns(&self) -> DetailColumns {
        let failed = self.failed.keys().chain(&self.different);
        let names: Vec<&str> = failed.map(String::as_str).collect();
        DetailColumns {
            items: Some(self.copies),
            failed_items: Some(names.len() as u64),
            failed: (!names.is_empty())
                .then(|| names.iter().map(|name| quote_name(name)).collect::<Vec<_>>().join(" ")),
            ..DetailColumns::default()
        }
    }

    fn describe(&self) -> String {
        let count = self.failed.len() + self.different.len();
        match count {
            0 => format!("{} inputs", self.copies),
            n => format!("{n} of {} inputs", self.copies),
        }
    }
}
