//! `memory.size`, `memory.grow`, and the bulk operations on memories.

use super::context::Context;
use super::function::FunctionEmitter;
use super::helpers::Helper;
use super::memory::{Scheme, write_base};
use super::registers::CONTROL;
use super::text::{Call, ReturnForm, Source, line};
use super::value::NanBits;
use crate::layout::{LANES, MemoryRegion, PAGE_BYTES, WORD_STRIDE, Word};
use crate::program::TrapKind;
use crate::values::{MemoryId, ValueType};

impl FunctionEmitter<'_> {
    pub fn memory_size(&mut self, memory: MemoryId) {
        let region = self.context.layout.memories()[memory.0 as usize];
        let target = self.push_new(ValueType::I32, NanBits::Plain);
        if self.context.can_grow(memory) {
            line!(
                self.out,
                "ld.global.b32 {target}, [%d{CONTROL}+{}];",
                region.pages_word.0
            );
        } else {
            self.move_to(target, Source::WordConstant(region.min_pages));
        }
    }

    pub fn memory_grow(&mut self, memory: MemoryId) {
        let pages = self.pop_register();
        let helper = Helper::Grow(memory);
        let name = helper.name();
        self.shared.helpers.insert(Helper::Zero(memory));
        self.shared.helpers.insert(helper);
        let status = self.new_word();
        let result = self.push_new(ValueType::I32, NanBits::Plain);
        Call {
            target: &name,
            prototype: None,
            arguments: &[Source::Wide(CONTROL), pages],
            form: ReturnForm::Word,
            status,
            result: Some(result),
        }
        .write(&mut self.out);
        if self.context.layout.reserved_memory() == Some(memory) {
            let predicate = self.new_predicate();
            line!(self.out, "setp.lt.s32 %p{predicate}, %r{status}, 0;");
            self.trap_if(predicate, false, TrapKind::MemoryReserve);
        }
        self.load_sizes();
    }

    pub fn memory_fill(&mut self, memory: MemoryId) {
        let count = self.pop_register();
        let value = self.pop_register();
        let target = self.pop_register();
        self.bulk_call(Helper::Fill(memory), &[Source::Wide(CONTROL), target, value, count]);
        self.trap_after_bulk(TrapKind::MemoryOutOfBounds);
    }

    pub fn memory_copy(&mut self, to: MemoryId, from: MemoryId) {
        let count = self.pop_register();
        let source = self.pop_register();
        let target = self.pop_register();
        self.bulk_call(Helper::Copy(to, from), &[Source::Wide(CONTROL), target, source, count]);
        self.trap_after_bulk(TrapKind::MemoryOutOfBounds);
    }

    pub fn memory_init(&mut self, data: u32, memory: MemoryId) {
        let count = self.pop_register();
        let source = self.pop_register();
        let target = self.pop_register();
        let instance = self.instance_number();
        let part = self.context.constants.datas[instance][data as usize];
        let length = self.segment_length(self.context.dropped_datas[instance][data as usize], part.count);
        let address = self.constants_address(part.offset);
        self.bulk_call(
            Helper::Init(memory),
            &[Source::Wide(CONTROL), address, length, target, source, count],
        );
        self.trap_after_bulk(TrapKind::MemoryOutOfBounds);
    }

    pub fn data_drop(&mut self, data: u32) {
        let instance = self.instance_number();
        self.drop_segment(self.context.dropped_datas[instance][data as usize]);
    }

    /// Sets the cell of a segment: its length is 0 from now on.
    pub fn drop_segment(&mut self, cell: Option<crate::layout::AreaOffset>) {
        if let Some(cell) = cell {
            line!(self.out, "st.global.b32 [%d{CONTROL}+{}], 1;", cell.0);
        }
    }

    /// Returns the number of the function's instance.
    pub fn instance_number(&self) -> usize {
        match self.context.linked.functions[self.function.0 as usize].kind {
            crate::link::FunctionKind::Defined(instance, _) => instance.0 as usize,
            crate::link::FunctionKind::Host(_) => 0,
        }
    }

    /// Returns the length of a segment: 0 once it is dropped.
    pub fn segment_length(&mut self, cell: Option<crate::layout::AreaOffset>, count: u32) -> Source {
        let length = Source::Word(self.new_word());
        let Some(cell) = cell else {
            self.move_to(length, Source::WordConstant(count));
            return length;
        };
        let predicate = self.new_predicate();
        line!(self.out, "ld.global.b32 {length}, [%d{CONTROL}+{}];", cell.0);
        line!(self.out, "setp.eq.s32 %p{predicate}, {length}, 0;");
        line!(
            self.out,
            "selp.b32 {length}, {}, 0, %p{predicate};",
            Source::WordConstant(count)
        );
        length
    }

    /// Returns the address of a byte of the constants.
    pub fn constants_address(&mut self, offset: u64) -> Source {
        let (low, high) = (self.new_word(), self.new_word());
        let address = self.new_wide();
        line!(
            self.out,
            "ld.global.b32 %r{low}, [%d{CONTROL}+{}];",
            Word::ConstantsLow.offset().0
        );
        line!(
            self.out,
            "ld.global.b32 %r{high}, [%d{CONTROL}+{}];",
            Word::ConstantsHigh.offset().0
        );
        line!(self.out, "mov.b64 %d{address}, {{%r{low},%r{high}}};");
        line!(self.out, "add.s64 %d{address}, %d{address}, {offset};");
        Source::Wide(address)
    }

    /// Calls a helper whose status is 0, or 1 if a range is out of bounds. The status is pushed.
    pub fn bulk_call(&mut self, helper: Helper, arguments: &[Source]) {
        let name = helper.name();
        self.shared.helpers.insert(helper);
        let Source::Word(status) = self.push_new(ValueType::I32, NanBits::Plain) else {
            return;
        };
        Call {
            target: &name,
            prototype: None,
            arguments,
            form: ReturnForm::Status,
            status,
            result: None,
        }
        .write(&mut self.out);
    }

    /// Pops the status of a helper and traps if it is 1.
    pub fn trap_after_bulk(&mut self, kind: TrapKind) {
        let status = self.pop();
        let (predicate, negated) = self.condition(status);
        self.trap_if(predicate, negated, kind);
    }
}

