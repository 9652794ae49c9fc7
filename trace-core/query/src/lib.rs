//! Tables, aggregates and columnar export of recordings; the only crate of the programs that depends on Arrow and Parquet.
//!
//! Filters and scans over events are in `trace-core`, whose column scans are faster than a general engine. This crate
//! does group-by, statistics and export.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod accesses;
mod batch;
mod batches;
mod columns;
mod csv;
mod error;
mod event_batches;
mod event_columns;
mod event_rows;
mod event_stream;
mod export;
mod intervals;
mod register_texts;
mod registers;
mod shaders;
mod statistics;
mod tables;
mod text_pool;

pub use batches::{CollectedTable, EventSelection, collect_events, collect_table};
pub use columns::{Cells, ColumnWriter, write_columns};
pub use error::TableError;
pub use event_columns::{EventColumn, EventColumns};
pub use event_stream::EventStream;
pub use export::{ExportSummary, Format, export, export_events};
pub use intervals::{EventPair, IntervalStatistics, TimeBin, Times, measure_intervals};
pub use statistics::{Bin, COMMON, Count, Gaps, GroupBy, Histogram, Usage, histogram, usage};
pub use tables::Table;
