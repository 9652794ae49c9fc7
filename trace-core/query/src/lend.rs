//! Zero-copy polars columns over a recording's columns, mapped or owned; polars keeps the shared memory alive.

use polars::prelude::*;
use polars_arrow::array::PrimitiveArray;
use polars_buffer::Buffer;
use trace_core::recording::{Column as Rows, Part};

/// Contiguous rows of a column, together with the column that they belong to.
struct SharedRows<T> {
    column: Rows<T>,
    from: usize,
    rows: usize,
}

impl<T: bytemuck::Pod> AsRef<[T]> for SharedRows<T> {
    /// Returns the same slice at every call: the column is shared and never changes, and its alignment was checked at
    /// construction.
    fn as_ref(&self) -> &[T] {
        match self.column.parts(self.from..self.from + self.rows).next() {
            Some(Part::Plain(values)) => values,
            _ => &[],
        }
    }
}

/// Lends a column under a name, one chunk per column chunk. Plain chunks are shared; runs of one value, which take no
/// memory in the recording, are written out.
pub(crate) fn lend<T>(name: &str, column: &Rows<T::Native>) -> ChunkedArray<T>
where
    T: PolarsNumericType<Array = PrimitiveArray<<T as PolarsNumericType>::Native>>,
    T::Native: bytemuck::Pod,
{
    let mut from = 0;
    let mut chunks: Vec<PrimitiveArray<T::Native>> = column
        .parts(0..column.len())
        .map(|part| {
            let rows = part.rows();
            let buffer = match part {
                Part::Plain(_) => Buffer::from_owner(SharedRows {
                    column: column.clone(),
                    from,
                    rows,
                }),
                Part::Constant { value, rows } => Buffer::from(vec![value; rows]),
            };
            from += rows;
            PrimitiveArray::new(T::get_static_dtype().to_arrow(CompatLevel::newest()), buffer, None)
        })
        .collect();
    // polars expects at least one chunk: grouping a column without chunks panics.
    if chunks.is_empty() {
        chunks.push(PrimitiveArray::new_empty(
            T::get_static_dtype().to_arrow(CompatLevel::newest()),
        ));
    }
    ChunkedArray::from_chunk_iter(name.into(), chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses;
    use trace_core::Recording;
    use trace_core::progress::Progress;
    use trace_core::recording::{Access, ColumnBuilder, EventsBuilder};

    fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        for i in 0..5000u32 {
            let access = Access {
                space: 0,
                write: i % 3 == 0,
                offset: i % 64 * 4,
                width: 4,
                value: u64::from(i).wrapping_mul(0x9e37_79b9),
            };
            b.access(u64::from(i) * 7, i % 5, access);
        }
        Recording {
            events: b.finish(),
            ..Recording::default()
        }
    }

    /// Returns the locations of the values of each chunk of a table's column.
    fn chunks<T: PolarsNumericType>(ca: &ChunkedArray<T>) -> Vec<(*const T::Native, usize)> {
        ca.downcast_iter().map(|a| (a.values().as_ptr(), a.len())).collect()
    }

    fn parts<T: bytemuck::Pod>(c: &Rows<T>) -> Vec<(*const T, usize)> {
        c.parts(0..c.len())
            .filter_map(|p| match p {
                Part::Plain(v) => Some((v.as_ptr(), v.len())),
                Part::Constant { .. } => None,
            })
            .collect()
    }

    fn lies_where_the_recording_has_it(r: &Recording) {
        let table = accesses(r).unwrap();
        let column = |name: &str| table.column(name).unwrap().as_materialized_series().clone();
        let e = &r.events;
        assert_eq!(chunks(column("value").u64().unwrap()), parts(&e.value));
        assert_eq!(chunks(column("offset").u32().unwrap()), parts(&e.offset));
        assert_eq!(chunks(column("time_ns").u64().unwrap()), parts(&e.time));
        assert_eq!(chunks(column("thread").u32().unwrap()), parts(&e.thread));
        assert!(!parts(&e.value).is_empty() && !parts(&e.time).is_empty());
    }

    #[test]
    fn columns_in_memory_are_lent_and_not_copied() {
        lies_where_the_recording_has_it(&recording());
    }

    #[test]
    fn columns_of_a_mapped_file_are_lent_and_outlive_the_recording() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lent.kine");
        let made = recording();
        trace_core::container::write(&made, &path, &Progress::new()).unwrap();
        let opened = trace_core::container::open(&path).unwrap();
        lies_where_the_recording_has_it(&opened);
        let table = accesses(&opened).unwrap();
        drop(opened);
        // Linux keeps a mapped file that was unlinked.
        std::fs::remove_file(&path).unwrap();
        let sum: u64 = table.column("value").unwrap().u64().unwrap().iter().flatten().sum();
        assert_eq!(sum, made.events.value.iter().sum::<u64>());
        let grouped = table
            .lazy()
            .group_by([col("offset")])
            .agg([col("value").sum()])
            .collect()
            .unwrap();
        assert_eq!(grouped.height(), 64);
    }

    #[test]
    fn runs_of_one_value_are_written_out_between_lent_chunks() {
        let mut b = ColumnBuilder::<u64>::new();
        b.push_owned(vec![1, 2, 3]);
        b.push_constant(9, 10_000);
        b.push_owned(vec![4]);
        let c = b.finish();
        let lent = lend::<UInt64Type>("v", &c);
        assert_eq!(lent.len(), 10_004);
        assert!(lent.iter().flatten().eq(c.iter()));
        let (found, plain) = (chunks(&lent), parts(&c));
        assert_eq!((found[0], found[2]), (plain[0], plain[1]));
        let none = lend::<UInt64Type>("v", &Rows::default());
        assert_eq!((none.len(), none.chunks().len()), (0, 1));
    }
}