/// Writes the start of a helper with parameters `c` and `names`: control address in %d0, words from %r0 on.
pub(crate) fn open(out: &mut String, name: &str, form: ReturnForm, wides: &[&str], words: &[&str]) {
    let mut list = ".param .b64 c".to_owned();
    for wide in wides {
        list.push_str(&format!(", .param .b64 {wide}"));
    }
    for word in words {
        list.push_str(&format!(", .param .b32 {word}"));
    }
    line!(out, ".func ({}) {name} ({list})\n{{", form.declaration("r"));
    line!(out, ".reg .b32 %r<24>;\n.reg .b64 %d<16>;\n.reg .pred %p<8>;");
    line!(out, "ld.param.b64 %d0, [c];");
    for (index, wide) in wides.iter().enumerate() {
        line!(out, "ld.param.b64 %d{}, [{wide}];", index + 1);
    }
    for (index, word) in words.iter().enumerate() {
        line!(out, "ld.param.b32 %r{index}, [{word}];");
    }
}

/// Writes the exits of a helper: status 0 at `$done`, 1 at `$bad`.
pub(crate) fn close(out: &mut String) {
    line!(
        out,
        "$done:\nst.param.b32 [r], 0;\nret;\n$bad:\nst.param.b32 [r], 1;\nret;\n}}"
    );
}

/// Writes a branch to `$bad` unless `start` plus `count` is at most `limit`; `limit` is a register of 64 bits.
pub(crate) fn check_range(out: &mut String, start: u32, count: u32, limit: u32) {
    line!(
        out,
        "cvt.u64.u32 %d14, %r{start};\ncvt.u64.u32 %d15, %r{count};\nadd.s64 %d14, %d14, %d15;"
    );
    line!(out, "setp.gt.u64 %p7, %d14, %d{limit};\n@%p7 bra $bad;");
}

