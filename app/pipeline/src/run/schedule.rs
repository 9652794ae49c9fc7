//! The schedule of a run: which stages are ready, the values so far, and the rounds of loops.

use crate::document::{AtBound, LoopDefinition};
use crate::graph::{LoopNode, ValueSource};
use crate::pipeline::Pipeline;
use crate::tensor::TensorData;
use kinescope_files::values::element_f64;
use std::collections::HashMap;

/// A stage that is ready, with its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Index of the stage.
    pub stage: usize,
    /// Round of its loop, from 1.
    pub round: Option<u32>,
    /// Its inputs, in their order.
    pub inputs: Vec<TensorData>,
}

/// A round that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundEnd {
    /// Index of the loop.
    pub of_loop: usize,
    /// The round, from 1.
    pub round: u32,
    /// The number of the condition.
    pub number: f64,
    /// How the loop ended, or `None` if another round follows.
    pub end: Option<LoopEnd>,
}

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// Its condition was met.
    Condition,
    /// Its last round did not meet the condition.
    Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct LoopState {
    /// The current round; 0 before the first one.
    round: u32,
    is_done: bool,
}

/// The state of a run.
pub struct Schedule<'a> {
    pipeline: &'a Pipeline,
    stages: Vec<State>,
    loops: Vec<LoopState>,
    values: HashMap<ValueSource, TensorData>,
}

impl<'a> Schedule<'a> {
    /// Starts a run with the pipeline's inputs, in their order.
    pub fn new(pipeline: &'a Pipeline, inputs: Vec<TensorData>) -> Self {
        let values = inputs.into_iter().enumerate();
        Self {
            pipeline,
            stages: vec![State::Waiting; pipeline.stages.len()],
            loops: vec![LoopState::default(); pipeline.graph.loops.len()],
            values: values.map(|(at, data)| (ValueSource::Input(at), data)).collect(),
        }
    }

    /// Returns a value, if it is known.
    pub fn value(&self, source: ValueSource) -> Option<TensorData> {
        self.values.get(&source).cloned()
    }

    fn is_ended(&self, stages: &[usize], loops: &[usize]) -> bool {
        stages.iter().all(|s| self.stages.get(*s) == Some(&State::Done))
            && loops.iter().all(|l| self.loops.get(*l).is_some_and(|l| l.is_done))
    }

    /// Starts the loops that wait for nothing more.
    fn start_loops(&mut self) {
        let graph = &self.pipeline.graph;
        for (number, node) in graph.loops.iter().enumerate() {
            let is_new = self.loops.get(number).is_some_and(|l| l.round == 0);
            if !is_new || !self.is_ended(&node.after_stages, &node.after_loops) {
                continue;
            }
            self.carry(number, node, |[start, _]| *start);
            if let Some(state) = self.loops.get_mut(number) {
                state.round = 1;
            }
        }
    }

    /// Sets the carried values of a loop, all at once.
    fn carry(&mut self, of_loop: usize, node: &LoopNode, from: impl Fn(&[ValueSource; 2]) -> ValueSource) {
        let new: Vec<Option<TensorData>> = node.carry.iter().map(|c| self.value(from(c))).collect();
        for (value, data) in new.into_iter().enumerate() {
            if let Some(data) = data {
                self.values.insert(ValueSource::Carried { of_loop, value }, data);
            }
        }
    }

    /// Returns the next stage that is ready, which then counts as running.
    pub fn take_ready(&mut self) -> Option<Task> {
        self.start_loops();
        let graph = &self.pipeline.graph;
        let stage = graph.order.iter().copied().find(|stage| {
            let Some(node) = graph.stages.get(*stage) else {
                return false;
            };
            let is_open = match node.of_loop {
                Some(number) => self.loops.get(number).is_some_and(|l| l.round > 0 && !l.is_done),
                None => true,
            };
            is_open
                && self.stages.get(*stage) == Some(&State::Waiting)
                && self.is_ended(&node.after_stages, &node.after_loops)
        })?;
        let node = graph.stages.get(stage)?;
        let inputs: Option<Vec<TensorData>> = node.inputs.iter().map(|source| self.value(*source)).collect();
        if let Some(state) = self.stages.get_mut(stage) {
            *state = State::Running;
        }
        let round = node.of_loop.and_then(|number| self.loops.get(number)).map(|l| l.round);
        Some(Task {
            stage,
            round,
            inputs: inputs?,
        })
    }

    /// Takes the outputs of a stage. Returns the end of its round, if it was the last stage of one.
    pub fn finish(&mut self, stage: usize, outputs: Vec<TensorData>) -> Option<RoundEnd> {
        for (output, data) in outputs.into_iter().enumerate() {
            self.values.insert(ValueSource::Stage { stage, output }, data);
        }
        if let Some(state) = self.stages.get_mut(stage) {
            *state = State::Done;
        }
        let pipeline = self.pipeline;
        let of_loop = pipeline.graph.loop_of(stage)?;
        let node = pipeline.graph.loops.get(of_loop)?;
        let definition = pipeline.document.loops.get(of_loop)?;
        if !self.is_ended(&node.stages, &[]) {
            return None;
        }
        self.end_round(of_loop, node, definition)
    }

    fn end_round(&mut self, of_loop: usize, node: &LoopNode, definition: &LoopDefinition) -> Option<RoundEnd> {
        let element = self.pipeline.type_of(node.until)?.element();
        // The element has as many bytes as its type, so that there is a number.
        let number = self.value(node.until).and_then(|data| element_f64(element, &data));
        let number = number.unwrap_or(f64::NAN);
        let round = self.loops.get(of_loop)?.round;
        let end = match definition.until.test.is_met(number) {
            true => Some(LoopEnd::Condition),
            false if round >= definition.rounds => Some(LoopEnd::Bound),
            false => None,
        };
        self.carry(of_loop, node, |[_, next]| *next);
        match end {
            Some(_) => self.loops.get_mut(of_loop)?.is_done = true,
            None => {
                self.loops.get_mut(of_loop)?.round = round.saturating_add(1);
                for stage in &node.stages {
                    if let Some(state) = self.stages.get_mut(*stage) {
                        *state = State::Waiting;
                    }
                }
            }
        }
        Some(RoundEnd {
            of_loop,
            round,
            number,
            end,
        })
    }
}

/// Returns whether a run fails because a loop ended like this.
pub fn is_failure(definition: &LoopDefinition, end: LoopEnd) -> bool {
    end == LoopEnd::Bound && definition.at_bound == AtBound::Fail
}
