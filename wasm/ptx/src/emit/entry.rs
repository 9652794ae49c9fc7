//! The text as a whole: declarations, tables, functions, instantiation steps, and the kernel.

use super::calls::{FUNCTION_TABLE, SIGNATURE_TABLE, emit_host_function};
use super::context::{Context, Shared, check_text};
use super::function::emit_function;
use super::registers::{CONTROL, DEPTH, FUEL};
use super::signature::{declaration, function_name, return_form, store_slot};
use super::steps;
use super::text::{Call, ReturnForm, Source, line};
use crate::error::TranslateError;
use crate::layout::{
    BLOCK_THREADS, CopyState, ENTRY_NAME, NO_FUNCTION, RESIDENT_BLOCKS, TEXT_MARKER, WORD_STRIDE, Word, argument_offset,
};
use crate::link::FunctionKind;
use crate::program::{Block, TrapKind};
use crate::values::FunctionId;
use steps::Step;

/// First registers that the calls of the kernel use.
const FIRST_REGISTER: u32 = 24;

/// Returns the text of the program and its counted blocks.
pub(crate) fn emit_program(context: &Context<'_>) -> Result<(String, Vec<Block>), TranslateError> {
    let mut shared = Shared::default();
    let mut functions = String::new();
    for (index, facts) in (0u32..).zip(&context.graph.functions) {
        if !facts.reachable {
            continue;
        }
        let function = FunctionId(index);
        comment(context, function, &mut functions);
        match context.linked.functions[index as usize].kind {
            FunctionKind::Host(_) => functions.push_str(&emit_host_function(context, function)),
            FunctionKind::Defined(..) => functions.push_str(&emit_function(context, &mut shared, function)?),
        }
        check_text(context.options, functions.len())?;
    }
    let steps = steps::emit(context, &mut shared, &mut functions)?;
    let mut text = format!(".version 7.8\n{TEXT_MARKER}\n.target sm_80\n.address_size 64\n");
    for (index, facts) in (0u32..).zip(&context.graph.functions) {
        if facts.reachable {
            let function = FunctionId(index);
            line!(
                text,
                "{};",
                declaration(function, context.linked.signature_of(function))
            );
        }
    }
    if shared.function_table {
        function_tables(context, &mut text);
    }
    for helper in &shared.helpers {
        text.push_str(&helper.emit(context));
    }
    text.push_str(&functions);
    kernel(context, &steps, &mut text);
    check_text(context.options, text.len())?;
    Ok((text, shared.blocks))
}

/// Writes the name of a function as a comment, if its module has one.
fn comment(context: &Context<'_>, function: FunctionId, out: &mut String) {
    let linked = &context.linked.functions[function.0 as usize];
    let name = match linked.kind {
        FunctionKind::Host(host) => {
            let host = &context.linked.host_functions[host as usize];
            format!("{}.{}", host.module, host.name)
        }
        FunctionKind::Defined(instance, _) => {
            let names = &context.instance(instance).module.function_names;
            match names.binary_search_by_key(&linked.index, |(index, _)| *index) {
                Ok(found) => names[found].1.clone(),
                Err(_) => return,
            }
        }
    };
    let clean: String = name
        .chars()
        .take(80)
        .map(|c| if c.is_ascii_graphic() { c } else { '_' })
        .collect();
    line!(out, "// {clean}");
}

fn function_tables(context: &Context<'_>, text: &mut String) {
    let graph = context.graph;
    let used = graph
        .functions
        .iter()
        .rposition(|facts| facts.in_table)
        .map_or(0, |last| last + 1);
    let mut addresses = vec!["0".to_owned()];
    let mut signatures = vec![u32::MAX.to_string()];
    for (index, facts) in (0u32..).zip(&graph.functions).take(used) {
        let listed = facts.in_table && facts.reachable;
        addresses.push(if listed {
            function_name(FunctionId(index))
        } else {
            "0".to_owned()
        });
        signatures.push(context.linked.functions[index as usize].signature.0.to_string());
    }
    line!(
        text,
        ".global .align 8 .u64 {FUNCTION_TABLE}[{}] = {{{}}};",
        addresses.len(),
        addresses.join(",")
    );
    line!(
        text,
        ".global .align 4 .u32 {SIGNATURE_TABLE}[{}] = {{{}}};",
        signatures.len(),
        signatures.join(",")
    );
}

/// Writes branches to one of `labels` by the number in `%r{index}`, which is in range.
fn switch(out: &mut String, name: &str, index: u32, labels: &[String]) {
    if labels.len() <= 4 {
        for (position, label) in labels.iter().enumerate().skip(1) {
            line!(out, "setp.eq.s32 %p1, %r{index}, {position};\n@%p1 bra {label};");
        }
        if let Some(first) = labels.first() {
            line!(out, "bra {first};");
        }
        return;
    }
    line!(out, "{name}: .branchtargets {};", labels.join(", "));
    line!(out, "brx.idx %r{index}, {name};");
}

