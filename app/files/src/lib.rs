//! Files that a person keeps beside a recording: the workspace, the journal of changes, contents of buffers.
//!
//! A crate of its own because it knows no window: whoever reads these files, the fuzz targets for one, builds without
//! the window's libraries.
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
pub mod values;
pub mod workspace;
