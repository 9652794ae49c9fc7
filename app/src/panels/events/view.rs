//! What the Events panel shows.

use crate::theme::rows::Rows;
use std::sync::Arc;

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Text of the filter.
    pub filter: String,
    /// Events that pass, once found; `None`: all.
    pub rows: Option<Arc<Vec<u32>>>,
    /// Text that `rows` were found for.
    pub found_for: String,
    /// What is wrong with the filter.
    pub wrong: Option<String>,
    pub(in crate::panels) asked_for: String,
    /// A name in the filter that no register has.
    pub(in crate::panels) unknown: Option<String>,
    pub(in crate::panels) list: Rows,
    pub(in crate::panels) seen_jump: u64,
    /// The filter field wants the keyboard.
    pub focus_filter: bool,
}
