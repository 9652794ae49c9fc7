//! Emission of one function: prologue, instructions, epilogue.

use super::body::Body;
use super::branches::remove_empty_branches;
use super::context::{Context, Shared, check_text};
use super::frame::Frame;
use super::region::{Region, is_straight};
use super::registers::{CONTROL, DEAD, DEPTH, FRAME, FUEL, RESUME, TRAP};
use super::signature::{declaration, prototype_declaration, store_slot};
use super::stops::{SharedLocals, Stop};
use super::text::{FloatSource, Source, line};
use super::value::{CANONICAL_F32, CANONICAL_F64, NanBits, Operand, Value};
use crate::error::TranslateError;
use crate::layout::{CopyState, Word, argument_offset};
use crate::limits::MAX_STACK_VALUES;
use crate::link::{FunctionKind, Instance};
use crate::program::{Signature, TrapKind};
use crate::scan::Scan;
use crate::values::{FunctionId, MemoryId, ValueType};

/// Passes over a function before all locals count as set to bits of the program.
const MAX_PASSES: u32 = 4;

/// A local: its type, its register, and what may be assigned to it.
pub(crate) struct Local {
    pub ty: ValueType,
    pub register: u32,
    /// What its NaN bits may be, as assumed by this pass.
    pub bits: NanBits,
    /// What this pass has assigned.
    pub assigned: NanBits,
    /// Indices of the instructions that assign it, ascending.
    pub sets: Vec<u32>,
}

/// Emitter of one function.
pub(crate) struct FunctionEmitter<'a> {
    pub context: &'a Context<'a>,
    pub shared: &'a mut Shared,
    pub function: FunctionId,
    pub instance: &'a Instance,
    pub scan: &'a Scan,
    pub body: &'a Body<'a>,
    pub out: String,
    /// Text behind the function's end: traps, spills, rare paths.
    pub tail: String,
    pub locals: Vec<Local>,
    pub stack: Vec<Value>,
    pub frames: Vec<Frame>,
    /// The current instruction is unreachable.
    pub dead: bool,
    /// Blocks that were opened in unreachable code.
    pub skipped: usize,
    /// Byte offset of the current instruction in the module's file.
    pub offset: u64,
    /// Index of the current instruction.
    pub index: usize,
    pub stops: Vec<Stop>,
    pub region: Region,
    /// Locals that all stops save in the same way.
    pub shared_locals: SharedLocals,
    /// Base address of each memory that the function accesses.
    pub bases: Vec<(MemoryId, u32)>,
    /// Size in bytes of each memory that can grow.
    pub sizes: Vec<(MemoryId, u32)>,
    pub prototypes: Vec<u32>,
    next_word: u32,
    next_wide: u32,
    next_predicate: u32,
    next_label: u32,
    last_trap: Option<(u32, u32)>,
    uses_trap: bool,
    pub uses_out: bool,
}

/// Returns the text of a defined function.
pub(crate) fn emit_function(
    context: &Context<'_>,
    shared: &mut Shared,
    function: FunctionId,
) -> Result<String, TranslateError> {
    let facts = context.graph.facts(function);
    let (FunctionKind::Defined(instance, defined), Some(scan)) =
        (context.linked.functions[function.0 as usize].kind, &facts.scan)
    else {
        return Ok(String::new());
    };
    let instance = context.instance(instance);
    let body = Body::read(
        instance,
        defined,
        context.linked.signature_of(function),
        facts.resumable,
    )?;
    let blocks = shared.blocks.len();
    let mut bits: Vec<NanBits> = vec![NanBits::Plain; body.locals.len()];
    let parameters = context.linked.signature_of(function).params.len();
    bits[..parameters].fill(NanBits::Exact);
    // What a local may hold is found by emission itself: most functions need one pass.
    for pass in 0u32.. {
        shared.blocks.truncate(blocks);
        let mut emitter = FunctionEmitter::new(context, shared, function, instance, scan, &body, &bits);
        let text = emitter.emit()?;
        let mut stable = true;
        for (assumed, local) in bits.iter_mut().zip(&emitter.locals) {
            if local.ty.is_float() && local.assigned > *assumed {
                *assumed = local.assigned;
                stable = false;
            }
        }
        if stable {
            return Ok(text);
        }
        // Long chains of assignments would need a pass for each local.
        if pass > MAX_PASSES {
            bits.fill(NanBits::Exact);
        }
    }
    Ok(String::new())
}

