//! A pipeline whose file, recordings and modules fit together: every name is known and both ends of each connection have
//! the same type.

mod replays;

use crate::defect::{Defect, DefectKind, Defects};
use crate::document::{
    Document, InputDefinition, InputSource, MAX_FILE_BYTES, ModuleDefinition, StageDefinition, StageWork,
};
use crate::graph::{Graph, ValueSource, output_names};
use crate::module::{ModuleDefect, ModuleProgram};
use crate::parse::parse;
use crate::resources::{FolderResources, Resources};
use crate::tensor::TensorType;
pub use replays::ReplayStage;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

/// A pipeline that can run.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its file, or empty.
    pub path: PathBuf,
    /// Content of the file.
    pub document: Document,
    /// Its graph.
    pub graph: Graph,
    /// Its stages, parallel to those of the document.
    pub stages: Vec<Stage>,
    /// Where the file of each input is that has one, parallel to the inputs of the document.
    pub input_files: Vec<Option<PathBuf>>,
    /// Types of the carried values of each loop.
    pub carried: Vec<Vec<TensorType>>,
    /// Defects that do not keep it from running.
    pub warnings: Vec<Defect>,
}

/// A stage with its types.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Types of its inputs, in their order.
    pub inputs: Vec<TensorType>,
    /// Types of its outputs, in their order.
    pub outputs: Vec<TensorType>,
    /// What it does.
    pub work: CheckedWork,
}

/// What a stage does.
#[derive(Clone, Debug)]
pub enum CheckedWork {
    /// It replays a recording.
    Replay(Box<ReplayStage>),
    /// It runs a function of a WebAssembly module.
    Module(ModuleProgram),
}

/// Why a pipeline cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
    /// The file has defects.
    #[error("{}", PathDefects(path, defects))]
    Defects {
        /// The file.
        path: PathBuf,
        /// Its defects, warnings included.
        defects: Defects,
    },
}

/// Formats defects, one a line, each with its file.
struct PathDefects<'a>(&'a Path, &'a Defects);

impl fmt::Display for PathDefects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, defect) in self.1.all().iter().enumerate() {
            let lead = if number > 0 { "\n" } else { "" };
            write!(f, "{lead}{}, {defect}", self.0.display())?;
        }
        Ok(())
    }
}

impl Pipeline {
    /// Opens and checks a pipeline file, its recordings and its modules. No target is contacted.
    ///
    /// # Errors
    /// If the file cannot be read, or has defects.
    pub fn open(path: &Path, progress: &Progress) -> Result<Self, PipelineError> {
        Self::open_with(path, &FolderResources::new(path, progress))
    }

    /// Opens and checks a pipeline file as [`Self::open`] does, with recordings and modules from `resources`.
    ///
    /// # Errors
    /// If the file cannot be read, or has defects.
    pub fn open_with(path: &Path, resources: &dyn Resources) -> Result<Self, PipelineError> {
        let text = read_text(path)?;
        let defects = |defects| PipelineError::Defects {
            path: path.to_owned(),
            defects,
        };
        let pipeline = Self::check(&text, resources).map_err(defects)?;
        Ok(Self {
            path: path.to_owned(),
            ..pipeline
        })
    }

    /// Checks the text of a pipeline file, with the recordings and modules that it names.
    ///
    /// # Errors
    /// All defects, warnings included.
    pub fn check(text: &str, resources: &dyn Resources) -> Result<Self, Defects> {
        let document = parse(text)?;
        let mut defects = Defects::default();
        let graph = Graph::new(&document, &mut defects);
        let Some(graph) = graph.filter(|_| !defects.has_error()) else {
            defects.sort();
            return Err(defects);
        };
        let mut stages = Vec::new();
        for stage in &document.stages {
            stages.extend(check_stage(stage, resources, &mut defects));
        }
        let input_files = find_input_files(&document, resources, &mut defects);
        let mut pipeline = Self {
            path: PathBuf::new(),
            document,
            graph,
            stages,
            input_files,
            carried: Vec::new(),
            warnings: Vec::new(),
        };
        // A type is unknown if its stage has a defect.
        if pipeline.stages.len() == pipeline.document.stages.len() {
            pipeline.check_types(&mut defects);
        }
        defects.sort();
        if defects.has_error() {
            return Err(defects);
        }
        pipeline.warnings = defects.all().to_vec();
        Ok(pipeline)
    }

    /// Returns the type of a value.
    #[must_use]
    pub fn type_of(&self, source: ValueSource) -> Option<&TensorType> {
        match source {
            ValueSource::Input(input) => self.document.inputs.get(input).map(|i| &i.tensor),
            ValueSource::Stage { stage, output } => self.stages.get(stage)?.outputs.get(output),
            ValueSource::Carried { of_loop, value } => self.carried.get(of_loop)?.get(value),
        }
    }

    /// Returns the name of a value: `inputs.image`, `dense.logits`.
    #[must_use]
    pub fn name_of(&self, source: ValueSource) -> String {
        let name = match source {
            ValueSource::Input(input) => self.document.inputs.get(input).map(|i| format!("inputs.{}", i.name)),
            ValueSource::Stage { stage, output } => self.document.stages.get(stage).and_then(|s| {
                let names = output_names(s);
                Some(format!("{}.{}", s.name, names.get(output)?))
            }),
            ValueSource::Carried { of_loop, value } => self
                .document
                .loops
                .get(of_loop)
                .and_then(|l| Some(format!("{}.{}", l.name, l.carry.get(value)?.name))),
        };
        name.unwrap_or_default()
    }

