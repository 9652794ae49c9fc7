//! Checks that all tables of a description share: numbers in their ranges, names of targets, tolerances, files.

use super::raw_entry::DescriptionError;
use crate::selector::TargetSelector;
use kinescope_session::tuning::tolerance::parse_output_rule;
use kinescope_session::wasm_program::WasmTarget;
use replay_engine::client::targets;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Maximum number of targets of an entry.
const MAX_TARGETS: usize = 10_000;
/// Maximum number of texts in a list of an entry, and of its inputs.
const MAX_LIST: usize = 1024;

/// Returns the number of the line that a byte is in, from 1.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    before.iter().filter(|b| **b == b'\n').count() + 1
}

/// The check of one text.
pub(super) struct Checker<'a> {
    pub text: &'a str,
    /// Folder that relative paths start from.
    pub folder: &'a Path,
}

impl Checker<'_> {
    /// Returns the line of a value, from 1.
    pub fn line<T>(&self, at: &Spanned<T>) -> usize {
        line_of(self.text, at.span().start)
    }

    /// Returns the error at a value.
    pub fn error<T>(&self, at: &Spanned<T>, reason: impl Into<String>) -> DescriptionError {
        DescriptionError::Line {
            line: self.line(at),
            reason: reason.into(),
        }
    }

    /// Checks that a number is in its range.
    pub fn number<T: Copy + PartialOrd + std::fmt::Display>(
        &self,
        value: Option<&Spanned<T>>,
        name: &str,
        (min, max): (T, T),
    ) -> Result<Option<T>, DescriptionError> {
        let Some(spanned) = value else { return Ok(None) };
        let n = *spanned.get_ref();
        // A number that is none is in no range.
        if !(n >= min && n <= max) {
            return Err(self.error(spanned, format!("{name} is {n} (expected {min} to {max})")));
        }
        Ok(Some(n))
    }

    /// Checks names of targets. Each is named once.
    pub fn targets(&self, targets: &[Spanned<String>]) -> Result<Vec<String>, DescriptionError> {
        if let Some(extra) = targets.get(MAX_TARGETS) {
            return Err(self.error(extra, format!("more than {MAX_TARGETS} targets")));
        }
        let mut known = BTreeSet::new();
        let mut names = Vec::with_capacity(targets.len());
        for spanned in targets {
            let name = spanned.get_ref();
            if TargetSelector::is_selector(name) {
                TargetSelector::parse(name).map_err(|e| self.error(spanned, e.to_string()))?;
            } else if WasmTarget::parse(name).is_err() {
                targets::parse(name).map_err(|e| self.error(spanned, e.to_string()))?;
            }
            if !known.insert(name.clone()) {
                return Err(self.error(spanned, format!("the target `{name}` is listed twice; use `repeats`")));
            }
            names.push(name.clone());
        }
        Ok(names)
    }

    /// Checks that a checked name is not that of a target that only runs WebAssembly programs.
    pub fn device_target(&self, name: &str) -> Result<(), String> {
        match (targets::parse(name), WasmTarget::parse(name)) {
            (Err(_), Ok(_)) => Err(format!(
                "the target `{name}` only runs WebAssembly programs; give this entry its own `targets`"
            )),
            _ => Ok(()),
        }
    }

    /// Checks the tolerances of outputs.
    pub fn tolerance(&self, rules: &[Spanned<String>]) -> Result<Vec<String>, DescriptionError> {
        self.texts(rules, |rule| parse_output_rule(rule).map(drop))
    }

    /// Checks each text of a list.
    pub fn texts(
        &self,
        texts: &[Spanned<String>],
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Vec<String>, DescriptionError> {
        if let Some(extra) = texts.get(MAX_LIST) {
            return Err(self.error(extra, format!("more than {MAX_LIST} texts in a list")));
        }
        for text in texts {
            check(text.get_ref()).map_err(|e| self.error(text, e))?;
        }
        Ok(texts.iter().map(|t| t.get_ref().clone()).collect())
    }

    /// Returns the path of a file.
    pub fn file(&self, file: &Spanned<String>, what: &str) -> Result<PathBuf, DescriptionError> {
        if file.get_ref().is_empty() {
            return Err(self.error(file, format!("{what} has no file")));
        }
        Ok(self.folder.join(file.get_ref()))
    }

    /// Returns the paths of files, by the name of the buffer.
    pub fn inputs(
        &self,
        inputs: &BTreeMap<String, Spanned<String>>,
    ) -> Result<BTreeMap<String, PathBuf>, DescriptionError> {
        if let Some(extra) = inputs.values().nth(MAX_LIST) {
            return Err(self.error(extra, format!("more than {MAX_LIST} inputs")));
        }
        let file = |(name, file): (&String, &Spanned<String>)| {
            Ok((name.clone(), self.file(file, &format!("the input `{name}`"))?))
        };
        inputs.iter().map(file).collect()
    }
}
