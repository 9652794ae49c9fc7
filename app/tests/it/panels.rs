//! Tests of Events, Jobs, Memory, Page tables, Inputs, Register and the inspector, by their accessible labels. Each
//! test asserts that a document, a file or a panel changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod calls;
mod campaign;
mod causes;
mod chains;
mod columns;
mod compare;
mod compare_calls;
mod copying;
mod digits;
mod hands;
mod inputs;
mod inputs_of_calls;
mod left_behind;
mod lists;
mod memory;
mod nothing;
mod page_map;
mod page_tables;
mod picture;
mod pipeline;
mod plots;
mod recorded;
mod screen;
mod shader;
pub mod tune;
mod unkept;
mod unknown;
mod wasm;
mod watched;