fn kernel(context: &Context<'_>, steps: &[Step], text: &mut String) {
    let mut out = String::new();
    prologue(context, &mut out);
    let word = |word: Word| word.offset().0;
    let mut registers = (FIRST_REGISTER, FIRST_REGISTER);
    if !steps.is_empty() {
        let labels: Vec<String> = (0..steps.len()).map(|step| format!("$step{step}")).collect();
        line!(out, "$next:\nld.global.b32 %r14, [%d0+{}];", word(Word::Step));
        line!(out, "setp.ge.u32 %p0, %r14, {};\n@%p0 bra $call;", steps.len());
        switch(&mut out, "$steps", 14, &labels);
        for (index, step) in steps.iter().enumerate() {
            line!(out, "$step{index}:");
            match step {
                Step::Instantiate(instance) => {
                    Call {
                        target: &steps::name(*instance),
                        prototype: None,
                        arguments: &[Source::Wide(CONTROL)],
                        form: ReturnForm::Status,
                        status: 15,
                        result: None,
                    }
                    .write(&mut out);
                    line!(out, "setp.lt.s32 %p0, %r15, 0;\n@%p0 bra $stopped;\nbra $stepped;");
                }
                Step::Start(function) => {
                    Call {
                        target: &function_name(*function),
                        prototype: None,
                        arguments: &[Source::Wide(CONTROL), Source::Word(FUEL), Source::Word(DEPTH)],
                        form: ReturnForm::Status,
                        status: FUEL,
                        result: None,
                    }
                    .write(&mut out);
                    line!(out, "setp.lt.s32 %p0, %r0, 0;\n@%p0 bra $stopped;\nbra $stepped;");
                }
            }
        }
        line!(
            out,
            "$stepped:\nadd.s32 %r14, %r14, 1;\nst.global.b32 [%d0+{}], %r14;",
            word(Word::Step)
        );
        line!(out, "bra $next;");
    }
    line!(out, "$call:");
    if !context.entries.is_empty() {
        let labels: Vec<String> = (0..context.entries.len())
            .map(|entry| format!("$entry{entry}"))
            .collect();
        line!(out, "ld.global.b32 %r14, [%d0+{}];", word(Word::Function));
        line!(
            out,
            "setp.ge.u32 %p0, %r14, {};\n@%p0 bra $returned;",
            context.entries.len()
        );
        switch(&mut out, "$entries", 14, &labels);
        for (index, function) in context.entries.iter().enumerate() {
            line!(out, "$entry{index}:");
            let used = call_entry(context, *function, &mut out);
            registers = (registers.0.max(used.0), registers.1.max(used.1));
        }
    }
    epilogue(context, &mut out);
    line!(
        text,
        ".visible .entry {ENTRY_NAME}(.param .u64 launch)\n.maxntid {BLOCK_THREADS}, 1, 1\n\
         .minnctapersm {RESIDENT_BLOCKS}\n{{"
    );
    line!(
        text,
        ".reg .b32 %r<{}>;\n.reg .b64 %d<{}>;\n.reg .pred %p<2>;",
        registers.0,
        registers.1
    );
    text.push_str(&out);
    text.push_str("}\n");
}

/// Finds the copy of the thread, leaves if it cannot run, and gives it the fuel of a slice.
fn prologue(context: &Context<'_>, out: &mut String) {
    let word = |word: Word| word.offset().0;
    line!(out, "ld.param.u64 %d1, [launch];\nld.global.b32 %r5, [%d1+24];");
    line!(
        out,
        "mov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ntid.x;\nmov.u32 %r8, %tid.x;"
    );
    line!(
        out,
        "mad.lo.u32 %r8, %r6, %r7, %r8;\nsetp.ge.u32 %p0, %r8, %r5;\n@%p0 bra $leave;"
    );
    line!(
        out,
        "ld.global.b64 %d2, [%d1];\nshr.u32 %r9, %r8, 5;\nand.b32 %r10, %r8, 31;"
    );
    line!(out, "cvt.u64.u32 %d3, %r9;\nld.global.b64 %d4, [%d1+32];");
    line!(
        out,
        "mul.lo.s64 %d3, %d3, %d4;\nadd.s64 %d0, %d2, %d3;\nmad.wide.u32 %d0, %r10, 4, %d0;"
    );
    line!(out, "ld.global.b32 %r11, [%d0+{}];", word(Word::State));
    line!(
        out,
        "add.s32 %r12, %r11, -1;\nsetp.gt.u32 %p0, %r12, 2;\n@%p0 bra $leave;"
    );
    for (from, low, high) in [
        (8, Word::ConstantsLow, Word::ConstantsHigh),
        (16, Word::CountersLow, Word::CountersHigh),
    ] {
        line!(out, "ld.global.b64 %d5, [%d1+{from}];\nmov.b64 {{%r12,%r13}}, %d5;");
        line!(
            out,
            "st.global.b32 [%d0+{}], %r12;\nst.global.b32 [%d0+{}], %r13;",
            word(low),
            word(high)
        );
    }
    if context.options.fuel {
        line!(out, "ld.global.b32 %r12, [%d0+{}];", word(Word::FuelLow));
        line!(out, "ld.global.b32 %r13, [%d0+{}];", word(Word::FuelHigh));
        line!(
            out,
            "mov.b64 %d6, {{%r12,%r13}};\nld.global.b32 %r12, [%d1+28];\ncvt.u64.u32 %d7, %r12;"
        );
        line!(
            out,
            "min.u64 %d7, %d6, %d7;\nsub.s64 %d6, %d6, %d7;\nmov.b64 {{%r12,%r13}}, %d6;"
        );
        line!(out, "st.global.b32 [%d0+{}], %r12;", word(Word::FuelLow));
        line!(out, "st.global.b32 [%d0+{}], %r13;", word(Word::FuelHigh));
        line!(out, "cvt.u32.u64 %r{FUEL}, %d7;");
    } else {
        line!(out, "mov.b32 %r{FUEL}, 0;");
    }
    line!(out, "st.global.b32 [%d0+{}], %r{FUEL};", word(Word::Slice));
    line!(out, "ld.global.b32 %r{DEPTH}, [%d0+{}];", word(Word::DepthLimit));
    // A negative fuel tells functions to resume.
    line!(out, "setp.eq.s32 %p0, %r11, {};", CopyState::Suspended as u32);
    line!(out, "@%p0 mov.b32 %r{FUEL}, -1;");
}

