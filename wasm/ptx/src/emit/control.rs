//! Blocks, branches and returns: labels, and the registers that values take through labels.

use wasmparser::{BlockType, Operator};

use super::frame::{Frame, FrameKind};
use super::function::FunctionEmitter;
use super::text::{Source, line};
use super::value::{NanBits, Operand, Value};
use crate::module::value_type;
use crate::values::ValueType;

/// Tables with at most this number of targets become comparisons.
const MAX_COMPARED_TARGETS: usize = 4;
/// Maximum number of targets of one list: a longer `br_table` has several.
const MAX_LISTED_TARGETS: usize = 1 << 12;

impl FunctionEmitter<'_> {
    fn block_types(&self, ty: BlockType) -> (Vec<ValueType>, Vec<ValueType>) {
        match ty {
            BlockType::Empty => (Vec::new(), Vec::new()),
            BlockType::Type(ty) => (Vec::new(), value_type(ty).into_iter().collect()),
            BlockType::FuncType(index) => {
                let signature = &self.instance.module.types[index as usize];
                (signature.params.clone(), signature.results.clone())
            }
        }
    }

    /// Gives values below a block registers that no instruction in the block changes: other paths do not pass it.
    fn settle(&mut self) {
        // A stop inside the block would move predicates on its own path only.
        if self.resumable() {
            self.settle_predicates();
        }
        self.settle_locals();
    }

    /// Copies locals on the stack that the block from the current instruction on assigns.
    fn settle_locals(&mut self) {
        let start = u32::try_from(self.index).unwrap_or(u32::MAX);
        let end = self.body.ends[self.index];
        for position in 0..self.stack.len() {
            let value = self.stack[position];
            let Operand::Local(local) = value.operand else { continue };
            let sets = &self.locals[local as usize].sets;
            let next = sets.partition_point(|set| *set <= start);
            if sets.get(next).is_some_and(|set| *set < end) {
                let source = self.source(value);
                let copy = self.new_register(value.ty);
                self.move_to(Self::register(value.ty, copy), source);
                // The same local may be on the stack again.
                for other in &mut self.stack[position..] {
                    if other.operand == Operand::Local(local) {
                        other.operand = Operand::Register(copy);
                    }
                }
            }
        }
    }

    fn open(&mut self, kind: FrameKind, params: &[ValueType], results: Vec<ValueType>) {
        let label = self.new_label();
        let label_types = if kind == FrameKind::Loop {
            params.to_vec()
        } else {
            results.clone()
        };
        self.frames.push(Frame {
            kind,
            label,
            else_label: 0,
            results,
            label_types,
            targets: Vec::new(),
            height: self.stack.len().saturating_sub(params.len()),
            branched: false,
            parameters: Vec::new(),
            dispatch: None,
        });
    }

    pub fn block(&mut self, ty: BlockType) {
        let (params, results) = self.block_types(ty);
        self.settle();
        self.open(FrameKind::Block, &params, results);
    }

    pub fn loop_(&mut self, ty: BlockType) {
        let (params, results) = self.block_types(ty);
        self.settle();
        self.open(FrameKind::Loop, &params, results);
        if !params.is_empty() {
            self.move_to_targets(0, None);
            self.replace_top(0);
        }
        let label = self.frame(0).label;
        line!(self.out, "$L{label}:");
        self.enter_dispatch();
        if self.context.options.fuel {
            let live = match self.body.live.get(self.index) {
                Some(Some(live)) => live.clone(),
                _ => Vec::new(),
            };
            self.burn_fuel(&live, Some(label));
        }
        let first = self.stops.len();
        if let Some(dispatch) = &mut self.frame_mut(0).dispatch {
            dispatch.first = first;
        }
        self.count_block();
    }

    pub fn if_(&mut self, ty: BlockType) {
        let (params, results) = self.block_types(ty);
        let condition = self.pop();
        let (predicate, negated) = self.condition(condition);
        self.settle();
        self.open(FrameKind::If, &params, results);
        let else_label = self.new_label();
        let parameters = self.stack[self.stack.len() - params.len()..].to_vec();
        let frame = self.frame_mut(0);
        frame.else_label = else_label;
        frame.parameters = parameters;
        let not = if negated { "" } else { "!" };
        line!(self.out, "@{not}%p{predicate} bra $L{else_label};");
        self.count_next_block();
    }

    pub fn else_(&mut self) {
        if !self.dead {
            self.branch(0);
        }
        self.dead = false;
        let frame = self.frame_mut(0);
        frame.kind = FrameKind::Else;
        let (label, height) = (frame.else_label, frame.height);
        let parameters = std::mem::take(&mut frame.parameters);
        line!(self.out, "$L{label}:");
        self.stack.truncate(height);
        self.stack.extend(parameters);
        self.count_block();
    }

    pub fn end(&mut self) {
        let mut counted = false;
        if self.frame(0).kind == FrameKind::If {
            if self.frame(0).label_types.is_empty() {
                // Without values both paths meet at the end.
                let frame = self.frame_mut(0);
                let else_label = frame.else_label;
                frame.parameters.clear();
                line!(self.out, "$L{else_label}:");
                self.dead = false;
                let height = self.frame(0).height;
                self.stack.truncate(height);
                counted = true;
            } else {
                self.else_();
            }
        }
        let frame = self.frame(0).clone();
        if let Some(dispatch) = frame.dispatch {
            self.write_dispatch(frame.label, dispatch);
        }
        match frame.kind {
            FrameKind::Loop => {
                if self.dead {
                    self.stack.truncate(frame.height);
                }
            }
            _ => {
                if frame.branched {
                    if self.dead {
                        self.stack.truncate(frame.height);
                    } else {
                        self.move_to_targets(0, None);
                        let kept = self.stack.len() - frame.results.len();
                        self.stack.truncate(kept);
                    }
                    let label = frame.label;
                    line!(self.out, "$L{label}:");
                    self.push_targets(0);
                    self.dead = false;
                    counted = true;
                }
            }
        }
        if frame.kind != FrameKind::Function {
            self.frames.pop();
            if counted {
                self.count_block();
            }
        }
    }

    fn frame(&self, depth: u32) -> &Frame {
        &self.frames[self.frames.len() - 1 - depth as usize]
    }

    pub fn frame_mut(&mut self, depth: u32) -> &mut Frame {
        let index = self.frames.len() - 1 - depth as usize;
        &mut self.frames[index]
    }

    /// Returns the results of the function as operands; the frame is the outermost one.
    pub fn frame_sources(&mut self, depth: u32) -> Vec<Source> {
        let count = self.frame(depth).results.len();
        let start = self.stack.len().saturating_sub(count);
        let values = self.stack[start..].to_vec();
        values
            .into_iter()
            .map(|value| {
                let value = self.exact(value);
                self.source(value)
            })
            .collect()
    }

    fn targets(&mut self, depth: u32) -> Vec<Source> {
        let types = self.frame(depth).label_types.clone();
        if self.frame(depth).targets.is_empty() && !types.is_empty() {
            let targets = types.iter().map(|ty| self.new_register(*ty)).collect();
            self.frame_mut(depth).targets = targets;
        }
        let frame = self.frame(depth);
        frame
            .targets
            .iter()
            .zip(&types)
            .map(|(register, ty)| Self::register(*ty, *register))
            .collect()
    }

    fn push_targets(&mut self, depth: u32) {
        let types = self.frame(depth).label_types.clone();
        self.targets(depth);
        let targets = self.frame(depth).targets.clone();
        for (ty, register) in types.into_iter().zip(targets) {
            let bits = if ty.is_float() { NanBits::Exact } else { NanBits::Plain };
            self.push(Value::register(ty, register, bits));
        }
    }

    /// Replaces the values on top of the stack by the label's registers.
    fn replace_top(&mut self, depth: u32) {
        let kept = self.stack.len() - self.frame(depth).label_types.len();
        self.stack.truncate(kept);
        self.push_targets(depth);
    }

    /// Returns the values on top of the stack that a branch takes, as operands that no target overwrites.
    fn branch_sources(&mut self, depth: u32) -> Vec<Source> {
        let targets = self.targets(depth);
        let start = self.stack.len() - targets.len();
        let values = self.stack[start..].to_vec();
        let mut sources = Vec::with_capacity(values.len());
        for value in values {
            let value = self.exact(value);
            sources.push(self.source(value));
        }
        for position in 0..sources.len() {
            let source = sources[position];
            // A source that an earlier move overwrites moves to a register of its own first.
            if targets[..position].contains(&source) {
                let copy = match source {
                    Source::Wide(_) => Source::Wide(self.new_wide()),
                    _ => Source::Word(self.new_word()),
                };
                self.move_to(copy, source);
                sources[position] = copy;
            }
        }
        sources
    }

    /// Moves the values on top of the stack to the registers of a label, if the predicate holds.
    fn move_to_targets(&mut self, depth: u32, predicate: Option<(u32, bool)>) {
        let sources = self.branch_sources(depth);
        let targets = self.targets(depth);
        for (target, source) in targets.into_iter().zip(sources) {
            if target == source {
                continue;
            }
            let bits = if matches!(target, Source::Wide(_)) { 64 } else { 32 };
            match predicate {
                None => line!(self.out, "mov.b{bits} {target}, {source};"),
                Some((register, negated)) => {
                    let not = if negated { "!" } else { "" };
                    line!(self.out, "@{not}%p{register} mov.b{bits} {target}, {source};");
                }
            }
        }
    }

    /// Branches to the label of a frame.
    pub fn branch(&mut self, depth: u32) {
        self.move_to_targets(depth, None);
        let frame = self.frame_mut(depth);
        frame.branched = true;
        let label = frame.label;
        line!(self.out, "bra $L{label};");
        self.dead = true;
    }

    pub fn branch_if(&mut self, depth: u32) {
        let condition = self.pop();
        if let Some(constant) = condition.word_constant() {
            if constant != 0 {
                self.branch(depth);
            }
            return;
        }
        let (predicate, negated) = self.condition(condition);
        self.move_to_targets(depth, Some((predicate, negated)));
        let frame = self.frame_mut(depth);
        frame.branched = true;
        let label = frame.label;
        let not = if negated { "!" } else { "" };
        line!(self.out, "@{not}%p{predicate} bra $L{label};");
        self.count_next_block();
    }

    pub fn branch_table(&mut self, list: &[u32], default: u32) {
        let index = self.pop();
        if list.is_empty() {
            self.branch(default);
            return;
        }
        let index = self.register_source(index);
        let values = self.frame(default).label_types.len();
        // A label that takes values gets a stub that moves them.
        let mut stubs: Vec<Option<u32>> = vec![None; self.frames.len()];
        let mut labels = Vec::with_capacity(list.len() + 1);
        for depth in list.iter().chain([&default]) {
            self.frame_mut(*depth).branched = true;
            if values == 0 {
                labels.push(self.frame(*depth).label);
                continue;
            }
            let stub = match stubs[*depth as usize] {
                Some(stub) => stub,
                None => {
                    let stub = self.new_label();
                    stubs[*depth as usize] = Some(stub);
                    stub
                }
            };
            labels.push(stub);
        }
        let default_label = labels[list.len()];
        if list.len() <= MAX_COMPARED_TARGETS {
            for (position, label) in labels[..list.len()].iter().enumerate() {
                let predicate = self.new_predicate();
                line!(self.out, "setp.eq.s32 %p{predicate}, {index}, {position};");
                line!(self.out, "@%p{predicate} bra $L{label};");
            }
            line!(self.out, "bra $L{default_label};");
        } else {
            let clamped = self.new_word();
            line!(self.out, "min.u32 %r{clamped}, {index}, {};", list.len());
            self.branch_by_index(clamped, &labels);
        }
        for (depth, stub) in stubs.iter().enumerate() {
            if let Some(stub) = stub {
                let depth = u32::try_from(depth).unwrap_or(u32::MAX);
                line!(self.out, "$L{stub}:");
                self.move_to_targets(depth, None);
                let label = self.frame(depth).label;
                line!(self.out, "bra $L{label};");
            }
        }
        self.dead = true;
    }

    /// Branches to the label with a number. Long lists are divided: NVIDIA's assembler crashes on lists of 20,000.
    fn branch_by_index(&mut self, number: u32, labels: &[u32]) {
        let mut parts = labels.chunks(MAX_LISTED_TARGETS).peekable();
        while let Some(part) = parts.next() {
            let next = parts.peek().map(|_| self.new_label());
            if let Some(next) = next {
                let predicate = self.new_predicate();
                line!(self.out, "setp.ge.u32 %p{predicate}, %r{number}, {};", part.len());
                line!(self.out, "@%p{predicate} bra $L{next};");
            }
            let table = self.new_label();
            self.branch_targets(table, part);
            line!(self.out, "brx.idx %r{number}, $L{table};");
            if let Some(next) = next {
                line!(self.out, "$L{next}:");
                line!(self.out, "sub.s32 %r{number}, %r{number}, {};", part.len());
            }
        }
    }

    /// Writes a list of branch targets with label `table`.
    pub fn branch_targets(&mut self, table: u32, labels: &[u32]) {
        use std::fmt::Write as _;
        let _ = write!(self.out, "$L{table}: .branchtargets ");
        for (position, label) in labels.iter().enumerate() {
            let _ = write!(self.out, "{}$L{label}", if position == 0 { "" } else { ", " });
        }
        line!(self.out, ";");
    }

    /// Follows the nesting of unreachable code.
    pub fn skip(&mut self, operator: &Operator<'_>) {
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => self.skipped += 1,
            Operator::Else if self.skipped == 0 => self.else_(),
            Operator::End if self.skipped == 0 => self.end(),
            Operator::End => self.skipped -= 1,
            _ => {}
        }
    }
}
