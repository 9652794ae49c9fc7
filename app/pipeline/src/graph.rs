//! The graph of a pipeline: names become indices, circles are found, and stages get their order.

mod order;

use crate::defect::{DefectKind, Defects};
use crate::document::{Document, StageDefinition, StageWork, ValueName};
use crate::parse::INPUTS;
use std::collections::HashMap;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueSource {
    /// An input of the pipeline, by its index.
    Input(usize),
    /// An output of a stage. Outside the stage's loop it is that of the last round.
    Stage {
        /// Index of the stage.
        stage: usize,
        /// Index among its outputs.
        output: usize,
    },
    /// A carried value. Outside its loop it is the value after the last round.
    Carried {
        /// Index of the loop.
        of_loop: usize,
        /// Index among its carried values.
        value: usize,
    },
}

/// A stage in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNode {
    /// Sources of its inputs, in their order.
    pub inputs: Vec<ValueSource>,
    /// Index of its loop.
    pub of_loop: Option<usize>,
    /// Stages of the same loop, or of no loop for a stage of no loop, that must end before.
    pub after_stages: Vec<usize>,
    /// Loops that must end before a stage of no loop.
    pub after_loops: Vec<usize>,
    /// Length of the longest chain of stages before it.
    pub depth: usize,
}

/// A loop in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopNode {
    /// Its stages in an order that respects their connections.
    pub stages: Vec<usize>,
    /// Sources of each carried value: for the first round, and for each later one.
    pub carry: Vec<[ValueSource; 2]>,
    /// Source of the condition.
    pub until: ValueSource,
    /// Stages of no loop that must end before.
    pub after_stages: Vec<usize>,
    /// Loops that must end before.
    pub after_loops: Vec<usize>,
}

/// The graph of a pipeline. Its lists are parallel to those of the [`Document`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Stages.
    pub stages: Vec<StageNode>,
    /// Loops.
    pub loops: Vec<LoopNode>,
    /// Sources of the outputs.
    pub outputs: Vec<ValueSource>,
    /// All stages in an order that respects their connections; those of a loop follow one another.
    pub order: Vec<usize>,
}

/// Returns the names of the outputs of a stage.
#[must_use]
pub fn output_names(stage: &StageDefinition) -> Vec<&str> {
    match &stage.work {
        StageWork::Replay(replay) => replay.outputs.iter().map(|o| o.name.as_str()).collect(),
        StageWork::Module(module) => module.outputs.iter().map(|o| o.name.as_str()).collect(),
    }
}

/// Names of a document, for lookups.
struct Names<'a> {
    document: &'a Document,
    inputs: HashMap<&'a str, usize>,
    stages: HashMap<&'a str, usize>,
    loops: HashMap<&'a str, usize>,
    outputs: Vec<HashMap<&'a str, usize>>,
    carried: Vec<HashMap<&'a str, usize>>,
}

fn index<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    names.enumerate().map(|(at, name)| (name, at)).collect()
}

/// Returns names for a message.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX_LISTED: usize = 12;
    let mut all: Vec<&str> = names.collect();
    let more = all.len().saturating_sub(MAX_LISTED);
    all.truncate(MAX_LISTED);
    match (all.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (_, 0) => all.join(", "),
        (_, more) => format!("{}, and {more} more", all.join(", ")),
    }
}

impl<'a> Names<'a> {
    fn new(document: &'a Document) -> Self {
        let outputs = document.stages.iter().map(|s| index(output_names(s).into_iter()));
        let carried = document
            .loops
            .iter()
            .map(|l| index(l.carry.iter().map(|c| c.name.as_str())));
        Self {
            document,
            inputs: index(document.inputs.iter().map(|i| i.name.as_str())),
            stages: index(document.stages.iter().map(|s| s.name.as_str())),
            loops: index(document.loops.iter().map(|l| l.name.as_str())),
            outputs: outputs.collect(),
            carried: carried.collect(),
        }
    }