/// Writes the size of a memory in bytes to `%d{target}`.
fn write_size(out: &mut String, region: &MemoryRegion, target: u32) {
    line!(out, "ld.global.b32 %r23, [%d0+{}];", region.pages_word.0);
    line!(out, "mul.wide.u32 %d{target}, %r23, {PAGE_BYTES};");
}

fn region(context: &Context<'_>, memory: MemoryId) -> MemoryRegion {
    context.layout.memories()[memory.0 as usize]
}

/// Emits `zero(control, first page, page behind the last)`.
pub(crate) fn emit_zero(context: &Context<'_>, name: &str, memory: MemoryId) -> String {
    let mut out = String::new();
    let region = region(context, memory);
    let scheme = Scheme::new(&region);
    open(&mut out, name, ReturnForm::Status, &[], &["a", "b"]);
    write_base(&mut out, &region, 1, 22);
    let page = scheme.distance(PAGE_BYTES);
    line!(out, "mul.wide.u32 %d2, %r0, {page};\nadd.s64 %d2, %d2, %d1;");
    line!(out, "mul.wide.u32 %d3, %r1, {page};\nadd.s64 %d3, %d3, %d1;");
    line!(out, "mov.b32 %r2, 0;\nmov.b64 %d4, 0;");
    line!(out, "$next:\nsetp.ge.u64 %p0, %d2, %d3;\n@%p0 bra $done;");
    // Four cells a turn: a page is a multiple of them.
    let unit = if scheme.cell == 0 { 16 } else { u64::from(scheme.cell) };
    let step = scheme.distance(unit);
    for cell in 0..4 {
        let at = cell * step;
        match unit {
            4 => line!(out, "st.global.b32 [%d2+{at}], %r2;"),
            8 => line!(out, "st.global.b64 [%d2+{at}], %d4;"),
            _ => line!(out, "st.global.v2.b64 [%d2+{at}], {{%d4,%d4}};"),
        }
    }
    line!(out, "add.s64 %d2, %d2, {};\nbra $next;", 4 * step);
    close(&mut out);
    out
}

/// Emits `grow(control, pages)`: the value is the old size, or -1. The status is -1 if the reserve is too small.
pub(crate) fn emit_grow(context: &Context<'_>, name: &str, memory: MemoryId) -> String {
    let mut out = String::new();
    let region = region(context, memory);
    open(&mut out, name, ReturnForm::Word, &[], &["a"]);
    line!(out, "ld.global.b32 %r1, [%d0+{}];", region.pages_word.0);
    line!(out, "sub.s32 %r2, {}, %r1;", region.max_pages);
    line!(out, "setp.gt.u32 %p0, %r0, %r2;\n@%p0 bra $bad;");
    line!(out, "add.s32 %r3, %r1, %r0;");
    let is_late = context.layout.reserved_memory() == Some(memory);
    if is_late {
        line!(out, "ld.global.b32 %r2, [%d0+{}];", Word::ReservePages.offset().0);
        line!(out, "setp.gt.u32 %p1, %r3, %r2;\n@%p1 bra $more;");
    }
    Call {
        target: &Helper::Zero(memory).name(),
        prototype: None,
        arguments: &[Source::Wide(0), Source::Word(1), Source::Word(3)],
        form: ReturnForm::Status,
        status: 4,
        result: None,
    }
    .write(&mut out);
    line!(out, "st.global.b32 [%d0+{}], %r3;", region.pages_word.0);
    line!(out, "st.param.b32 [r+4], %r1;\nbra $done;");
    line!(out, "$done:\nst.param.b32 [r], 0;\nret;");
    if is_late {
        line!(out, "$more:\nst.param.b32 [r], -1;\nst.param.b32 [r+4], -1;\nret;");
    }
    line!(out, "$bad:\nst.param.b32 [r], 0;\nst.param.b32 [r+4], -1;\nret;\n}}");
    out
}

