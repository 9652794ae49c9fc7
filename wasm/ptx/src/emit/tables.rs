//! Tables: `table.init`, `table.copy`, and the loads of indirect calls.

use super::bulk::{ELEMENT_STRIDE, check_range, close, open};
use super::context::Context;
use super::function::FunctionEmitter;
use super::helpers::Helper;
use super::registers::CONTROL;
use super::text::{ReturnForm, Source, line};
use crate::program::TrapKind;
use crate::values::TableId;

impl FunctionEmitter<'_> {
    /// Loads an element of a table: 0 for null, or the number of a function plus 1. Traps if there is no such element.
    pub fn load_element(&mut self, table: TableId, index: Source) -> u32 {
        let count = self.context.constants.tables[table.0 as usize].count;
        let element = self.new_word();
        let predicate = self.new_predicate();
        line!(self.out, "setp.ge.u32 %p{predicate}, {index}, {count};");
        self.trap_if(predicate, false, TrapKind::UndefinedElement);
        let address = self.new_wide();
        match self.context.layout.table(table) {
            Some(region) => {
                line!(
                    self.out,
                    "mad.wide.u32 %d{address}, {index}, {ELEMENT_STRIDE}, %d{CONTROL};"
                );
                line!(self.out, "ld.global.b32 %r{element}, [%d{address}+{}];", region.start.0);
            }
            None => {
                let part = self.context.constants.tables[table.0 as usize];
                let Source::Wide(start) = self.constants_address(part.offset) else {
                    return element;
                };
                line!(self.out, "mad.wide.u32 %d{address}, {index}, 4, %d{start};");
                line!(self.out, "ld.global.b32 %r{element}, [%d{address}];");
            }
        }
        element
    }

    pub fn table_init(&mut self, segment: u32, table: TableId) {
        let count = self.pop_register();
        let source = self.pop_register();
        let target = self.pop_register();
        let instance = self.instance_number();
        let part = self.context.constants.elements[instance][segment as usize];
        let length = self.segment_length(self.context.dropped_elements[instance][segment as usize], part.count);
        let address = self.constants_address(part.offset);
        self.bulk_call(
            Helper::TableInit(table),
            &[Source::Wide(CONTROL), address, length, target, source, count],
        );
        self.trap_after_bulk(TrapKind::TableOutOfBounds);
    }

    pub fn element_drop(&mut self, segment: u32) {
        let instance = self.instance_number();
        self.drop_segment(self.context.dropped_elements[instance][segment as usize]);
    }

    pub fn table_copy(&mut self, to: TableId, from: TableId) {
        let count = self.pop_register();
        let source = self.pop_register();
        let target = self.pop_register();
        self.bulk_call(
            Helper::TableCopy(to, from),
            &[Source::Wide(CONTROL), target, source, count],
        );
        self.trap_after_bulk(TrapKind::TableOutOfBounds);
    }
}

/// Returns where a table starts in the area; tables that an instruction changes are always there.
fn start(context: &Context<'_>, table: TableId) -> u64 {
    context.layout.table(table).map_or(0, |region| region.start.0)
}

/// Emits `copy(control, target, source, count)` for tables.
pub(crate) fn emit_copy(context: &Context<'_>, name: &str, to: TableId, from: TableId) -> String {
    let mut out = String::new();
    open(&mut out, name, ReturnForm::Status, &[], &["d", "s", "n"]);
    line!(out, "mov.b64 %d5, {};", context.constants.tables[to.0 as usize].count);
    line!(out, "mov.b64 %d6, {};", context.constants.tables[from.0 as usize].count);
    check_range(&mut out, 0, 2, 5);
    check_range(&mut out, 1, 2, 6);
    line!(out, "mov.b32 %r3, 1;");
    // Backward if the target overlaps the end of the source.
    line!(out, "setp.gt.u32 %p0, %r0, %r1;\n@!%p0 bra $next;");
    line!(out, "mov.b32 %r3, -1;\nadd.s32 %r0, %r0, %r2;\nadd.s32 %r0, %r0, -1;");
    line!(out, "add.s32 %r1, %r1, %r2;\nadd.s32 %r1, %r1, -1;");
    line!(out, "$next:\nsetp.eq.s32 %p0, %r2, 0;\n@%p0 bra $done;");
    line!(out, "mad.wide.u32 %d1, %r1, {ELEMENT_STRIDE}, %d0;");
    line!(out, "ld.global.b32 %r4, [%d1+{}];", start(context, from));
    line!(out, "mad.wide.u32 %d1, %r0, {ELEMENT_STRIDE}, %d0;");
    line!(out, "st.global.b32 [%d1+{}], %r4;", start(context, to));
    line!(
        out,
        "add.s32 %r0, %r0, %r3;\nadd.s32 %r1, %r1, %r3;\nadd.s32 %r2, %r2, -1;\nbra $next;"
    );
    close(&mut out);
    out
}

/// Emits `init(control, segment, length, target, source, count)` for a table.
pub(crate) fn emit_init(context: &Context<'_>, name: &str, table: TableId) -> String {
    let mut out = String::new();
    open(&mut out, name, ReturnForm::Status, &["p"], &["l", "d", "s", "n"]);
    line!(
        out,
        "mov.b64 %d5, {};",
        context.constants.tables[table.0 as usize].count
    );
    line!(out, "cvt.u64.u32 %d6, %r0;");
    check_range(&mut out, 1, 3, 5);
    check_range(&mut out, 2, 3, 6);
    line!(out, "mad.wide.u32 %d2, %r2, 4, %d1;");
    line!(out, "$next:\nsetp.eq.s32 %p0, %r3, 0;\n@%p0 bra $done;");
    line!(out, "ld.global.b32 %r4, [%d2];");
    line!(out, "mad.wide.u32 %d3, %r1, {ELEMENT_STRIDE}, %d0;");
    line!(out, "st.global.b32 [%d3+{}], %r4;", start(context, table));
    line!(
        out,
        "add.s64 %d2, %d2, 4;\nadd.s32 %r1, %r1, 1;\nadd.s32 %r3, %r3, -1;\nbra $next;"
    );
    close(&mut out);
    out
}
