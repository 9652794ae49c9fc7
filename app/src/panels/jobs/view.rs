//! What the Jobs panel shows.

use crate::theme::rows::Rows;

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    pub(in crate::panels) list: Rows,
    pub(in crate::panels) seen_jump: u64,
}