impl<'a> FunctionEmitter<'a> {
    fn new(
        context: &'a Context<'a>,
        shared: &'a mut Shared,
        function: FunctionId,
        instance: &'a Instance,
        scan: &'a Scan,
        body: &'a Body<'a>,
        bits: &[NanBits],
    ) -> Self {
        let mut emitter = Self {
            context,
            shared,
            function,
            instance,
            scan,
            body,
            out: String::new(),
            tail: String::new(),
            locals: Vec::with_capacity(body.locals.len()),
            stack: Vec::new(),
            frames: Vec::new(),
            dead: false,
            skipped: 0,
            offset: 0,
            index: 0,
            stops: Vec::new(),
            region: Region::default(),
            shared_locals: SharedLocals::default(),
            bases: Vec::new(),
            sizes: Vec::new(),
            prototypes: Vec::new(),
            next_word: TRAP + 1,
            next_wide: FRAME + 1,
            next_predicate: 0,
            next_label: 0,
            last_trap: None,
            uses_trap: false,
            uses_out: false,
        };
        for ((ty, bits), sets) in body.locals.iter().zip(bits).zip(&body.sets) {
            let register = emitter.new_register(*ty);
            emitter.locals.push(Local {
                ty: *ty,
                register,
                bits: *bits,
                assigned: NanBits::Plain,
                sets: sets.clone(),
            });
        }
        emitter.choose_shared_locals();
        emitter
    }

    pub fn resumable(&self) -> bool {
        self.context.graph.facts(self.function).resumable
    }

    pub fn new_word(&mut self) -> u32 {
        self.next_word += 1;
        self.next_word - 1
    }

    pub fn new_wide(&mut self) -> u32 {
        self.next_wide += 1;
        self.next_wide - 1
    }

    pub fn new_predicate(&mut self) -> u32 {
        self.next_predicate += 1;
        self.next_predicate - 1
    }

    pub fn new_label(&mut self) -> u32 {
        self.next_label += 1;
        self.next_label - 1
    }

    pub fn new_register(&mut self, ty: ValueType) -> u32 {
        if ty.is_wide() { self.new_wide() } else { self.new_word() }
    }

    /// Returns the register of type `ty` as an operand.
    pub fn register(ty: ValueType, register: u32) -> Source {
        if ty.is_wide() {
            Source::Wide(register)
        } else {
            Source::Word(register)
        }
    }

    pub fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Pushes a new register and returns it as a destination.
    pub fn push_new(&mut self, ty: ValueType, bits: NanBits) -> Source {
        let register = self.new_register(ty);
        self.push(Value::register(ty, register, bits));
        Self::register(ty, register)
    }

    pub fn pop(&mut self) -> Value {
        // Validation guarantees the operands of each instruction.
        self.stack.pop().unwrap_or(Value::constant(ValueType::I32, 0))
    }

    /// Returns a value as operand; a predicate becomes a register.
    pub fn source(&mut self, value: Value) -> Source {
        match value.operand {
            Operand::Register(register) => Self::register(value.ty, register),
            Operand::Local(local) => Self::register(value.ty, self.locals[local as usize].register),
            Operand::Constant(constant) if value.ty.is_wide() => Source::WideConstant(constant),
            Operand::Constant(constant) => Source::WordConstant(constant as u32),
            Operand::Predicate { register, negated } => {
                let word = self.new_word();
                let (yes, no) = if negated { (0, 1) } else { (1, 0) };
                line!(self.out, "selp.b32 %r{word}, {yes}, {no}, %p{register};");
                Source::Word(word)
            }
        }
    }

    /// Returns a value in a register: constants are moved.
    pub fn register_source(&mut self, value: Value) -> Source {
        let source = self.source(value);
        if !source.is_constant() {
            return source;
        }
        let register = Self::register(value.ty, self.new_register(value.ty));
        self.move_to(register, source);
        register
    }

    pub fn pop_source(&mut self) -> Source {
        let value = self.pop();
        self.source(value)
    }

    pub fn pop_register(&mut self) -> Source {
        let value = self.pop();
        self.register_source(value)
    }

    pub fn pop_float(&mut self) -> FloatSource {
        FloatSource(self.pop_source())
    }

    pub fn move_to(&mut self, target: Source, source: Source) {
        if target != source {
            let bits = if matches!(target, Source::Wide(_)) { 64 } else { 32 };
            line!(self.out, "mov.b{bits} {target}, {source};");
        }
    }

    /// Returns the value with the bits of the specification: NaNs of arithmetic become canonical.
    pub fn exact(&mut self, value: Value) -> Value {
        if !value.bits.needs_canonical() {
            return value;
        }
        let source = self.source(value);
        let register = self.new_register(value.ty);
        let target = Self::register(value.ty, register);
        if value.bits == NanBits::Positive {
            line!(self.out, "min.s32 {target}, {source}, 0x{CANONICAL_F32:x};");
        } else {
            let predicate = self.new_predicate();
            let (bits, canonical) = if value.ty.is_wide() {
                (64, CANONICAL_F64)
            } else {
                (32, u64::from(CANONICAL_F32))
            };
            line!(self.out, "setp.nan.f{bits} %p{predicate}, {source}, {source};");
            line!(
                self.out,
                "selp.b{bits} {target}, 0x{canonical:x}, {source}, %p{predicate};"
            );
        }
        Value::register(value.ty, register, NanBits::Plain)
    }

