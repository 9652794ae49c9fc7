//! Division of rows into parts that one call of the driver copies, and of parts into batches of the staging memory.

use crate::device::{DeviceError, Rows};
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;

/// Maximum distance of rows that the driver copies in one call.
pub(super) const MAX_PITCH: u64 = i32::MAX as u64;
/// Maximum number of threads that fill or empty staging memory.
const MAX_THREADS: usize = 8;
/// Bytes for each of these threads: below it a thread costs more than it gains.
const BYTES_OF_A_THREAD: usize = 512 << 10;

/// Divides rows into parts that one call can copy: at most `capacity` bytes, and no larger distance than the driver's
/// maximum. Returns each part with its range in the packed bytes.
pub(super) fn parts(rows: Rows, capacity: usize) -> impl Iterator<Item = Result<(Rows, Range<usize>), DeviceError>> {
    let capacity = capacity.max(1) as u64;
    // Rows longer than the capacity are divided themselves.
    let pieces = rows.width.div_ceil(capacity).max(1);
    let piece = rows.width.div_ceil(pieces).max(1);
    let together = if pieces > 1 || rows.pitch > MAX_PITCH {
        1
    } else {
        (capacity / rows.width.max(1)).max(1)
    };
    let steps = rows.count.div_ceil(together);
    (0..steps).flat_map(move |step| {
        (0..pieces).map(move |number| {
            let first = step * together;
            let count = together.min(rows.count - first);
            let from = (number * piece).min(rows.width);
            let width = piece.min(rows.width - from);
            let outside = || DeviceError::Range(format!("{rows:?}"));
            let offset = rows
                .pitch
                .checked_mul(first)
                .and_then(|o| o.checked_add(from))
                .ok_or_else(outside)?;
            let packed = first
                .checked_mul(rows.width)
                .and_then(|p| p.checked_add(from))
                .ok_or_else(outside)?;
            let start = usize::try_from(packed).map_err(|_| outside())?;
            let bytes = usize::try_from(width * count).map_err(|_| outside())?;
            let part = Rows {
                start: rows.start.offset(offset)?,
                pitch: if count == 1 { width } else { rows.pitch },
                width,
                count,
            };
            Ok((part, start..start + bytes))
        })
    })
}

/// Parts that are in staging memory at the same time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Numbers of the parts.
    pub parts: Range<usize>,
    /// Bytes of each part.
    pub sizes: Vec<usize>,
}

/// Divides parts into batches of at most `capacity` bytes. A part that is larger or has a larger distance than one
/// call copies is a batch of its own.
///
/// # Errors
/// When the bytes of a part do not fit in the address space.
pub(super) fn batches(all: &[Rows], capacity: usize) -> Result<Vec<Batch>, DeviceError> {
    let mut found: Vec<Batch> = Vec::new();
    let mut free = 0;
    for (number, rows) in all.iter().enumerate() {
        let bytes = rows.bytes()?;
        match found.last_mut() {
            Some(last) if free > 0 && bytes <= free && is_one_call(*rows) => {
                last.parts.end = number + 1;
                last.sizes.push(bytes);
                free -= bytes;
            }
            _ => {
                free = if is_one_call(*rows) {
                    capacity.saturating_sub(bytes)
                } else {
                    0
                };
                found.push(Batch {
                    parts: number..number + 1,
                    sizes: vec![bytes],
                });
            }
        }
    }
    Ok(found)
}

/// Returns whether the driver copies the rows in one call, if they fit in staging memory.
pub(super) fn is_one_call(rows: Rows) -> bool {
    rows.pitch <= MAX_PITCH
}

/// Passes each part of a batch with its bytes to `work`, on several threads if the batch is large.
pub(super) fn for_each_part<T: Send>(items: Vec<(usize, T)>, bytes: usize, work: &(dyn Fn(usize, T) + Sync)) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(MAX_THREADS).min(bytes / BYTES_OF_A_THREAD).min(items.len());
    if threads < 2 {
        for (number, item) in items {
            work(number, item);
        }
        return;
    }
    let items = Mutex::new(items.into_iter());
    let share = || {
        loop {
            let next = items.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((number, item)) = next else { return };
            work(number, item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(share);
        }
        share();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceAddress;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn rows(pitch: u64, width: u64, count: u64) -> Rows {
        Rows {
            start: DeviceAddress(1000),
            pitch,
            width,
            count,
        }
    }

    #[test]
    fn parts_cover_all_rows_once() {
        for (pitch, width, count, capacity) in [
            (100, 10, 7, 25),
            (100, 10, 7, 1000),
            (MAX_PITCH + 5, 10, 3, 1000),
            (50, 23, 2, 8),
            (9, 9, 1, 9),
        ] {
            let rows = rows(pitch, width, count);
            let mut next = 0;
            for part in parts(rows, capacity) {
                let (part, range) = part.unwrap();
                assert_eq!(range.start, next);
                assert_eq!(range.len() as u64, part.width * part.count);
                assert!(range.len() <= capacity);
                let (row, inside) = (range.start as u64 / width, range.start as u64 % width);
                assert_eq!(part.start.0, 1000 + row * pitch + inside);
                next = range.end;
            }
            assert_eq!(next as u64, width * count);
        }
    }

    #[test]
    fn batches_fill_the_capacity_in_order() {
        let all = [
            rows(64, 10, 3),
            rows(64, 10, 4),
            rows(64, 10, 4),
            rows(MAX_PITCH + 1, 1, 2),
            rows(64, 1, 1),
            rows(64, 10, 60),
        ];
        let found = batches(&all, 100).unwrap();
        let ranges: Vec<Range<usize>> = found.iter().map(|b| b.parts.clone()).collect();
        assert_eq!(ranges, [0..2, 2..3, 3..4, 4..5, 5..6]);
        assert_eq!(found[0].sizes, [30, 40]);
        assert!(batches(&[rows(1, u64::MAX, 2)], 100).is_err());
    }

    #[test]
    fn each_part_is_worked_on_once() {
        for bytes in [0, 100 << 20] {
            let sum = AtomicUsize::new(0);
            let items = (0..1000).map(|n| (n, n + 1)).collect();
            for_each_part(items, bytes, &|number, item: usize| {
                assert_eq!(item, number + 1);
                sum.fetch_add(item, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 500_500);
        }
    }
}
