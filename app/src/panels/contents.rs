//! Panels that show the content of memory at the current event.

pub mod memory;
pub mod screen;