    pub fn pop_exact(&mut self) -> Source {
        let value = self.pop();
        let value = self.exact(value);
        self.source(value)
    }

    /// Returns a value as a condition: a predicate, and whether it is negated.
    pub fn condition(&mut self, value: Value) -> (u32, bool) {
        if let Operand::Predicate { register, negated } = value.operand {
            return (register, negated);
        }
        let source = self.register_source(value);
        let predicate = self.new_predicate();
        line!(self.out, "setp.ne.s32 %p{predicate}, {source}, 0;");
        (predicate, false)
    }

    /// Branches to a trap of `kind` at the current instruction if the predicate holds.
    pub fn trap_if(&mut self, predicate: u32, negated: bool, kind: TrapKind) {
        let label = self.trap_label(kind);
        let not = if negated { "!" } else { "" };
        line!(self.out, "@{not}%p{predicate} bra $L{label};");
    }

    /// Returns the label of a trap of `kind` at the current instruction.
    pub fn trap_label(&mut self, kind: TrapKind) -> u32 {
        let code = self.trap_code(kind);
        if let Some((last, label)) = self.last_trap
            && last == code
        {
            return label;
        }
        let label = self.new_label();
        line!(self.tail, "$L{label}:\nmov.b32 %r{TRAP}, {code};\nbra $trap;");
        self.uses_trap = true;
        self.last_trap = Some((code, label));
        label
    }

    fn trap_code(&self, kind: TrapKind) -> u32 {
        // Modules have at most 2^26 bytes, so that 28 bits hold each offset.
        (self.offset as u32) << 4 | kind.code()
    }

    /// Writes a trap of `kind`, unless `predicate` of a second trap kind holds, to the tail; returns its label.
    pub fn trap_choice(&mut self, kind: TrapKind, other: TrapKind, test: &str) -> u32 {
        let label = self.new_label();
        let predicate = self.new_predicate();
        let (code, other) = (self.trap_code(kind), self.trap_code(other));
        line!(self.tail, "$L{label}:\nmov.b32 %r{TRAP}, {code};");
        line!(self.tail, "{};", test.replace("%PREDICATE", &format!("%p{predicate}")));
        line!(self.tail, "@%p{predicate} mov.b32 %r{TRAP}, {other};\nbra $trap;");
        self.uses_trap = true;
        label
    }

    fn emit(&mut self) -> Result<String, TranslateError> {
        let signature = self.context.linked.signature_of(self.function).clone();
        let label = self.new_label();
        self.frames.push(Frame::function(label, signature.results.clone()));
        self.offset = self.body.operators.first().map_or(0, |(_, offset)| *offset);
        self.prologue(&signature);
        let body = self.body;
        for (index, (operator, offset)) in body.operators.iter().enumerate() {
            self.index = index;
            self.offset = *offset;
            if !is_straight(operator) {
                self.close_region()?;
            }
            self.operator(operator)?;
            if self.stack.len() > MAX_STACK_VALUES {
                return Err(TranslateError::Limit {
                    what: "values on the operand stack",
                    count: self.stack.len() as u64,
                    limit: MAX_STACK_VALUES as u64,
                });
            }
            if index % 256 == 0 {
                check_text(self.context.options, self.out.len() + self.tail.len())?;
            }
        }
        self.finish(&signature);
        check_text(self.context.options, self.out.len() + self.tail.len())?;
        let mut text = self.header(&signature);
        self.out.push_str(&self.tail);
        text.push_str(&remove_empty_branches(&self.out));
        text.push_str("}\n");
        Ok(text)
    }

    fn header(&self, signature: &Signature) -> String {
        let mut text = declaration(self.function, signature);
        text.push_str("\n{\n");
        line!(text, ".reg .b32 %r<{}>;", self.next_word);
        line!(text, ".reg .b64 %d<{}>;", self.next_wide);
        if self.next_predicate > 0 {
            line!(text, ".reg .pred %p<{}>;", self.next_predicate);
        }
        for prototype in &self.prototypes {
            text.push_str(&prototype_declaration(self.context, *prototype));
        }
        text
    }

