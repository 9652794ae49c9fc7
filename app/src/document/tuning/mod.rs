//! Tuning of a recorded launch: which launches there are, what is tried, what came of it as a table.

pub mod board;
pub mod launches;
pub mod lists;
pub mod near;
pub mod table;
