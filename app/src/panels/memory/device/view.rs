//! What the panel shows of the device's memory.

use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::calls::Piece;

/// Which side of the moment is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before its event happens.
    #[default]
    Before,
    /// Behind it.
    After,
    /// Both, beside each other.
    Both,
}

/// What lines were made of: the calls and how many boards told of them, the buffer, the event, bytes a line, both sides.
pub(super) type LinesKey = (usize, u64, u32, u64, u64, bool);

/// A stretch of lines.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    /// First row.
    pub row: u64,
    /// First address.
    pub at: u64,
    /// One past the last.
    pub end: u64,
    /// What is known of it, on either side; folded to one row where nothing is on both.
    pub folded: Option<[Piece; 2]>,
}

/// What the panel shows.
#[derive(Clone, Default)]
pub struct DeviceMemoryView {
    /// Index of the buffer.
    pub buffer: Option<u32>,
    /// Which side of the moment.
    pub side: Side,
    pub(in crate::panels) list: Rows,
    pub(super) lines: Rows,
    pub(in crate::panels) seen_jump: u64,
    /// An address to be brought into view.
    pub(super) reveal: Option<u64>,
    pub(super) cached_lines: Option<(LinesKey, Arc<Vec<Stretch>>, u64)>,
    /// Whether there are bytes in these lines that are not known.
    pub(super) unknown: bool,
}
