//! Stops: fuel, frames of the continuation stack, and the way back to the place of a stop.

use std::collections::HashSet;

use wasmparser::Operator;

use super::frame::FrameKind;
use super::function::FunctionEmitter;
use super::registers::{CONTROL, DEAD, FRAME, FUEL, RESUME, SUSPENDED};
use super::stops::{Dispatch, SharedLocals, Stop};
use super::text::{Source, line};
use super::value::{NanBits, Operand, Value};
use crate::layout::{CopyState, WORD_STRIDE, Word};
use crate::program::TrapKind;
use crate::values::ValueType;

/// Fuel that a function that cannot suspend takes from the copy's life at once.
const REFILL: u32 = 1 << 16;

/// Minimum number of stops of a function whose locals are saved by shared code.
const MIN_SHARING_STOPS: usize = 6;

impl FunctionEmitter<'_> {
    /// Moves predicates on the stack to registers, which frames can hold.
    pub fn settle_predicates(&mut self) {
        for position in 0..self.stack.len() {
            let value = self.stack[position];
            if let Operand::Predicate { register, negated } = value.operand {
                let Source::Word(word) = self.source(value) else {
                    continue;
                };
                let settled = Value::register(ValueType::I32, word, NanBits::Plain);
                for other in &mut self.stack[position..] {
                    if other.operand == (Operand::Predicate { register, negated }) {
                        *other = settled;
                    }
                }
            }
        }
    }

    /// Returns the registers of the live locals and of the operand stack, without duplicates.
    pub fn saved_registers(&mut self, live: &[u32]) -> Vec<Source> {
        let mut saved = Vec::new();
        for index in live {
            let local = &self.locals[*index as usize];
            saved.push(Self::register(local.ty, local.register));
        }
        for value in &self.stack {
            match value.operand {
                Operand::Register(register) => saved.push(Self::register(value.ty, register)),
                Operand::Local(index) => {
                    saved.push(Self::register(value.ty, self.locals[index as usize].register));
                }
                Operand::Constant(_) | Operand::Predicate { .. } => {}
            }
        }
        let mut seen = HashSet::new();
        saved.retain(|source| {
            seen.insert(match source {
                Source::Wide(register) => (true, *register),
                Source::Word(register) => (false, *register),
                Source::WordConstant(_) | Source::WideConstant(_) => return false,
            })
        });
        saved
    }

    /// Takes one unit of fuel at a loop header or a function entry.
    ///
    /// `live` lists the live locals of a resumable function. A copy that resumes goes on at `again`, the header, or
    /// without one at the test itself.
    pub fn burn_fuel(&mut self, live: &[u32], again: Option<u32>) {
        let (header, empty) = (self.new_label(), self.new_label());
        let predicate = self.new_predicate();
        line!(self.out, "$L{header}:");
        line!(
            self.out,
            "add.s32 %r{FUEL}, %r{FUEL}, -1;\nsetp.lt.s32 %p{predicate}, %r{FUEL}, 0;"
        );
        line!(self.out, "@%p{predicate} bra $L{empty};");
        if self.resumable() {
            // The kernel finds a copy without fuel: this path has no branches.
            line!(self.tail, "$L{empty}:");
            line!(self.tail, "st.global.b32 [%d{CONTROL}+{}], 0;", Word::Slice.offset().0);
            line!(
                self.tail,
                "st.global.b32 [%d{CONTROL}+{}], {};",
                Word::State.offset().0,
                CopyState::Suspended as u32
            );
            let next = format!(
                "ld.global.b32 %r{FUEL}, [%d{CONTROL}+{}];\nbra $L{};\n",
                Word::Slice.offset().0,
                again.unwrap_or(header)
            );
            let saved = self.saved_registers(live);
            let spill = self.new_label();
            self.add_stop(spill, &saved, &next);
        } else {
            let (low, high) = (self.new_word(), self.new_word());
            let (fuel_low, fuel_high) = (Word::FuelLow.offset().0, Word::FuelHigh.offset().0);
            let trap = self.trap_label(TrapKind::TimeLimit);
            let spent = self.new_predicate();
            let after = self.new_label();
            line!(self.out, "$L{after}:");
            let (left, taken) = (self.new_wide(), self.new_wide());
            line!(self.tail, "$L{empty}:");
            line!(self.tail, "ld.global.b32 %r{low}, [%d{CONTROL}+{fuel_low}];");
            line!(self.tail, "ld.global.b32 %r{high}, [%d{CONTROL}+{fuel_high}];");
            line!(self.tail, "mov.b64 %d{left}, {{%r{low},%r{high}}};");
            line!(
                self.tail,
                "setp.eq.s64 %p{spent}, %d{left}, 0;\n@%p{spent} bra $L{trap};"
            );
            line!(self.tail, "min.u64 %d{taken}, %d{left}, {REFILL};");
            line!(self.tail, "sub.s64 %d{left}, %d{left}, %d{taken};");
            line!(self.tail, "mov.b64 {{%r{low},%r{high}}}, %d{left};");
            line!(self.tail, "st.global.b32 [%d{CONTROL}+{fuel_low}], %r{low};");
            line!(self.tail, "st.global.b32 [%d{CONTROL}+{fuel_high}], %r{high};");
            line!(
                self.tail,
                "cvt.u32.u64 %r{low}, %d{taken};\nadd.s32 %r{FUEL}, %r{FUEL}, %r{low};"
            );
            line!(self.tail, "bra $L{after};");
        }
    }

    /// Writes the branch from a loop header to the stops inside the loop, if there may be any.
    pub fn enter_dispatch(&mut self) {
        let (start, end) = (self.index + 1, self.body.ends[self.index] as usize);
        let inside = self.body.live.get(start..end).unwrap_or_default();
        if !self.resumable() || inside.iter().all(Option::is_none) {
            return;
        }
        let (label, predicate) = (self.new_label(), self.new_predicate());
        line!(
            self.out,
            "setp.ne.s32 %p{predicate}, %r{RESUME}, 0;\n@%p{predicate} bra $L{label};"
        );
        self.frame_mut(0).dispatch = Some(Dispatch { label, first: 0 });
    }

    /// Writes the branches from the header of a loop to the stops inside it. The loop has the label `header`.
    pub fn write_dispatch(&mut self, header: u32, dispatch: Dispatch) {
        let targets: Vec<u32> = self.stops[dispatch.first.min(self.stops.len())..]
            .iter()
            .map(|stop| {
                let depth = stop.loops.iter().position(|label| *label == header);
                let inner = depth.and_then(|depth| stop.loops.get(depth + 1));
                inner.copied().unwrap_or(stop.again)
            })
            .collect();
        line!(self.tail, "$L{}:", dispatch.label);
        match targets[..] {
            [] => {
                line!(self.tail, "bra $out;");
                self.uses_out = true;
            }
            [only] => line!(self.tail, "bra $L{only};"),
            _ => {
                let (number, table) = (self.new_word(), self.new_label());
                let first = i64::try_from(dispatch.first).unwrap_or(0) + 1;
                line!(self.tail, "add.s32 %r{number}, %r{RESUME}, -{first};");
                std::mem::swap(&mut self.out, &mut self.tail);
                self.branch_targets(table, &targets);
                std::mem::swap(&mut self.out, &mut self.tail);
                line!(self.tail, "brx.idx %r{number}, $L{table};");
            }
        }
    }

    /// Chooses the locals that all stops of the function save in the same way.
    ///
    /// One copy of the code that saves and restores them is enough if most stops need most of them.
    pub fn choose_shared_locals(&mut self) {
        let stops = || self.body.live.iter().flatten();
        let count = stops().count();
        let sum: usize = stops().map(Vec::len).sum();
        let mut all: Vec<u32> = Vec::new();
        if count < MIN_SHARING_STOPS {
            return;
        }
        let mut seen = vec![false; self.locals.len()];
        for local in stops().flatten() {
            if !std::mem::replace(&mut seen[*local as usize], true) {
                all.push(*local);
            }
        }
        if sum >= all.len().saturating_mul(MIN_SHARING_STOPS / 2) {
            all.sort_unstable();
            let registers: Vec<Source> = all
                .iter()
                .map(|index| &self.locals[*index as usize])
                .map(|local| Self::register(local.ty, local.register))
                .collect();
            self.shared_locals = SharedLocals {
                cells: cells(&registers),
                set: registers.iter().copied().collect(),
                registers,
            };
        }
    }

    /// Writes the spill of a stop at label `spill`, and its resumption: registers are restored, then `again` runs.
    ///
    /// A frame has the registers of the stop, then the shared locals, then the number of the stop.
    pub fn add_stop(&mut self, spill: u32, saved: &[Source], again: &str) {
        let number = self.stops.len();
        let (resume, again_label) = (self.new_label(), self.new_label());
        // The loop of the current instruction, if it is one, begins behind the stop.
        let own = usize::from(matches!(
            self.body.operators.get(self.index),
            Some((Operator::Loop { .. }, _))
        ));
        let open = self.frames.iter().filter(|frame| frame.kind == FrameKind::Loop);
        let mut loops: Vec<u32> = open.map(|frame| frame.label).collect();
        loops.truncate(loops.len().saturating_sub(own));
        let first_label = loops.first().copied();
        self.stops.push(Stop {
            resume,
            again: again_label,
            loops,
        });
        let own: Vec<Source> = saved
            .iter()
            .filter(|source| !self.shared_locals.set.contains(*source))
            .copied()
            .collect();
        let (own_cells, shared_cells) = (cells(&own), self.shared_locals.cells);
        let bytes = 4 * (own_cells + shared_cells + 1);
        let start = self.context.layout.continuation.0 as i64;
        let stride = WORD_STRIDE as i64;
        let capacity = u64::from(self.context.layout.continuation_bytes);
        let used_word = Word::ContinuationBytes.offset().0;
        let used = self.new_word();
        let full = self.new_predicate();
        line!(self.tail, "$L{spill}:");
        if bytes > capacity {
            let trap = self.trap_label(TrapKind::StackExhausted);
            line!(self.tail, "bra $L{trap};");
        }
        // A full stack is a trap without a branch: the frame replaces an older one, and the copy never resumes.
        line!(self.tail, "ld.global.b32 %r{used}, [%d{CONTROL}+{used_word}];");
        line!(self.tail, "add.s32 %r{used}, %r{used}, {bytes};");
        line!(self.tail, "setp.gt.u32 %p{full}, %r{used}, {capacity};");
        for (word, value) in [
            (Word::TrapKind, TrapKind::StackExhausted.code()),
            (Word::TrapOffset, self.offset as u32),
            (Word::TrapFunction, self.function.0),
            (Word::State, CopyState::Trapped as u32),
        ] {
            let value = Source::WordConstant(value);
            line!(
                self.tail,
                "@%p{full} st.global.b32 [%d{CONTROL}+{}], {value};",
                word.offset().0
            );
        }
        line!(self.tail, "min.u32 %r{used}, %r{used}, {capacity};");
        line!(self.tail, "st.global.b32 [%d{CONTROL}+{used_word}], %r{used};");
        // All distances are from the frame's end, which is known at resumption.
        line!(self.tail, "mad.wide.u32 %d{FRAME}, %r{used}, 32, %d{CONTROL};");
        let first = start - (own_cells + shared_cells + 1) as i64 * stride;
        self.save(&own, first);
        line!(self.tail, "st.global.b32 [%d{FRAME}+{}], {number};", start - stride);
        if shared_cells == 0 {
            line!(self.tail, "mov.b32 %r{FUEL}, {SUSPENDED};\nbra $out;");
        } else {
            line!(self.tail, "bra $save;");
        }
        line!(self.tail, "$L{resume}:");
        self.restore(&own, first);
        line!(self.tail, "ld.global.b32 %r{used}, [%d{CONTROL}+{used_word}];");
        line!(self.tail, "add.s32 %r{used}, %r{used}, -{bytes};");
        line!(self.tail, "st.global.b32 [%d{CONTROL}+{used_word}], %r{used};");
        if let Some(first) = first_label {
            line!(self.tail, "mov.b32 %r{RESUME}, {};\nbra $L{first};", number + 1);
            line!(self.tail, "$L{again_label}:\nmov.b32 %r{RESUME}, 0;");
        } else {
            line!(self.tail, "$L{again_label}:\nmov.b32 %r{RESUME}, 0;");
        }
        self.tail.push_str(again);
        self.uses_out = true;
    }

    /// Writes stores of registers to a frame, from the distance `at` on.
    fn save(&mut self, registers: &[Source], mut at: i64) {
        for source in registers {
            if let Source::Wide(_) = source {
                let (low, high) = (self.new_word(), self.new_word());
                line!(self.tail, "mov.b64 {{%r{low},%r{high}}}, {source};");
                line!(self.tail, "st.global.b32 [%d{FRAME}+{at}], %r{low};");
                line!(
                    self.tail,
                    "st.global.b32 [%d{FRAME}+{}], %r{high};",
                    at + WORD_STRIDE as i64
                );
                at += 2 * WORD_STRIDE as i64;
            } else {
                line!(self.tail, "st.global.b32 [%d{FRAME}+{at}], {source};");
                at += WORD_STRIDE as i64;
            }
        }
    }

    /// Writes loads of registers from a frame, from the distance `at` on.
    fn restore(&mut self, registers: &[Source], mut at: i64) {
        for source in registers {
            if let Source::Wide(_) = source {
                let (low, high) = (self.new_word(), self.new_word());
                line!(self.tail, "ld.global.b32 %r{low}, [%d{FRAME}+{at}];");
                line!(
                    self.tail,
                    "ld.global.b32 %r{high}, [%d{FRAME}+{}];",
                    at + WORD_STRIDE as i64
                );
                line!(self.tail, "mov.b64 {source}, {{%r{low},%r{high}}};");
                at += 2 * WORD_STRIDE as i64;
            } else {
                line!(self.tail, "ld.global.b32 {source}, [%d{FRAME}+{at}];");
                at += WORD_STRIDE as i64;
            }
        }
    }

    /// Writes the branch from the entry of a resumed function to its stop.
    pub fn emit_resume(&mut self) {
        if !self.resumable() {
            return;
        }
        self.uses_out = true;
        line!(self.tail, "$resume:");
        let (used, number) = (self.new_word(), self.new_word());
        let top = self.context.layout.continuation.0 - WORD_STRIDE;
        line!(
            self.tail,
            "ld.global.b32 %r{used}, [%d{CONTROL}+{}];",
            Word::ContinuationBytes.offset().0
        );
        line!(self.tail, "mad.wide.u32 %d{FRAME}, %r{used}, 32, %d{CONTROL};");
        line!(self.tail, "ld.global.b32 %r{number}, [%d{FRAME}+{top}];");
        let shared = self.shared_locals.registers.clone();
        let first =
            self.context.layout.continuation.0 as i64 - (self.shared_locals.cells + 1) as i64 * WORD_STRIDE as i64;
        self.restore(&shared, first);
        let labels: Vec<u32> = self.stops.iter().map(|stop| stop.resume).collect();
        match labels[..] {
            [] => line!(self.tail, "mov.b32 %r{FUEL}, {DEAD};\nbra $out;"),
            [only] => line!(self.tail, "bra $L{only};"),
            _ => {
                let table = self.new_label();
                std::mem::swap(&mut self.out, &mut self.tail);
                line!(self.out, "min.u32 %r{number}, %r{number}, {};", labels.len() - 1);
                self.branch_targets(table, &labels);
                line!(self.out, "brx.idx %r{number}, $L{table};");
                std::mem::swap(&mut self.out, &mut self.tail);
            }
        }
        if !shared.is_empty() {
            line!(self.tail, "$save:");
            self.save(&shared, first);
            line!(self.tail, "mov.b32 %r{FUEL}, {SUSPENDED};\nbra $out;");
        }
    }
}

/// Returns the cells of registers in a frame.
fn cells(registers: &[Source]) -> u64 {
    registers
        .iter()
        .map(|source| if matches!(source, Source::Wide(_)) { 2 } else { 1 })
        .sum()
}