    /// Returns the source of a value, or adds a defect. `user` uses it, in words.
    fn find(&self, user: &str, line: u32, name: &ValueName, defects: &mut Defects) -> Option<ValueSource> {
        let (owner, item) = (name.owner.as_str(), name.item.as_str());
        let stage = self.stages.get(owner).copied();
        let of_loop = self.loops.get(owner).copied();
        let (source, what, known) = if owner == INPUTS {
            let source = self.inputs.get(item).map(|i| ValueSource::Input(*i));
            let known = list(self.document.inputs.iter().map(|i| i.name.as_str()));
            (source, format!("input '{item}'"), known)
        } else if let Some(stage) = stage {
            let outputs = self.outputs.get(stage);
            let output = outputs.and_then(|all| all.get(item).copied());
            let source = output.map(|output| ValueSource::Stage { stage, output });
            let known = self
                .document
                .stages
                .get(stage)
                .map(|s| list(output_names(s).into_iter()));
            (
                source,
                format!("output '{item}' of stage '{owner}'"),
                known.unwrap_or_default(),
            )
        } else if let Some(of_loop) = of_loop {
            let value = self.carried.get(of_loop).and_then(|all| all.get(item).copied());
            let source = value.map(|value| ValueSource::Carried { of_loop, value });
            let all = self.document.loops.get(of_loop).into_iter().flat_map(|l| &l.carry);
            let known = list(all.map(|c| c.name.as_str()));
            (source, format!("carried value '{item}' of loop '{owner}'"), known)
        } else {
            let owners = self.document.stages.iter().map(|s| s.name.as_str());
            let known = list(owners.chain(self.document.loops.iter().map(|l| l.name.as_str())));
            (None, format!("stage or loop '{owner}'"), known)
        };
        if source.is_none() {
            let (user, name) = (user.to_owned(), name.to_string());
            defects.add(
                line,
                DefectKind::UnknownValue {
                    user,
                    name,
                    what,
                    known,
                },
            );
        }
        source
    }
}

impl Graph {
    /// Resolves the names of a document.
    ///
    /// Returns `None` after adding defects if a name is unknown, or stages wait for one another in a circle.
    pub(crate) fn new(document: &Document, defects: &mut Defects) -> Option<Self> {
        let names = Names::new(document);
        let mut graph = Self::default();
        let mut is_sound = true;
        for stage in &document.stages {
            let user = format!("stage '{}'", stage.name);
            let mut inputs = Vec::new();
            for connection in &stage.inputs {
                match names.find(&user, connection.line, &connection.from, defects) {
                    Some(source) => inputs.push(source),
                    None => is_sound = false,
                }
            }
            graph.stages.push(StageNode {
                inputs,
                of_loop: None,
                after_stages: Vec::new(),
                after_loops: Vec::new(),
                depth: 0,
            });
        }
        is_sound &= graph.assign_loops(&names, defects);
        for (number, one) in document.loops.iter().enumerate() {
            match graph.resolve_loop(&names, number, defects) {
                Some(node) => graph.loops.push(node),
                None => is_sound = false,
            }
            if one.stages.is_empty() {
                let kind = DefectKind::Value {
                    owner: format!("loop '{}'", one.name),
                    key: "stages".to_owned(),
                    got: "empty".to_owned(),
                    expected: "the names of its stages".to_owned(),
                };
                defects.add(one.line, kind);
                is_sound = false;
            }
        }
        for output in &document.outputs {
            let user = format!("output '{}'", output.name);
            match names.find(&user, output.line, &output.from, defects) {
                Some(source) => graph.outputs.push(source),
                None => is_sound = false,
            }
        }
        if !is_sound {
            return None;
        }
        graph.connect();
        if !order::sort(&mut graph, document, defects) {
            return None;
        }
        graph.report_unused(document, defects);
        Some(graph)
    }

    /// Assigns stages to their loops. Returns whether it found no defect.
    fn assign_loops(&mut self, names: &Names<'_>, defects: &mut Defects) -> bool {
        let mut is_sound = true;
        for (number, one) in names.document.loops.iter().enumerate() {
            for (name, line) in &one.stages {
                let Some(stage) = names.stages.get(name.as_str()).copied() else {
                    let kind = DefectKind::UnknownValue {
                        user: format!("loop '{}'", one.name),
                        name: name.clone(),
                        what: format!("stage '{name}'"),
                        known: list(names.document.stages.iter().map(|s| s.name.as_str())),
                    };
                    defects.add(*line, kind);
                    is_sound = false;
                    continue;
                };
                let Some(node) = self.stages.get_mut(stage) else {
                    continue;
                };
                if let Some(first) = node.of_loop.and_then(|at| names.document.loops.get(at)) {
                    let kind = DefectKind::TwoLoops {
                        stage: name.clone(),
                        first: first.name.clone(),
                    };
                    defects.add(*line, kind);
                    is_sound = false;
                }
                node.of_loop = Some(number);
            }
        }
        is_sound
    }

    /// Resolves the values of a loop.
    fn resolve_loop(&self, names: &Names<'_>, number: usize, defects: &mut Defects) -> Option<LoopNode> {
        let one = names.document.loops.get(number)?;
        let user = format!("loop '{}'", one.name);
        let inside = |line, name: &ValueName, defects: &mut Defects| {
            let source = names.find(&user, line, name, defects)?;
            let is_inside = match source {
                ValueSource::Stage { stage, .. } => self.loop_of(stage) == Some(number),
                _ => false,
            };
            if !is_inside {
                let (owner, name) = (one.name.clone(), name.to_string());
                defects.add(line, DefectKind::OutsideLoop { owner, name });
            }
            is_inside.then_some(source)
        };
        let mut carry = Vec::new();
        for value in &one.carry {
            let next = inside(value.line, &value.next, defects);
            let start = names.find(&user, value.line, &value.start, defects);
            carry.extend(start.zip(next).map(|(start, next)| [start, next]));
        }
        let until = inside(one.until.line, &one.until.value, defects);
        if carry.len() != one.carry.len() {
            return None;
        }
        let members = self
            .stages
            .iter()
            .enumerate()
            .filter(|(_, s)| s.of_loop == Some(number));
        Some(LoopNode {
            stages: members.map(|(at, _)| at).collect(),
            carry,
            until: until?,
            after_stages: Vec::new(),
            after_loops: Vec::new(),
        })
    }

