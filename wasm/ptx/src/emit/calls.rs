//! Direct and indirect calls, globals, and the stubs of host functions.

use super::context::Context;
use super::function::FunctionEmitter;
use super::registers::{CONTROL, DEAD, DEPTH, FUEL, SUSPENDED};
use super::signature::{declaration, function_name, return_form, store_slot};
use super::text::{Call, Source, line};
use super::value::{NanBits, Value};
use crate::layout::{CopyState, WORD_STRIDE, Word, argument_offset};
use crate::link::{FunctionKind, SignatureId};
use crate::program::{Signature, TrapKind};
use crate::values::{FunctionId, GlobalId, TableId};

/// Name of the table of function addresses in the text.
pub(crate) const FUNCTION_TABLE: &str = "k_functions";
/// Name of the table of function signatures in the text.
pub(crate) const SIGNATURE_TABLE: &str = "k_signatures";

/// How a call reaches its target.
#[derive(Clone, Copy)]
enum Target {
    Direct(FunctionId),
    /// Signature, and the register with the number of the function plus 1.
    Indirect(SignatureId, u32),
}

/// What a call may do.
#[derive(Clone, Copy, Default)]
struct Effects {
    can_stop: bool,
    resumable: bool,
    may_grow: bool,
}

impl FunctionEmitter<'_> {
    pub fn call(&mut self, function: FunctionId) {
        let facts = self.context.graph.facts(function);
        let effects = Effects {
            can_stop: facts.can_stop,
            resumable: facts.resumable,
            may_grow: facts.may_grow,
        };
        let signature = self.context.linked.signature_of(function).clone();
        self.emit_call(Target::Direct(function), &signature, effects);
    }

    pub fn call_indirect(&mut self, id: SignatureId, table: TableId) {
        let index = self.pop_register();
        let element = self.load_element(table, index);
        let null = self.new_predicate();
        line!(self.out, "setp.eq.s32 %p{null}, %r{element}, 0;");
        self.trap_if(null, false, TrapKind::UninitializedElement);
        // Number 0 of the tables is null: elements are numbers plus 1.
        let (address, signature, wrong) = (self.new_wide(), self.new_word(), self.new_predicate());
        self.shared.function_table = true;
        line!(self.out, "mov.u64 %d{address}, {SIGNATURE_TABLE};");
        line!(self.out, "mad.wide.u32 %d{address}, %r{element}, 4, %d{address};");
        line!(self.out, "ld.global.b32 %r{signature}, [%d{address}];");
        line!(self.out, "setp.ne.s32 %p{wrong}, %r{signature}, {};", id.0);
        self.trap_if(wrong, false, TrapKind::TypeMismatch);
        let graph = self.context.graph;
        let effects = Effects {
            can_stop: graph.any_table_function(id, |facts| facts.can_stop),
            resumable: graph.any_table_function(id, |facts| facts.resumable),
            may_grow: graph.any_table_function(id, |facts| facts.may_grow),
        };
        let signature = self.context.linked.signature(id).clone();
        self.emit_call(Target::Indirect(id, element), &signature, effects);
    }

    fn emit_call(&mut self, target: Target, signature: &Signature, effects: Effects) {
        let mut arguments = vec![Source::WordConstant(0); signature.params.len()];
        for position in (0..arguments.len()).rev() {
            arguments[position] = self.pop_exact();
        }
        let result = signature
            .results
            .first()
            .map(|ty| Self::register(*ty, self.new_register(*ty)));
        if effects.resumable {
            self.settle_predicates();
        }
        let mut text = std::mem::take(&mut self.out);
        self.write_call(&mut text, target, signature, Source::Word(FUEL), &arguments, result);
        self.out = text;
        if effects.resumable {
            let (spill, after) = (self.new_label(), self.new_label());
            let mut text = std::mem::take(&mut self.out);
            self.leave_if_stopped(&mut text, spill);
            self.out = text;
            line!(self.out, "$L{after}:");
            self.resumable_call(target, signature, result, spill, after);
        } else if effects.can_stop {
            let predicate = self.new_predicate();
            line!(
                self.out,
                "setp.lt.s32 %p{predicate}, %r{FUEL}, 0;\n@%p{predicate} bra $out;"
            );
            self.uses_out = true;
        }
        if effects.may_grow {
            self.load_sizes();
        }
        let bits = |ty: crate::values::ValueType| if ty.is_float() { NanBits::Exact } else { NanBits::Plain };
        for (index, ty) in (0u32..).zip(&signature.results) {
            match (index, result) {
                (0, Some(Source::Word(register) | Source::Wide(register))) => {
                    self.push(Value::register(*ty, register, bits(*ty)));
                }
                _ => {
                    let target = self.push_new(*ty, bits(*ty));
                    let slot = argument_offset(index).0;
                    self.load_slot(slot, target);
                }
            }
        }
    }

    /// Loads a 32-bit or 64-bit value from a slot of the copy.
    fn load_slot(&mut self, slot: u64, target: Source) {
        if let Source::Wide(_) = target {
            let (low, high) = (self.new_word(), self.new_word());
            line!(self.out, "ld.global.b32 %r{low}, [%d{CONTROL}+{slot}];");
            line!(
                self.out,
                "ld.global.b32 %r{high}, [%d{CONTROL}+{}];",
                slot + WORD_STRIDE
            );
            line!(self.out, "mov.b64 {target}, {{%r{low},%r{high}}};");
        } else {
            line!(self.out, "ld.global.b32 {target}, [%d{CONTROL}+{slot}];");
        }
    }

    fn write_call(
        &mut self,
        text: &mut String,
        target: Target,
        signature: &Signature,
        fuel: Source,
        arguments: &[Source],
        result: Option<Source>,
    ) {
        let mut list = vec![Source::Wide(CONTROL), fuel, Source::Word(DEPTH)];
        list.extend_from_slice(arguments);
        let form = return_form(signature);
        match target {
            Target::Direct(function) => {
                let name = function_name(function);
                Call {
                    target: &name,
                    prototype: None,
                    arguments: &list,
                    form,
                    status: FUEL,
                    result,
                }
                .write(text);
            }
            Target::Indirect(id, element) => {
                let prototype = self.prototype(id, signature);
                let address = self.new_wide();
                line!(text, "mov.u64 %d{address}, {FUNCTION_TABLE};");
                line!(text, "mad.wide.u32 %d{address}, %r{element}, 8, %d{address};");
                line!(text, "ld.global.b64 %d{address}, [%d{address}];");
                let register = format!("%d{address}");
                Call {
                    target: &register,
                    prototype: Some(&prototype),
                    arguments: &list,
                    form,
                    status: FUEL,
                    result,
                }
                .write(text);
            }
        }
    }

    /// Returns the prototype label of a signature; the header declares it.
    fn prototype(&mut self, id: SignatureId, _signature: &Signature) -> String {
        if !self.prototypes.contains(&id.0) {
            self.prototypes.push(id.0);
        }
        format!("$P{}", id.0)
    }

    /// Registers the stop of a call: spills behind the function, and the call that resumes it.
    fn resumable_call(
        &mut self,
        target: Target,
        signature: &Signature,
        result: Option<Source>,
        spill: u32,
        after: u32,
    ) {
        let live = match self.body.live.get(self.index) {
            Some(Some(live)) => live.clone(),
            _ => Vec::new(),
        };
        let mut saved = self.saved_registers(&live);
        if let Target::Indirect(_, element) = target {
            saved.push(Source::Word(element));
        }
        let zeros: Vec<Source> = signature
            .params
            .iter()
            .map(|ty| {
                if ty.is_wide() {
                    Source::WideConstant(0)
                } else {
                    Source::WordConstant(0)
                }
            })
            .collect();
        let mut again = String::new();
        self.write_call(
            &mut again,
            target,
            signature,
            Source::WordConstant(u32::MAX),
            &zeros,
            result,
        );
        self.leave_if_stopped(&mut again, spill);
        line!(again, "bra $L{after};");
        self.add_stop(spill, &saved, &again);
    }

    /// Writes the branches of a copy that has stopped: a dead one leaves, another one goes to the label `spill`.
    ///
    /// Both paths have no branches of their own: the assembler then lets other threads meet again after loops.
    fn leave_if_stopped(&mut self, text: &mut String, spill: u32) {
        let (dead, stopped) = (self.new_predicate(), self.new_predicate());
        line!(text, "setp.eq.s32 %p{dead}, %r{FUEL}, {DEAD};\n@%p{dead} bra $out;");
        line!(
            text,
            "setp.lt.s32 %p{stopped}, %r{FUEL}, 0;\n@%p{stopped} bra $L{spill};"
        );
        self.uses_out = true;
    }

    pub fn global_get(&mut self, global: GlobalId) {
        let linked = &self.context.linked.globals[global.0 as usize];
        let ty = linked.value_type();
        if let Some(constant) = linked.constant() {
            self.push(Value::constant(ty, constant));
            return;
        }
        let Some(cell) = self.context.layout.global(global) else {
            return;
        };
        let target = self.push_new(ty, if ty.is_float() { NanBits::Exact } else { NanBits::Plain });
        self.load_slot(cell.low.0, target);
    }

    pub fn global_set(&mut self, global: GlobalId) {
        let source = self.pop_exact();
        let Some(cell) = self.context.layout.global(global) else {
            return;
        };
        match cell.high {
            None => line!(self.out, "st.global.b32 [%d{CONTROL}+{}], {source};", cell.low.0),
            Some(_) => self.store_slot(cell.low.0, source),
        }
    }
}

