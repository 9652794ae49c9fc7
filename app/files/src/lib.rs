//! Files that the user keeps next to a recording: workspace, journal of changes, buffer contents.
//!
//! This crate does not depend on the window. Other readers of these files, such as the fuzz targets, build without the
//! window's libraries.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![forbid(unsafe_code)]

pub mod buffer_index;
pub mod buffers;
pub mod changes;
pub mod contents;
pub mod edited_buffer;
pub mod journal;
pub mod keys;
pub mod link;
pub mod numbers;
pub mod output;
pub mod pipe_writer;
pub mod rules;
pub mod scene;
mod sibling_paths;
pub mod values;
pub mod workspace;
