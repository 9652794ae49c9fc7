//! Instantiation: one PTX function for each instance, then the start functions.

use super::bulk::ELEMENT_STRIDE;
use super::context::{Context, Shared, check_text};
use super::helpers::Helper;
use super::registers::DEAD;
use super::text::{Call, ReturnForm, Source, line};
use crate::error::TranslateError;
use crate::layout::{CopyState, NO_FUNCTION, WORD_STRIDE, Word};
use crate::options::Placement;
use crate::program::TrapKind;
use crate::values::{FunctionId, InstanceId};

/// A step of the instantiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Memories, globals, tables and segments of an instance.
    Instantiate(InstanceId),
    /// A start function.
    Start(FunctionId),
}

/// Returns the steps of all instances in order. `late_starts` moves the start functions to the end.
pub(crate) fn list(linked: &crate::link::Linked, late_starts: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut starts = Vec::new();
    for (index, instance) in (0u32..).zip(&linked.instances) {
        steps.push(Step::Instantiate(InstanceId(index)));
        if let Some(start) = instance.module.start {
            let list = if late_starts { &mut starts } else { &mut steps };
            list.push(Step::Start(instance.functions[start as usize]));
        }
    }
    steps.append(&mut starts);
    steps
}

/// Returns the name of the PTX function that instantiates an instance.
pub(crate) fn name(instance: InstanceId) -> String {
    format!("i{}", instance.0)
}

/// Writes the functions that instantiate, and returns the steps.
pub(crate) fn emit(context: &Context<'_>, shared: &mut Shared, out: &mut String) -> Result<Vec<Step>, TranslateError> {
    for index in (0u32..).take(context.linked.instances.len()) {
        let mut writer = Writer {
            context,
            shared,
            id: InstanceId(index),
            out: String::new(),
            labels: 0,
        };
        writer.emit();
        out.push_str(&writer.out);
        check_text(context.options, out.len())?;
    }
    Ok(list(context.linked, context.options.late_starts))
}

struct Writer<'a> {
    context: &'a Context<'a>,
    shared: &'a mut Shared,
    id: InstanceId,
    out: String,
    labels: u32,
}

