//! Graphs: a program builds a graph from nodes or by capture. Each launch runs it.

pub mod capture;
pub mod exec;
pub mod nodes;
