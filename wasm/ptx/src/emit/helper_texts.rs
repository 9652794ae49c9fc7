//! Texts of the shared helpers.

use super::context::Context;
use super::helpers::Helper;
use super::{bulk, tables};

impl Helper {
    /// Returns the text.
    pub fn emit(&self, context: &Context<'_>) -> String {
        let name = self.name();
        match *self {
            Self::Zero(memory) => bulk::emit_zero(context, &name, memory),
            Self::Grow(memory) => bulk::emit_grow(context, &name, memory),
            Self::Fill(memory) => bulk::emit_fill(context, &name, memory),
            Self::Copy(to, from) => bulk::emit_copy(context, &name, to, from),
            Self::Init(memory) => bulk::emit_init(context, &name, memory),
            Self::TableCopy(to, from) => tables::emit_copy(context, &name, to, from),
            Self::TableInit(table) => tables::emit_init(context, &name, table),
        }
    }
}