    /// Returns the loop of a stage.
    #[must_use]
    pub fn loop_of(&self, stage: usize) -> Option<usize> {
        self.stages.get(stage).and_then(|s| s.of_loop)
    }

    /// Finds what each stage and each loop waits for.
    fn connect(&mut self) {
        let sources: Vec<(usize, Vec<ValueSource>)> =
            self.stages.iter().map(|s| s.inputs.clone()).enumerate().collect();
        for (stage, sources) in sources {
            let of_loop = self.loop_of(stage);
            for source in sources {
                self.add_wait(Some(stage), of_loop, source);
            }
        }
        for number in 0..self.loops.len() {
            let starts: Vec<ValueSource> = self
                .loops
                .get(number)
                .map(|l| l.carry.iter().map(|[start, _]| *start).collect())
                .unwrap_or_default();
            for source in starts {
                self.add_wait(None, Some(number), source);
            }
        }
    }

    /// Notes that a stage, or a loop before its first round, waits for a value.
    fn add_wait(&mut self, stage: Option<usize>, of_loop: Option<usize>, source: ValueSource) {
        let (before_stage, before_loop) = match source {
            ValueSource::Input(_) => return,
            // A stage waits for the values of its own round.
            ValueSource::Stage { stage: before, .. } if stage.is_some() && self.loop_of(before) == of_loop => {
                if let Some(node) = stage.and_then(|s| self.stages.get_mut(s))
                    && !node.after_stages.contains(&before)
                {
                    node.after_stages.push(before);
                }
                return;
            }
            ValueSource::Stage { stage: before, .. } => match self.loop_of(before) {
                Some(of_loop) => (None, Some(of_loop)),
                None => (Some(before), None),
            },
            ValueSource::Carried { of_loop: before, .. } if stage.is_some() && of_loop == Some(before) => return,
            ValueSource::Carried { of_loop: before, .. } => (None, Some(before)),
        };
        // What comes from outside, a loop waits for as a whole.
        let (stages, loops) = match of_loop {
            Some(number) => match self.loops.get_mut(number) {
                Some(node) => (&mut node.after_stages, &mut node.after_loops),
                None => return,
            },
            None => match stage.and_then(|s| self.stages.get_mut(s)) {
                Some(node) => (&mut node.after_stages, &mut node.after_loops),
                None => return,
            },
        };
        stages.extend(before_stage.filter(|b| !stages.contains(b)));
        loops.extend(before_loop.filter(|b| !loops.contains(b)));
    }

    /// Adds a defect for each stage and input on which no output depends.
    fn report_unused(&self, document: &Document, defects: &mut Defects) {
        let mut used_stages = vec![false; self.stages.len()];
        let mut used_inputs = vec![false; document.inputs.len()];
        let mut used_loops = vec![false; self.loops.len()];
        let mut open: Vec<ValueSource> = self.outputs.clone();
        while let Some(source) = open.pop() {
            let of_loop = match source {
                ValueSource::Input(input) => {
                    if let Some(used) = used_inputs.get_mut(input) {
                        *used = true;
                    }
                    None
                }
                ValueSource::Stage { stage, .. } => {
                    let is_new = used_stages
                        .get_mut(stage)
                        .is_some_and(|used| !std::mem::replace(used, true));
                    if let Some(node) = self.stages.get(stage).filter(|_| is_new) {
                        open.extend(&node.inputs);
                    }
                    self.loop_of(stage)
                }
                ValueSource::Carried { of_loop, .. } => Some(of_loop),
            };
            if let Some(number) = of_loop
                && used_loops
                    .get_mut(number)
                    .is_some_and(|used| !std::mem::replace(used, true))
                && let Some(node) = self.loops.get(number)
            {
                open.extend(node.carry.iter().flatten());
                open.push(node.until);
            }
        }
        for (stage, used) in document.stages.iter().zip(used_stages) {
            if !used {
                let stage_name = stage.name.clone();
                defects.add(stage.line, DefectKind::UnusedStage { stage: stage_name });
            }
        }
        for (input, used) in document.inputs.iter().zip(used_inputs) {
            if !used {
                let name = input.name.clone();
                defects.add(input.line, DefectKind::UnusedInput { input: name });
            }
        }
    }
}