    fn prologue(&mut self, signature: &Signature) {
        line!(self.out, "ld.param.b64 %d{CONTROL}, [c];");
        line!(self.out, "ld.param.b32 %r{FUEL}, [f];");
        line!(self.out, "ld.param.b32 %r{DEPTH}, [n];");
        for index in 0..signature.params.len() {
            let local = &self.locals[index];
            let bits = if local.ty.is_wide() { 64 } else { 32 };
            line!(
                self.out,
                "ld.param.b{bits} {}, [a{index}];",
                Self::register(local.ty, local.register)
            );
        }
        self.load_bases();
        self.load_sizes();
        let facts = self.context.graph.facts(self.function);
        if facts.recursive {
            line!(self.out, "add.s32 %r{DEPTH}, %r{DEPTH}, -1;");
        }
        if facts.resumable {
            let predicate = self.new_predicate();
            line!(
                self.out,
                "setp.lt.s32 %p{predicate}, %r{FUEL}, 0;\n@%p{predicate} bra $resume;\nmov.b32 %r{RESUME}, 0;"
            );
        }
        if facts.recursive {
            let predicate = self.new_predicate();
            line!(self.out, "setp.lt.s32 %p{predicate}, %r{DEPTH}, 0;");
            self.trap_if(predicate, false, TrapKind::StackExhausted);
        }
        if self.context.options.fuel && !(self.scan.callees.is_empty() && self.scan.indirect.is_empty()) {
            let live = (0..u32::try_from(signature.params.len()).unwrap_or(0)).collect::<Vec<_>>();
            self.burn_fuel(&live, None);
        }
        for local in self.locals.iter().skip(signature.params.len()) {
            let bits = if local.ty.is_wide() { 64 } else { 32 };
            line!(self.out, "mov.b{bits} {}, 0;", Self::register(local.ty, local.register));
        }
        self.count_block();
    }

    fn finish(&mut self, signature: &Signature) {
        if !self.dead {
            let results: Vec<Source> = self.frame_sources(0);
            line!(self.out, "st.param.b32 [r], %r{FUEL};");
            for (index, (source, ty)) in (0u32..).zip(results.iter().zip(&signature.results)) {
                match (index, ty.is_wide()) {
                    (0, false) => line!(self.out, "st.param.b32 [r+4], {source};"),
                    (0, true) => line!(self.out, "st.param.b64 [r+8], {source};"),
                    _ => {
                        let slot = argument_offset(index).0;
                        store_slot(&mut self.out, &mut self.next_word, slot, *source);
                    }
                }
            }
            line!(self.out, "ret;");
        }
        self.emit_resume();
        if self.uses_trap {
            let kind = self.new_word();
            let offset = self.new_word();
            line!(self.tail, "$trap:");
            line!(
                self.tail,
                "and.b32 %r{kind}, %r{TRAP}, 15;\nshr.u32 %r{offset}, %r{TRAP}, 4;"
            );
            for (word, value) in [
                (Word::TrapKind, format!("%r{kind}")),
                (Word::TrapOffset, format!("%r{offset}")),
                (Word::TrapFunction, self.function.0.to_string()),
                (Word::State, (CopyState::Trapped as u32).to_string()),
                (Word::Slice, format!("%r{FUEL}")),
            ] {
                line!(self.tail, "st.global.b32 [%d{CONTROL}+{}], {value};", word.offset().0);
            }
            line!(self.tail, "mov.b32 %r{FUEL}, {DEAD};");
        }
        if self.uses_trap || self.uses_out {
            line!(self.tail, "$out:\nst.param.b32 [r], %r{FUEL};\nret;");
        }
    }

    /// Assigns a local.
    pub fn set_local(&mut self, index: u32, value: Value) {
        let local = &mut self.locals[index as usize];
        let register = local.register;
        local.assigned = local.assigned.max(value.bits);
        self.drop_guards(index);
        let local = &self.locals[index as usize];
        let value = if local.bits == NanBits::Exact {
            self.exact(value)
        } else {
            value
        };
        let target = Self::register(value.ty, register);
        // Values on the stack that are the local keep its old value.
        if self.stack.iter().any(|value| value.operand == Operand::Local(index)) {
            let copy = self.new_register(value.ty);
            self.move_to(Self::register(value.ty, copy), target);
            for value in &mut self.stack {
                if value.operand == Operand::Local(index) {
                    value.operand = Operand::Register(copy);
                }
            }
        }
        match value.operand {
            Operand::Predicate {
                register: predicate,
                negated,
            } => {
                let (yes, no) = if negated { (0, 1) } else { (1, 0) };
                line!(self.out, "selp.b32 %r{register}, {yes}, {no}, %p{predicate};");
            }
            _ => {
                let source = self.source(value);
                self.move_to(target, source);
            }
        }
    }

    /// Pushes a local.
    pub fn get_local(&mut self, index: u32) {
        let local = &self.locals[index as usize];
        let value = Value {
            ty: local.ty,
            operand: Operand::Local(index),
            bits: local.bits,
        };
        self.push(value);
    }

    /// Stores a source to a slot, with registers of this function.
    pub fn store_slot(&mut self, slot: u64, source: Source) {
        store_slot(&mut self.out, &mut self.next_word, slot, source);
    }
}