/// Calls a function of the host's choice with the arguments in the slots.
fn call_entry(context: &Context<'_>, function: FunctionId, out: &mut String) -> (u32, u32) {
    let signature = context.linked.signature_of(function);
    let (mut words, mut wides) = (FIRST_REGISTER, FIRST_REGISTER);
    let mut arguments = vec![Source::Wide(CONTROL), Source::Word(FUEL), Source::Word(DEPTH)];
    for (index, ty) in (0u32..).zip(&signature.params) {
        let slot = argument_offset(index).0;
        line!(out, "ld.global.b32 %r{words}, [%d0+{slot}];");
        if ty.is_wide() {
            line!(out, "ld.global.b32 %r{}, [%d0+{}];", words + 1, slot + WORD_STRIDE);
            line!(out, "mov.b64 %d{wides}, {{%r{words},%r{}}};", words + 1);
            arguments.push(Source::Wide(wides));
            words += 2;
            wides += 1;
        } else {
            arguments.push(Source::Word(words));
            words += 1;
        }
    }
    let result = signature.results.first().map(|ty| {
        if ty.is_wide() {
            Source::Wide(8)
        } else {
            Source::Word(16)
        }
    });
    Call {
        target: &function_name(function),
        prototype: None,
        arguments: &arguments,
        form: return_form(signature),
        status: FUEL,
        result,
    }
    .write(out);
    line!(out, "setp.lt.s32 %p0, %r{FUEL}, 0;\n@%p0 bra $stopped;");
    if let Some(result) = result {
        store_slot(out, &mut words, argument_offset(0).0, result);
    }
    line!(out, "bra $returned;");
    (words, wides)
}

/// Writes the state of a copy that has returned, and gives unused fuel back.
fn epilogue(context: &Context<'_>, out: &mut String) {
    let word = |word: Word| word.offset().0;
    line!(
        out,
        "$returned:\nst.global.b32 [%d0+{}], {};",
        word(Word::State),
        CopyState::Returned as u32
    );
    if context.options.fuel {
        // Without a call the fuel of a resumed copy is still the sign to resume.
        line!(out, "max.s32 %r{FUEL}, %r{FUEL}, 0;\nbra $save;");
        line!(out, "$stopped:\nld.global.b32 %r{FUEL}, [%d0+{}];", word(Word::Slice));
        line!(out, "max.s32 %r{FUEL}, %r{FUEL}, 0;\n$save:");
        line!(out, "ld.global.b32 %r12, [%d0+{}];", word(Word::FuelLow));
        line!(out, "ld.global.b32 %r13, [%d0+{}];", word(Word::FuelHigh));
        line!(
            out,
            "mov.b64 %d6, {{%r12,%r13}};\ncvt.u64.u32 %d7, %r{FUEL};\nadd.s64 %d6, %d6, %d7;"
        );
        line!(
            out,
            "mov.b64 {{%r12,%r13}}, %d6;\nst.global.b32 [%d0+{}], %r12;",
            word(Word::FuelLow)
        );
        line!(out, "st.global.b32 [%d0+{}], %r13;", word(Word::FuelHigh));
        // A copy that has used up its slice and its fuel reached its limit.
        line!(out, "ld.global.b32 %r12, [%d0+{}];", word(Word::State));
        line!(out, "setp.eq.s64 %p0, %d6, 0;");
        line!(
            out,
            "setp.eq.and.s32 %p0, %r12, {}, %p0;\n@!%p0 bra $leave;",
            CopyState::Suspended as u32
        );
        for (target, value) in [
            (Word::TrapKind, TrapKind::TimeLimit.code()),
            (Word::TrapFunction, NO_FUNCTION),
            (Word::State, CopyState::Trapped as u32),
        ] {
            let value = Source::WordConstant(value);
            line!(out, "st.global.b32 [%d0+{}], {value};", word(target));
        }
    } else {
        line!(out, "$stopped:");
    }
    line!(out, "$leave:\nret;");
}
