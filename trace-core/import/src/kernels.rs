//! Importers of databases of tools that record single kernels: the device memory before and after a launch, the launch,
//! and the code, mostly as LLVM bitcode. They become API traces, one launch after the other.
//!
//! [`record_replay`], [`mneme`] and [`llvm_offload`] read the files; `database.rs` holds the common data, and `recording.rs` converts it to a
//! recording.

mod code;
mod database;
mod files;
pub mod llvm_offload;
mod memory;
pub mod mneme;
pub mod record_replay;
mod recording;
mod snapshot_reader;
#[cfg(test)]
mod tests;

pub use recording::DATABASE;