impl Writer<'_> {
    fn emit(&mut self) {
        line!(self.out, ".func (.param .b32 r) {} (.param .b64 c)\n{{", name(self.id));
        line!(
            self.out,
            ".reg .b32 %r<6>;\n.reg .b64 %d<4>;\n.reg .pred %p<2>;\nld.param.b64 %d0, [c];"
        );
        line!(self.out, "ld.global.b32 %r1, [%d0+{}];", Word::ConstantsLow.offset().0);
        line!(self.out, "ld.global.b32 %r2, [%d0+{}];", Word::ConstantsHigh.offset().0);
        line!(self.out, "mov.b64 %d1, {{%r1,%r2}};");
        self.memories();
        self.globals();
        self.segment_flags();
        let alive = self.tables();
        if alive {
            self.datas();
        }
        line!(self.out, "mov.b32 %r0, 0;\nst.param.b32 [r], %r0;\nret;");
        line!(self.out, "$trap:");
        for (word, value) in [
            (Word::TrapKind, "%r3".to_owned()),
            (Word::TrapOffset, "%r4".to_owned()),
            (Word::TrapFunction, Source::WordConstant(NO_FUNCTION).to_string()),
            (Word::State, (CopyState::Trapped as u32).to_string()),
        ] {
            line!(self.out, "st.global.b32 [%d0+{}], {value};", word.offset().0);
        }
        line!(self.out, "mov.b32 %r0, {DEAD};\nst.param.b32 [r], %r0;\nret;\n}}");
    }

    fn memories(&mut self) {
        for (index, memory) in (0u32..).zip(&self.context.linked.memories) {
            if memory.instance != self.id {
                continue;
            }
            let region = self.context.layout.memories()[index as usize];
            line!(
                self.out,
                "st.global.b32 [%d0+{}], {};",
                region.pages_word.0,
                region.min_pages
            );
            // The host has filled a contiguous memory before the first launch.
            if region.min_pages > 0 && region.placement == Placement::Interleaved {
                let id = crate::values::MemoryId(index);
                let arguments = [
                    Source::Wide(0),
                    Source::WordConstant(0),
                    Source::WordConstant(region.min_pages),
                ];
                self.call(Helper::Zero(id), &arguments);
            }
        }
    }

    fn globals(&mut self) {
        for (index, global) in self.context.linked.globals.iter().enumerate() {
            if global.instance != self.id {
                continue;
            }
            if let Some(cell) = self.context.layout.globals[index] {
                line!(
                    self.out,
                    "st.global.b32 [%d0+{}], {};",
                    cell.low.0,
                    Source::WordConstant(global.value as u32)
                );
                if let Some(high) = cell.high {
                    let value = Source::WordConstant((global.value >> 32) as u32);
                    line!(self.out, "st.global.b32 [%d0+{}], {value};", high.0);
                }
            }
        }
    }

    /// Active and declared segments are dropped from the start.
    fn segment_flags(&mut self) {
        let instance = self.context.instance(self.id);
        let number = self.id.0 as usize;
        let datas = instance.module.datas.iter().map(|data| data.active.is_some());
        let elements = instance
            .module
            .elements
            .iter()
            .map(|element| element.active.is_some() || element.declared);
        let cells = self.context.dropped_datas[number].iter().zip(datas);
        let cells = cells.chain(self.context.dropped_elements[number].iter().zip(elements));
        for (cell, dropped) in cells {
            if let Some(cell) = cell {
                line!(self.out, "st.global.b32 [%d0+{}], {};", cell.0, u32::from(dropped));
            }
        }
    }

    /// Returns false if an element segment is out of bounds: instantiation ends there.
    fn tables(&mut self) -> bool {
        for (index, table) in self.context.linked.tables.iter().enumerate() {
            let Some(region) = self.context.layout.tables[index] else {
                continue;
            };
            if table.instance == self.id && region.elements > 0 {
                let label = self.labels;
                self.labels += 1;
                line!(self.out, "mov.b32 %r5, 0;\nadd.s64 %d2, %d0, {};", region.start.0);
                line!(
                    self.out,
                    "$zero{label}:\nst.global.b32 [%d2], 0;\nadd.s64 %d2, %d2, {WORD_STRIDE};"
                );
                line!(
                    self.out,
                    "add.s32 %r5, %r5, 1;\nsetp.lt.u32 %p0, %r5, {};",
                    region.elements
                );
                line!(self.out, "@%p0 bra $zero{label};");
            }
        }
        let instance = self.context.instance(self.id);
        for (index, element) in instance.module.elements.iter().enumerate() {
            let Some((table, offset)) = element.active else {
                continue;
            };
            let table = instance.tables[table as usize];
            let start = self.context.linked.evaluate(&instance.globals, offset) as u32;
            let part = self.context.constants.elements[self.id.0 as usize][index];
            let count = self.context.constants.tables[table.0 as usize].count;
            if u64::from(start) + u64::from(part.count) > u64::from(count) {
                self.trap(TrapKind::TableOutOfBounds, element.offset);
                return false;
            }
            if self.context.layout.table(table).is_some() {
                self.init(Helper::TableInit(table), part, start);
            }
        }
        true
    }

    fn datas(&mut self) {
        let instance = self.context.instance(self.id);
        for (index, data) in instance.module.datas.iter().enumerate() {
            let Some((memory, offset)) = data.active else { continue };
            let memory = instance.memories[memory as usize];
            let start = self.context.linked.evaluate(&instance.globals, offset) as u32;
            let part = self.context.constants.datas[self.id.0 as usize][index];
            self.init(Helper::Init(memory), part, start);
            let label = self.labels;
            self.labels += 1;
            line!(self.out, "setp.eq.s32 %p0, %r0, 0;\n@%p0 bra $next{label};");
            self.trap(TrapKind::MemoryOutOfBounds, data.offset);
            line!(self.out, "$next{label}:");
        }
    }

    fn trap(&mut self, kind: TrapKind, offset: u64) {
        line!(
            self.out,
            "mov.b32 %r3, {};\nmov.b32 %r4, {};\nbra $trap;",
            kind.code(),
            offset as u32
        );
    }

    fn init(&mut self, helper: Helper, part: crate::constants::Part, start: u32) {
        line!(self.out, "add.s64 %d2, %d1, {};", part.offset);
        let count = Source::WordConstant(part.count);
        let arguments = [
            Source::Wide(0),
            Source::Wide(2),
            count,
            Source::WordConstant(start),
            Source::WordConstant(0),
            count,
        ];
        self.call(helper, &arguments);
    }

    fn call(&mut self, helper: Helper, arguments: &[Source]) {
        let name = helper.name();
        self.shared.helpers.insert(helper);
        Call {
            target: &name,
            prototype: None,
            arguments,
            form: ReturnForm::Status,
            status: 0,
            result: None,
        }
        .write(&mut self.out);
    }
}

/// Bytes between two elements, which the zero loop of tables steps by.
const _: () = assert!(ELEMENT_STRIDE == WORD_STRIDE);