    /// Sets the types of carried values, and compares both ends of each connection.
    fn check_types(&mut self, defects: &mut Defects) {
        // A carried value can start as one of an earlier loop, so that types follow the order of the loops.
        self.carried = vec![Vec::new(); self.document.loops.len()];
        let mut open: Vec<usize> = (0..self.graph.loops.len()).collect();
        while !open.is_empty() {
            let before = open.len();
            open.retain(|number| {
                let starts = self
                    .graph
                    .loops
                    .get(*number)
                    .map(|l| l.carry.iter().map(|[start, _]| *start));
                let types: Option<Vec<TensorType>> = starts
                    .into_iter()
                    .flatten()
                    .map(|start| self.type_of(start).cloned())
                    .collect();
                match (types, self.carried.get_mut(*number)) {
                    (Some(types), Some(slot)) => {
                        *slot = types;
                        false
                    }
                    _ => true,
                }
            });
            if open.len() == before {
                break;
            }
        }
        for (number, stage) in self.stages.iter().enumerate() {
            let (Some(definition), Some(node)) = (self.document.stages.get(number), self.graph.stages.get(number))
            else {
                continue;
            };
            let ends = definition.inputs.iter().zip(&node.inputs).zip(&stage.inputs);
            for ((connection, source), expected) in ends {
                let user = format!("input '{}' of stage '{}'", connection.name, definition.name);
                self.compare(&user, connection.line, expected, *source, defects);
            }
        }
        for (number, node) in self.graph.loops.iter().enumerate() {
            let Some(definition) = self.document.loops.get(number) else {
                continue;
            };
            let carried = self.carried.get(number).into_iter().flatten();
            for ((value, [_, next]), expected) in definition.carry.iter().zip(&node.carry).zip(carried) {
                let user = format!("carried value '{}.{}'", definition.name, value.name);
                self.compare(&user, value.line, expected, *next, defects);
            }
            if let Some(given) = self.type_of(node.until).filter(|t| t.elements() != 1) {
                let kind = DefectKind::ConditionType {
                    owner: definition.name.clone(),
                    name: self.name_of(node.until),
                    given: given.clone(),
                };
                defects.add(definition.until.line, kind);
            }
        }
    }

    /// Adds a defect if a value does not fit what is expected.
    fn compare(&self, user: &str, line: u32, expected: &TensorType, source: ValueSource, defects: &mut Defects) {
        let Some(given) = self.type_of(source).filter(|given| !expected.accepts(given)) else {
            return;
        };
        let kind = DefectKind::TypeMismatch {
            user: user.to_owned(),
            expected: expected.clone(),
            name: self.name_of(source),
            given: given.clone(),
        };
        defects.add(line, kind);
    }
}

/// Reads the text of a pipeline file.
fn read_text(path: &Path) -> Result<String, PipelineError> {
    let file = |source| PipelineError::File {
        path: path.to_owned(),
        source,
    };
    let defect = |kind| {
        let mut defects = Defects::default();
        defects.add(1, kind);
        PipelineError::Defects {
            path: path.to_owned(),
            defects,
        }
    };
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(file)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(file)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let known = std::fs::metadata(path).map_or(0, |m| m.len());
        let (bytes, max) = (known.max(bytes.len() as u64), MAX_FILE_BYTES);
        return Err(defect(DefectKind::FileSize { bytes, max }));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        defect(DefectKind::Toml(format!("byte {at} is no text (expected UTF-8)")))
    })
}

/// Returns where the files of inputs are. One that is not there is a warning, because a run can have another one.
fn find_input_files(document: &Document, resources: &dyn Resources, defects: &mut Defects) -> Vec<Option<PathBuf>> {
    let inputs = document.inputs.iter();
    let find = |input: &InputDefinition| {
        let InputSource::File(path) = &input.source else {
            return None;
        };
        if let Err(reason) = resources.check_input(path) {
            let input_name = input.name.clone();
            defects.add(
                input.line,
                DefectKind::InputFile {
                    input: input_name,
                    reason,
                },
            );
        }
        Some(resources.locate_input(path))
    };
    inputs.map(find).collect()
}

/// Checks one stage with its recording or module. Adds a defect and returns `None` if it cannot be used.
fn check_stage(stage: &StageDefinition, resources: &dyn Resources, defects: &mut Defects) -> Option<Stage> {
    match &stage.work {
        StageWork::Replay(replay) => replays::check(stage, replay, resources, defects),
        StageWork::Module(module) => check_module(stage, module, resources, defects),
    }
}

fn check_module(
    stage: &StageDefinition,
    module: &ModuleDefinition,
    resources: &dyn Resources,
    defects: &mut Defects,
) -> Option<Stage> {
    // The parser requires a type for each input of a module.
    let inputs: Vec<TensorType> = stage.inputs.iter().filter_map(|i| i.tensor.clone()).collect();
    let outputs: Vec<TensorType> = module.outputs.iter().map(|o| o.tensor.clone()).collect();
    let bytes = inputs
        .iter()
        .chain(&outputs)
        .fold(0u64, |all, t| all.saturating_add(t.bytes()));
    if bytes > module.limits.memory {
        let kind = DefectKind::ModuleMemory {
            stage: stage.name.clone(),
            bytes,
            limit: module.limits.memory,
        };
        defects.add(stage.line, kind);
        return None;
    }
    let compile = || -> Result<ModuleProgram, ModuleDefect> {
        let bytes = resources.read_module(&module.module)?;
        ModuleProgram::new(&bytes, &module.function, inputs.len(), outputs.clone(), module.limits)
    };
    match compile() {
        Ok(program) => Some(Stage {
            work: CheckedWork::Module(program),
            inputs,
            outputs,
        }),
        Err(defect) => {
            let stage = stage.name.clone();
            defects.add(module.line, DefectKind::Module { stage, defect });
            None
        }
    }
}
