//! Tables, aggregates and columnar export of recordings; the only room that names polars.
//!
//! Filters and scans over events belong to `trace-core`, which does them over its columns faster than a general
//! engine. What is here is group-by, statistics and export.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod columns;
mod export;
mod intervals;
mod lend;
mod plain;
mod shaders;
mod statistics;
mod table;
mod tables;

pub use columns::{Cells, write_columns};
pub use export::{ExportSummary, Format, export, export_events};
pub use intervals::{EventPair, IntervalStatistics, TimeBin, Times, measure_intervals};
pub use statistics::{Bin, COMMON, Count, Gaps, GroupBy, Histogram, Usage, histogram, usage};
pub use table::{QueryError, accesses, accesses_among, register_statistics};
pub use tables::{Table, TableError};

pub use polars::prelude::{DataFrame, LazyFrame};
