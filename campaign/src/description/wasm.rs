//! The table `[[wasm]]`: WebAssembly programs that run on inputs, in batches.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry, TargetKind};
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::work::{InputFile, WasmOptions, WasmWork, WorkItem};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Maximum number of inputs of an entry.
const MAX_INPUTS: usize = 1 << 20;
/// Allowed sizes of a batch. The queue holds the names of its inputs in one entry.
const BATCHES: (u32, u32) = (1, 4096);
/// Default number of inputs of a run.
const BATCH: u32 = 64;
/// Allowed limits of a copy's memory, bytes: a page to 4 GiB.
const MEMORY_BYTES: (u64, u64) = (1 << 16, 1 << 32);

/// Programs that run on the same inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmEntry {
    /// A folder, whose files are the inputs, or a pattern of files.
    pub inputs: String,
    /// Number of inputs of a run.
    pub batch: u32,
    /// Folder with expected outputs: `NAME.stdout` for the input NAME.
    pub expected: Option<PathBuf>,
    /// How the program runs.
    pub options: WasmOptions,
}

/// The keys of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawWasm {
    path: Spanned<String>,
    targets: Option<Vec<Spanned<String>>>,
    repeats: Option<Spanned<u32>>,
    time_limit: Option<Spanned<u64>>,
    inputs: Spanned<String>,
    batch: Option<Spanned<u32>>,
    expected: Option<Spanned<String>>,
    function: Option<String>,
    #[serde(default)]
    arguments: Vec<Spanned<String>>,
    #[serde(default)]
    environment: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    requests: bool,
    #[serde(default)]
    seed: u64,
    limit_memory: Option<Spanned<u64>>,
    limit_fuel: Option<Spanned<u64>>,
}

impl RawEntry for RawWasm {
    type Entry = WasmEntry;

    fn common(&self) -> CommonKeys<'_> {
        CommonKeys {
            path: &self.path,
            targets: self.targets.as_deref(),
            repeats: self.repeats.as_ref(),
            time_limit: self.time_limit.as_ref(),
            without_containment: None,
        }
    }

    fn target_kind(&self) -> TargetKind {
        TargetKind::Wasm
    }

    fn check(&self, checker: &Checker<'_>, _defaults: &EntryDefaults) -> Result<WasmEntry, DescriptionError> {
        if self.inputs.get_ref().is_empty() {
            return Err(checker.error(
                &self.inputs,
                "`inputs` is empty (expected a folder, or a pattern of files)",
            ));
        }
        let values: Vec<Spanned<String>> = self.environment.values().cloned().collect();
        checker.texts(&values, |_| Ok(()))?;
        if let Some((_, value)) = self
            .environment
            .iter()
            .find(|(name, _)| name.is_empty() || name.contains('='))
        {
            return Err(checker.error(value, "the name of a variable is not empty and has no `=`"));
        }
        let expected = self.expected.as_ref().map(|folder| checker.file(folder, "`expected`"));
        let environment = self.environment.iter();
        Ok(WasmEntry {
            inputs: self.inputs.get_ref().clone(),
            batch: checker.number(self.batch.as_ref(), "batch", BATCHES)?.unwrap_or(BATCH),
            expected: expected.transpose()?,
            options: WasmOptions {
                function: self.function.clone(),
                arguments: checker.texts(&self.arguments, |_| Ok(()))?,
                environment: environment
                    .map(|(name, value)| (name.clone(), value.get_ref().clone()))
                    .collect(),
                requests: self.requests,
                seed: self.seed,
                memory_bytes: checker.number(self.limit_memory.as_ref(), "limit-memory", MEMORY_BYTES)?,
                fuel: checker.number(self.limit_fuel.as_ref(), "limit-fuel", (1, u64::MAX))?,
            },
        })
    }
}

impl Expand for WasmEntry {
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let inputs = self.list_inputs(entry, files)?;
        let mut all = Vec::new();
        for path in files.find(entry.line, entry.path, "program")? {
            let program = files.recording(&path)?;
            for batch in inputs.chunks(self.batch as usize) {
                let mut named = BTreeMap::new();
                let mut expected: BTreeMap<String, InputFile> = BTreeMap::new();
                for (name, input) in batch {
                    named.insert(name.clone(), files.input(input)?);
                    if let Some(folder) = &self.expected {
                        expected.insert(name.clone(), files.input(&folder.join(format!("{name}.stdout")))?);
                    }
                }
                all.push(WorkItem::Wasm(WasmWork {
                    program: program.clone(),
                    inputs: named,
                    expected,
                    options: self.options.clone(),
                    time_limit_s: entry.time_limit_s,
                    keep_outcomes: files.keep_outcomes(),
                }));
            }
        }
        Ok(all)
    }
}

impl WasmEntry {
    /// Lists the inputs in order of their names, which are file names.
    fn list_inputs(
        &self,
        entry: &EntryOptions<'_>,
        files: &CampaignFiles<'_>,
    ) -> Result<Vec<(String, PathBuf)>, MatrixError> {
        let mut paths = Vec::new();
        for path in files.find(entry.line, &self.inputs, "input")? {
            match path.is_dir() {
                true => list_folder(&path, &mut paths).map_err(|e| entry.error(format!("{}: {e}", path.display())))?,
                false => paths.push(path),
            }
            if paths.len() > MAX_INPUTS {
                return Err(entry.error(format!("`{}` has more than {MAX_INPUTS} inputs", self.inputs)));
            }
        }
        let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension() == Some(OsStr::new("jsonl")) {
                let reason = "a campaign takes each file as one input; write each line to a file of its own";
                return Err(entry.error(format!("{}: {reason}", path.display())));
            }
            if let Some(other) = named.insert(name.clone(), path.clone()) {
                let reason = format!(
                    "a second input has the name {name}; the first one is {}",
                    other.display()
                );
                return Err(entry.error(format!("{}: {reason}", path.display())));
            }
        }
        if named.is_empty() {
            return Err(entry.error(format!("`{}`: the folder has no file", self.inputs)));
        }
        Ok(named.into_iter().collect())
    }
}

/// Adds the regular files of a folder.
fn list_folder(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for found in std::fs::read_dir(folder)? {
        let path = found?.path();
        if path.is_file() {
            paths.push(path);
        }
        if paths.len() > MAX_INPUTS {
            break;
        }
    }
    Ok(())
}