/// Returns the text of a host function: it stores the arguments and stops the copy.
pub(crate) fn emit_host_function(context: &Context<'_>, function: FunctionId) -> String {
    let FunctionKind::Host(host) = context.linked.functions[function.0 as usize].kind else {
        return String::new();
    };
    let terminal = context.linked.host_functions[host as usize].terminal;
    let signature = context.linked.signature_of(function);
    let mut body = String::new();
    let mut next_word = 3;
    line!(body, "ld.param.b64 %d{CONTROL}, [c];\nld.param.b32 %r{FUEL}, [f];");
    if !terminal {
        line!(body, "setp.lt.s32 %p0, %r{FUEL}, 0;\n@%p0 bra $resume;");
    }
    for (index, ty) in (0u32..).zip(&signature.params) {
        let slot = argument_offset(index).0;
        let source = if ty.is_wide() {
            line!(body, "ld.param.b64 %d1, [a{index}];");
            Source::Wide(1)
        } else {
            line!(body, "ld.param.b32 %r1, [a{index}];");
            Source::Word(1)
        };
        store_slot(&mut body, &mut next_word, slot, source);
    }
    let state = if terminal {
        CopyState::Exited
    } else {
        CopyState::Waiting
    };
    line!(
        body,
        "st.global.b32 [%d{CONTROL}+{}], {};",
        Word::State.offset().0,
        state as u32
    );
    line!(
        body,
        "st.global.b32 [%d{CONTROL}+{}], {host};",
        Word::HostFunction.offset().0
    );
    line!(
        body,
        "st.global.b32 [%d{CONTROL}+{}], %r{FUEL};",
        Word::Slice.offset().0
    );
    line!(
        body,
        "st.param.b32 [r], {};\nret;",
        if terminal { DEAD } else { SUSPENDED }
    );
    if !terminal {
        line!(
            body,
            "$resume:\nld.global.b32 %r{FUEL}, [%d{CONTROL}+{}];",
            Word::Slice.offset().0
        );
        line!(body, "st.param.b32 [r], %r{FUEL};");
        let slot = argument_offset(0).0;
        match signature.results.first() {
            None => {}
            Some(ty) if ty.is_wide() => {
                line!(body, "ld.global.b32 %r1, [%d{CONTROL}+{slot}];");
                line!(body, "ld.global.b32 %r2, [%d{CONTROL}+{}];", slot + WORD_STRIDE);
                line!(body, "mov.b64 %d1, {{%r1,%r2}};\nst.param.b64 [r+8], %d1;");
            }
            Some(_) => line!(
                body,
                "ld.global.b32 %r1, [%d{CONTROL}+{slot}];\nst.param.b32 [r+4], %r1;"
            ),
        }
        line!(body, "ret;");
    }
    let mut text = declaration(function, signature);
    line!(
        text,
        "\n{{\n.reg .b32 %r<{next_word}>;\n.reg .b64 %d<2>;\n.reg .pred %p<1>;"
    );
    text.push_str(&body);
    text.push_str("}\n");
    text
}
