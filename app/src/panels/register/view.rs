//! What the Register panel shows.

use crate::theme::rows::Rows;

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Only registers whose names hold this are offered.
    pub find: String,
    /// The list of accesses.
    pub(super) list: Rows,
    /// The list of registers.
    pub(super) all: Rows,
    pub(super) shown: Option<(u32, u64)>,
}
