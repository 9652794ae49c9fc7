//! A slice of a buffer that is shown as a tensor: the form that describes it, and its values.

use kinescope_files::contents::BufferContents;
use kinescope_files::values;
use kinescope_session::tensor::{ElementOrder, Slice, Tensor};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::ElementType;

/// Maximum number of pixels along a side; of more rows or columns every nth is shown.
const MAX_SIDE_PIXELS: u64 = 512;

/// The form in which the user describes the tensor of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// The buffer.
    pub buffer: String,
    /// Lengths of the axes.
    pub shape: String,
    /// Strides in elements; empty: contiguous.
    pub strides: String,
    /// Order of the elements if no strides are given.
    pub order: ElementOrder,
    /// The part that is shown.
    pub slice: Slice,
    /// The cell that keys move from: row and column.
    pub cell: (u64, u64),
}

/// The inputs of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorKey {
    pub(super) buffer: String,
    pub(super) element: ElementType,
    pub(super) stamp: u64,
    pub(super) tensor: Tensor,
    pub(super) slice: Slice,
}

/// Values of a slice, every nth.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) key: TensorKey,
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) every: (u64, u64),
    pub(super) list: Vec<Option<f64>>,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Reads the values of a slice.
pub(super) fn read(contents: &BufferContents, key: TensorKey, progress: &Progress) -> Result<Values, Cancelled> {
    let (rows, columns) = key.slice.size(&key.tensor);
    let every = (
        rows.div_ceil(MAX_SIDE_PIXELS).max(1),
        columns.div_ceil(MAX_SIDE_PIXELS).max(1),
    );
    let (shown_rows, shown_columns) = (rows.div_ceil(every.0), columns.div_ceil(every.1));
    let size = key.element.bytes();
    let close = key.tensor.strides.get(key.slice.across) == Some(&1) && every.1 == 1;
    let mut list = Vec::with_capacity((shown_rows * shown_columns) as usize);
    progress.set_total(shown_rows);
    for row in 0..shown_rows {
        let element = |column: u64| key.tensor.element(&key.slice.index(row * every.0, column * every.1));
        if close {
            let from = element(0).unwrap_or(0).saturating_mul(size as u64);
            let bytes = contents.part(from, columns as usize * size);
            let mut parts = bytes.chunks_exact(size);
            list.extend((0..columns).map(|_| values::element_f64(key.element, parts.next()?)));
        } else {
            list.extend((0..shown_columns).map(|column| {
                let bytes = contents.part(element(column)?.checked_mul(size as u64)?, size);
                values::element_f64(key.element, &bytes)
            }));
        }
        progress.advance(1)?;
    }
    let finite = || list.iter().flatten().copied().filter(|v| v.is_finite());
    let (low, high) = finite().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
    Ok(Values {
        key,
        rows: shown_rows,
        columns: shown_columns,
        every,
        list,
        low,
        high,
    })
}