/// Emits `fill(control, target, value, count)`.
pub(crate) fn emit_fill(context: &Context<'_>, name: &str, memory: MemoryId) -> String {
    let mut out = String::new();
    let region = region(context, memory);
    let scheme = Scheme::new(&region);
    open(&mut out, name, ReturnForm::Status, &[], &["d", "v", "n"]);
    write_base(&mut out, &region, 1, 22);
    write_size(&mut out, &region, 2);
    check_range(&mut out, 0, 2, 2);
    line!(
        out,
        "and.b32 %r1, %r1, 255;\nmul.lo.u32 %r1, %r1, 0x01010101;\nmov.b64 %d8, {{%r1,%r1}};"
    );
    line!(out, "$next:\nsetp.eq.s32 %p0, %r2, 0;\n@%p0 bra $done;");
    if let Some(batch) = Batch::new(scheme) {
        batch.enter(&mut out, "%r0", 2);
        line!(out, "mad.wide.u32 %d3, %r0, {LANES}, %d1;\n$more:");
        for cell in 0..batch.cells {
            let at = batch.distance(cell);
            match batch.cell {
                4 => line!(out, "st.global.b32 [%d3+{at}], %r1;"),
                8 => line!(out, "st.global.b64 [%d3+{at}], %d8;"),
                _ => line!(out, "st.global.v2.b64 [%d3+{at}], {{%d8,%d8}};"),
            }
        }
        line!(
            out,
            "add.s64 %d3, %d3, {};\nadd.s32 %r0, %r0, {};",
            batch.distance(batch.cells),
            batch.bytes()
        );
        batch.leave(&mut out, 2);
    }
    line!(
        out,
        "and.b32 %r3, %r0, 3;\nsetp.ne.s32 %p1, %r3, 0;\nsetp.lt.or.u32 %p1, %r2, 4, %p1;"
    );
    line!(out, "@!%p1 bra $words;");
    scheme.write_address(&mut out, 3, 1, Source::Word(0), 1, 4);
    line!(
        out,
        "st.global.b8 [%d3], %r1;\nadd.s32 %r0, %r0, 1;\nadd.s32 %r2, %r2, -1;\nbra $next;"
    );
    line!(out, "$words:");
    scheme.write_address(&mut out, 3, 1, Source::Word(0), 4, 4);
    line!(
        out,
        "st.global.b32 [%d3], %r1;\nadd.s32 %r0, %r0, 4;\nadd.s32 %r2, %r2, -4;"
    );
    repeat_words(&mut out, scheme);
    close(&mut out);
    out
}

/// Cells that a helper moves in one turn of its fast loop.
#[derive(Clone, Copy)]
struct Batch {
    cell: u32,
    cells: u32,
}

impl Batch {
    /// Returns the batch of an interleaved memory.
    fn new(scheme: Scheme) -> Option<Self> {
        (scheme.cell > 0).then_some(Self {
            cell: scheme.cell,
            cells: if scheme.cell == 16 { 2 } else { 4 },
        })
    }

    fn bytes(self) -> u32 {
        self.cell * self.cells
    }

    /// Returns the distance of a cell of the batch from the first one in the area.
    fn distance(self, cell: u32) -> u32 {
        cell * self.cell * LANES
    }

    /// Writes the branch past the fast loop, unless the bits of `addresses` and the count `%r{count}` allow it.
    fn enter(self, out: &mut String, addresses: &str, count: u32) {
        line!(
            out,
            "and.b32 %r3, {addresses}, {};\nsetp.ne.s32 %p1, %r3, 0;",
            self.cell - 1
        );
        line!(
            out,
            "setp.lt.or.u32 %p1, %r{count}, {}, %p1;\n@%p1 bra $small;",
            self.bytes()
        );
    }

    /// Writes the end of the fast loop, which starts at `$more`, and the start of the slow one.
    fn leave(self, out: &mut String, count: u32) {
        let bytes = self.bytes();
        line!(
            out,
            "add.s32 %r{count}, %r{count}, -{bytes};\nsetp.ge.u32 %p2, %r{count}, {bytes};"
        );
        line!(out, "@%p2 bra $more;\nbra $next;\n$small:");
    }
}

