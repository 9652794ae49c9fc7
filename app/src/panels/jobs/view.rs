//! State of the Jobs panel.

use crate::theme::rows::Rows;

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    pub(in crate::panels) list: Rows,
    pub(in crate::panels) seen_jump: u64,
}
