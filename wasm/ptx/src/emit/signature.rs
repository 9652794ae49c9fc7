//! Names, declarations and result slots of the program's functions in the text.

use super::context::Context;
use super::registers::CONTROL;
use super::text::{ReturnForm, Source, line};
use crate::link::SignatureId;
use crate::program::Signature;
use crate::values::FunctionId;

/// Stores a source to an argument or result slot of the copy.
pub(crate) fn store_slot(out: &mut String, next_word: &mut u32, slot: u64, source: Source) {
    let high = slot + crate::layout::WORD_STRIDE;
    match source {
        Source::Word(_) | Source::WordConstant(_) => {
            line!(out, "st.global.b32 [%d{CONTROL}+{slot}], {source};");
            line!(out, "st.global.b32 [%d{CONTROL}+{high}], 0;");
        }
        Source::WideConstant(value) => {
            line!(
                out,
                "st.global.b32 [%d{CONTROL}+{slot}], {};",
                Source::WordConstant(value as u32)
            );
            line!(
                out,
                "st.global.b32 [%d{CONTROL}+{high}], {};",
                Source::WordConstant((value >> 32) as u32)
            );
        }
        Source::Wide(_) => {
            let low = *next_word;
            *next_word += 2;
            line!(out, "mov.b64 {{%r{low},%r{}}}, {source};", low + 1);
            line!(out, "st.global.b32 [%d{CONTROL}+{slot}], %r{low};");
            line!(out, "st.global.b32 [%d{CONTROL}+{high}], %r{};", low + 1);
        }
    }
}

/// Returns the form of a function's return value.
pub(crate) fn return_form(signature: &Signature) -> ReturnForm {
    match signature.results.first() {
        None => ReturnForm::Status,
        Some(ty) if ty.is_wide() => ReturnForm::Wide,
        Some(_) => ReturnForm::Word,
    }
}

/// Returns the name of a function in the text.
pub(crate) fn function_name(function: FunctionId) -> String {
    format!("w{}", function.0)
}

/// Returns the declaration of a function, without semicolon or body.
pub(crate) fn declaration(function: FunctionId, signature: &Signature) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        ".func ({}) {} (.param .b64 c, .param .b32 f, .param .b32 n",
        return_form(signature).declaration("r"),
        function_name(function)
    );
    for (index, ty) in signature.params.iter().enumerate() {
        let _ = write!(text, ", .param .b{} a{index}", if ty.is_wide() { 64 } else { 32 });
    }
    text.push(')');
    text
}

/// Returns the declaration of a prototype.
pub(crate) fn prototype_declaration(context: &Context<'_>, id: u32) -> String {
    use std::fmt::Write as _;
    let signature = context.linked.signature(SignatureId(id));
    let mut text = format!(
        "$P{id}: .callprototype ({}) _ (.param .b64 _, .param .b32 _, .param .b32 _",
        return_form(signature).declaration("_")
    );
    for ty in &signature.params {
        let _ = write!(text, ", .param .b{} _", if ty.is_wide() { 64 } else { 32 });
    }
    text.push_str(");\n");
    text
}