/// Writes the fast loop of a forward copy between memories with the same cells.
fn copy_batches(out: &mut String, batch: Batch) {
    line!(out, "or.b32 %r3, %r0, %r1;");
    batch.enter(out, "%r3", 2);
    line!(
        out,
        "mad.wide.u32 %d3, %r0, {LANES}, %d1;\nmad.wide.u32 %d4, %r1, {LANES}, %d2;\n$more:"
    );
    // All loads precede all stores: a target below an overlapping source loses nothing.
    for (space, base) in [("ld", 4), ("st", 3)] {
        for cell in 0..batch.cells {
            let place = format!("[%d{base}+{}]", batch.distance(cell));
            let (form, value) = match batch.cell {
                4 => ("b32", format!("%r{}", 16 + cell)),
                8 => ("b64", format!("%d{}", 8 + cell)),
                _ => ("v2.b64", format!("{{%d{},%d{}}}", 8 + 2 * cell, 9 + 2 * cell)),
            };
            let (first, second) = if space == "ld" { (value, place) } else { (place, value) };
            line!(out, "{space}.global.{form} {first}, {second};");
        }
    }
    let step = batch.distance(batch.cells);
    line!(out, "add.s64 %d3, %d3, {step};\nadd.s64 %d4, %d4, {step};");
    line!(out, "add.s32 %r0, %r0, {0};\nadd.s32 %r1, %r1, {0};", batch.bytes());
    batch.leave(out, 2);
}

/// Writes the end of a loop over words.
///
/// In larger cells the next word may be at the start of a cell, where the fast loop can begin.
fn repeat_words(out: &mut String, scheme: Scheme) {
    if scheme.cell <= 4 {
        line!(out, "setp.ge.u32 %p2, %r2, 4;\n@%p2 bra $words;");
    }
    line!(out, "bra $next;");
}

/// Writes a copy of one unit of `bytes` bytes, from `%r{from}` to `%r{to}`.
fn copy_unit(out: &mut String, schemes: (Scheme, Scheme), to: u32, from: u32, bytes: u32) {
    let form = if bytes == 1 { "u8" } else { "b32" };
    schemes.1.write_address(out, 4, 2, Source::Word(from), bytes, 21);
    line!(out, "ld.global.{form} %r20, [%d4];");
    schemes.0.write_address(out, 3, 1, Source::Word(to), bytes, 21);
    line!(out, "st.global.b{} [%d3], %r20;", bytes * 8);
}

/// Emits `copy(control, target, source, count)`: bytes as if through a buffer.
pub(crate) fn emit_copy(context: &Context<'_>, name: &str, to: MemoryId, from: MemoryId) -> String {
    let mut out = String::new();
    let (to_region, from_region) = (region(context, to), region(context, from));
    let schemes = (Scheme::new(&to_region), Scheme::new(&from_region));
    open(&mut out, name, ReturnForm::Status, &[], &["d", "s", "n"]);
    write_base(&mut out, &to_region, 1, 22);
    write_base(&mut out, &from_region, 2, 22);
    write_size(&mut out, &to_region, 5);
    write_size(&mut out, &from_region, 6);
    check_range(&mut out, 0, 2, 5);
    check_range(&mut out, 1, 2, 6);
    if to == from {
        // Backward if the target overlaps the end of the source.
        line!(
            out,
            "sub.s32 %r3, %r0, %r1;\nsetp.lt.u32 %p0, %r3, %r2;\n@%p0 bra $backward;"
        );
    }
    line!(out, "$next:\nsetp.eq.s32 %p0, %r2, 0;\n@%p0 bra $done;");
    if let (Some(batch), true) = (Batch::new(schemes.0), schemes.0 == schemes.1) {
        copy_batches(&mut out, batch);
    }
    line!(
        out,
        "or.b32 %r3, %r0, %r1;\nand.b32 %r3, %r3, 3;\nsetp.ne.s32 %p1, %r3, 0;"
    );
    line!(out, "setp.lt.or.u32 %p1, %r2, 4, %p1;\n@!%p1 bra $words;");
    copy_unit(&mut out, schemes, 0, 1, 1);
    line!(
        out,
        "add.s32 %r0, %r0, 1;\nadd.s32 %r1, %r1, 1;\nadd.s32 %r2, %r2, -1;\nbra $next;"
    );
    line!(out, "$words:");
    copy_unit(&mut out, schemes, 0, 1, 4);
    line!(out, "add.s32 %r0, %r0, 4;\nadd.s32 %r1, %r1, 4;\nadd.s32 %r2, %r2, -4;");
    repeat_words(&mut out, schemes.0);
    if to == from {
        // %r4 and %r5 are the ends of what is left.
        line!(out, "$backward:\nadd.s32 %r4, %r0, %r2;\nadd.s32 %r5, %r1, %r2;");
        line!(out, "$before:\nsetp.eq.s32 %p0, %r2, 0;\n@%p0 bra $done;");
        line!(
            out,
            "or.b32 %r3, %r4, %r5;\nand.b32 %r3, %r3, 3;\nsetp.ne.s32 %p1, %r3, 0;"
        );
        line!(out, "setp.lt.or.u32 %p1, %r2, 4, %p1;\n@!%p1 bra $words_before;");
        line!(
            out,
            "add.s32 %r4, %r4, -1;\nadd.s32 %r5, %r5, -1;\nadd.s32 %r2, %r2, -1;"
        );
        copy_unit(&mut out, schemes, 4, 5, 1);
        line!(out, "bra $before;\n$words_before:");
        line!(
            out,
            "add.s32 %r4, %r4, -4;\nadd.s32 %r5, %r5, -4;\nadd.s32 %r2, %r2, -4;"
        );
        copy_unit(&mut out, schemes, 4, 5, 4);
        line!(out, "setp.ge.u32 %p2, %r2, 4;\n@%p2 bra $words_before;\nbra $before;");
    }
    close(&mut out);
    out
}

