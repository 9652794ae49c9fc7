//! Graphs: work that is first put together, by hand or by capture, and then run by each launch.

pub mod capture;
pub mod exec;
pub mod nodes;
