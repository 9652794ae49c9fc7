//! Graphs: work that is put together first, by hand or by capturing streams, and done by each launch.

pub mod capture;
pub mod exec;
pub mod nodes;