/// Emits `init(control, segment, length, target, source, count)`.
pub(crate) fn emit_init(context: &Context<'_>, name: &str, memory: MemoryId) -> String {
    let mut out = String::new();
    let region = region(context, memory);
    let scheme = Scheme::new(&region);
    open(&mut out, name, ReturnForm::Status, &["p"], &["l", "d", "s", "n"]);
    write_base(&mut out, &region, 2, 22);
    write_size(&mut out, &region, 5);
    line!(out, "cvt.u64.u32 %d6, %r0;");
    check_range(&mut out, 1, 3, 5);
    check_range(&mut out, 2, 3, 6);
    line!(out, "mad.wide.u32 %d7, %r2, 1, %d1;");
    line!(out, "$next:\nsetp.eq.s32 %p0, %r3, 0;\n@%p0 bra $done;");
    // Segments start at multiples of 16.
    line!(
        out,
        "or.b32 %r4, %r1, %r2;\nand.b32 %r4, %r4, 3;\nsetp.ne.s32 %p1, %r4, 0;"
    );
    line!(out, "setp.lt.or.u32 %p1, %r3, 4, %p1;\n@!%p1 bra $words;");
    line!(out, "ld.global.u8 %r20, [%d7];");
    scheme.write_address(&mut out, 3, 2, Source::Word(1), 1, 21);
    line!(out, "st.global.b8 [%d3], %r20;\nadd.s64 %d7, %d7, 1;");
    line!(
        out,
        "add.s32 %r1, %r1, 1;\nadd.s32 %r2, %r2, 1;\nadd.s32 %r3, %r3, -1;\nbra $next;"
    );
    line!(out, "$words:\nld.global.b32 %r20, [%d7];");
    scheme.write_address(&mut out, 3, 2, Source::Word(1), 4, 21);
    line!(out, "st.global.b32 [%d3], %r20;\nadd.s64 %d7, %d7, 4;");
    line!(out, "add.s32 %r1, %r1, 4;\nadd.s32 %r2, %r2, 4;\nadd.s32 %r3, %r3, -4;");
    line!(out, "setp.ge.u32 %p2, %r3, 4;\n@%p2 bra $words;\nbra $next;");
    close(&mut out);
    out
}

/// Bytes between two elements of a table in the area.
pub(crate) const ELEMENT_STRIDE: u64 = WORD_STRIDE;
