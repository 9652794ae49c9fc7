//! Defects of a pipeline file: what is wrong, in which line, and whether the pipeline can still run.

use crate::module::ModuleDefect;
use crate::tensor::TensorType;
use serde::Serialize;
use std::fmt;

/// Maximum number of defects that are kept for one file.
pub const MAX_DEFECTS: usize = 100;

/// Whether a pipeline with the defect can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It can run.
    Warning,
    /// It cannot run.
    Error,
}

/// A defect with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Line of the file, from 1.
    pub line: u32,
    /// The defect.
    pub kind: DefectKind,
}

impl Defect {
    /// Returns whether a pipeline with the defect can run.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self.kind {
            DefectKind::UnusedStage { .. } | DefectKind::UnusedInput { .. } | DefectKind::InputFile { .. } => {
                Severity::Warning
            }
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

/// What is wrong in a pipeline file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefectKind {
    /// The file is too large.
    #[error("the file has {bytes} bytes (at most {max} are read)")]
    FileSize {
        /// Its size, bytes.
        bytes: u64,
        /// The limit, bytes.
        max: u64,
    },
    /// The file is not TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// The version is missing or unknown.
    #[error("version {0} of pipelines is not known (expected `version = 1`)")]
    Version(String),
    /// A table has an unknown key.
    #[error("'{key}' is no key of {owner} (expected {expected})")]
    UnknownKey {
        /// The key.
        key: String,
        /// The table.
        owner: String,
        /// The known keys.
        expected: &'static str,
    },
    /// A table lacks a key.
    #[error("{owner} has no '{key}' (expected {expected})")]
    MissingKey {
        /// The table.
        owner: String,
        /// The key.
        key: &'static str,
        /// What the key holds.
        expected: &'static str,
    },
    /// A value has another type or is out of range.
    #[error("'{key}' of {owner} is {got} (expected {expected})")]
    Value {
        /// The table.
        owner: String,
        /// The key.
        key: String,
        /// The value.
        got: String,
        /// The valid values.
        expected: String,
    },
    /// A name has letters that names do not have, or is reserved.
    #[error("'{name}' cannot be the name of {owner} (expected letters, digits, '-' and '_'; not 'inputs')")]
    Name {
        /// The name.
        name: String,
        /// What is named.
        owner: &'static str,
    },
    /// Two things have the same name.
    #[error("'{name}' is the name of {first} already, in line {first_line}")]
    DuplicateName {
        /// The name.
        name: String,
        /// The first one.
        first: String,
        /// Its line.
        first_line: u32,
    },
    /// There is too much of something.
    #[error("{owner} has {count} {what} (at most {max})")]
    TooMany {
        /// The table.
        owner: String,
        /// What is counted.
        what: &'static str,
        /// The number.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A stage is both a replay and a module, or neither.
    #[error("stage '{stage}' must have either 'recording' or 'module'")]
    StageWork {
        /// The stage.
        stage: String,
    },
    /// A reference is not `OWNER.NAME`.
    #[error("'{text}' names no value (expected 'inputs.NAME', 'STAGE.OUTPUT' or 'LOOP.CARRIED')")]
    Reference {
        /// The text.
        text: String,
    },
    /// A reference names something that does not exist.
    #[error("{user} uses '{name}', and there is no {what} (there are: {known})")]
    UnknownValue {
        /// What uses it.
        user: String,
        /// The reference.
        name: String,
        /// What is missing.
        what: String,
        /// The known ones.
        known: String,
    },
    /// Stages or loops wait for one another.
    #[error("stages wait for one another in a circle: {}", stages.join(" -> "))]
    Cycle {
        /// The stages and loops in order; the first one is also the last one.
        stages: Vec<String>,
    },
    /// A stage is in two loops.
    #[error("stage '{stage}' is in loop '{first}' already; a stage is in one loop at most")]
    TwoLoops {
        /// The stage.
        stage: String,
        /// The first loop.
        first: String,
    },
    /// A loop carries a value, or ends by one, that none of its stages gives.
    #[error("loop '{owner}' uses '{name}' of its rounds, which no stage of the loop gives")]
    OutsideLoop {
        /// The loop.
        owner: String,
        /// The value.
        name: String,
    },
    /// Two ends of a connection have different types.
    #[error("{user} takes {expected}, '{name}' gives {given}")]
    TypeMismatch {
        /// What takes the value.
        user: String,
        /// Type that it takes.
        expected: TensorType,
        /// The value.
        name: String,
        /// Its type.
        given: TensorType,
    },
    /// The condition of a loop is no single number.
    #[error("loop '{owner}' ends by one number, '{name}' gives {given}")]
    ConditionType {
        /// The loop.
        owner: String,
        /// The value.
        name: String,
        /// Its type.
        given: TensorType,
    },
    /// The recording of a stage cannot be opened.
    #[error("the recording of stage '{stage}' cannot be used: {reason}")]
    Recording {
        /// The stage.
        stage: String,
        /// Reason, in words.
        reason: String,
    },
    /// The recording of a stage has no such buffer.
    #[error("stage '{stage}' {use_of} buffer '{name}', which its recording does not have (it has: {known})")]
    UnknownBuffer {
        /// The stage.
        stage: String,
        /// `gives` or `replaces`.
        use_of: &'static str,
        /// The name.
        name: String,
        /// Buffers of the recording.
        known: String,
    },
    /// The element type of a buffer does not divide its size.
    #[error("buffer '{name}' of stage '{stage}' has {bytes} bytes, which is no tensor of {element}")]
    BufferSize {
        /// The stage.
        stage: String,
        /// The buffer.
        name: String,
        /// Its size, bytes.
        bytes: u64,
        /// Its element type.
        element: &'static str,
    },
    /// A stated type does not fill its buffer.
    #[error("buffer '{name}' of stage '{stage}' has {bytes} bytes in the recording, {stated} has {stated_bytes}")]
    StatedType {
        /// The stage.
        stage: String,
        /// The buffer.
        name: String,
        /// Size in the recording, bytes.
        bytes: u64,
        /// The stated type.
        stated: TensorType,
        /// Its size, bytes.
        stated_bytes: u64,
    },
    /// A range of memory is stated that the recording cannot have.
    #[error("buffer '{name}' of stage '{stage}' cannot have an address: {reason}")]
    StatedRange {
        /// The stage.
        stage: String,
        /// The buffer.
        name: String,
        /// Reason, in words.
        reason: String,
    },
    /// The module of a stage cannot be used.
    #[error("the module of stage '{stage}' cannot be used: {defect}")]
    Module {
        /// The stage.
        stage: String,
        /// Why.
        defect: ModuleDefect,
    },
    /// The tensors of a module do not fit into its memory.
    #[error("stage '{stage}' has {bytes} bytes of tensors, and its module has a limit of {limit} bytes of memory")]
    ModuleMemory {
        /// The stage.
        stage: String,
        /// Bytes of all its tensors.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// Nothing uses the outputs of a stage.
    #[error("stage '{stage}' is not used: no output of the pipeline depends on it")]
    UnusedStage {
        /// The stage.
        stage: String,
    },
    /// The file of an input is not there.
    #[error("the file of input '{input}' cannot be read: {reason}; a run needs --input {input}=FILE")]
    InputFile {
        /// The input.
        input: String,
        /// Reason, with the path.
        reason: String,
    },
    /// Nothing uses an input.
    #[error("input '{input}' is not used")]
    UnusedInput {
        /// The input.
        input: String,
    },
}

/// The defects of one file, in the order of their discovery; at most [`MAX_DEFECTS`] are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defects(Vec<Defect>);

impl Defects {
    /// Adds a defect in a line.
    pub(crate) fn add(&mut self, line: u32, kind: DefectKind) {
        if self.0.len() < MAX_DEFECTS {
            self.0.push(Defect { line, kind });
        }
    }

    /// Returns the defects.
    #[must_use]
    pub fn all(&self) -> &[Defect] {
        &self.0
    }

    /// Returns whether a defect keeps the pipeline from running.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.0.iter().any(|d| d.severity() == Severity::Error)
    }

    /// Sorts the defects by line.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|d| d.line);
    }
}

impl fmt::Display for Defects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, defect) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            defect.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Defects {}
