//! State of the view of device memory.

use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::api_trace::Piece;

/// The side of the current event that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before the event.
    #[default]
    Before,
    /// After the event.
    After,
    /// Both sides, next to each other.
    Both,
}

/// The inputs of the lines: the calls and the number of target reports, the buffer, the event, bytes a line, both
/// sides.
pub(super) type LinesKey = (usize, u64, u32, u64, u64, bool);

/// A stretch of lines.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    /// First row.
    pub row: u64,
    /// First address.
    pub at: GpuVa,
    /// One past the last.
    pub end: GpuVa,
    /// What is known of it on each side; folded to one row if it is unknown on both.
    pub folded: Option<[Piece; 2]>,
}

/// State of the view.
#[derive(Clone, Default)]
pub struct DeviceMemoryView {
    /// Index of the buffer.
    pub buffer: Option<u32>,
    /// The side of the current event.
    pub side: Side,
    pub(super) list: Rows,
    pub(super) lines: Rows,
    pub(super) seen_jump: u64,
    /// An address that must be brought into view.
    pub(super) reveal: Option<u64>,
    pub(super) cached_lines: Option<(LinesKey, Arc<Vec<Stretch>>, u64)>,
    /// Whether these lines have unknown bytes.
    pub(super) unknown: bool,
}

impl DeviceMemoryView {
    /// Drops the lines: the recording has grown.
    pub(in crate::panels::contents::memory) fn forget_results(&mut self) {
        self.cached_lines = None;
    }
}
