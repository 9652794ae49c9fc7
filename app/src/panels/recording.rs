//! Panels that show the order of events in a recording.

pub mod events;
pub mod findings;
pub mod notebook;
pub mod plots;
pub mod timeline;
