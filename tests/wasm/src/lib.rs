//! Translated WebAssembly programs: one copy of a program, its memory, and scripts of the official test-suite, in the
//! interpreter or on a GPU.
#![forbid(unsafe_code)]

mod device_copy;
mod error;
mod float_table;
mod interpreted_copy;
mod machine;
mod script;
mod space;
mod spectest;
mod suite;
mod target;
mod values;
mod world;

pub use device_copy::{DeviceCopy, DeviceCounts, SharedDevice, cell_of_bytes};
pub use error::MachineError;
pub use float_table::{FloatTable, TableRow, compare_tables};
pub use interpreted_copy::InterpretedCopy;
pub use machine::{Machine, Outcome, Settings};
pub use script::{Counts, FileReport, FloatCounts, run_file, run_file_on};
pub use space::CopySpace;
pub use suite::{EXCEPTIONS, Exception, REFERENCES, SEGMENTS, SUITE_FILES, SuiteFile};
pub use target::CopyTarget;
pub use world::{World, WorldError};
