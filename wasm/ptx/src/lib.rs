//! Translator of WebAssembly programs to PTX: each thread of a GPU runs one copy of the program.
//!
//! A *program* is a list of instances of modules, linked at translation.
//! [`ProgramBuilder`] collects them; [`ProgramBuilder::translate`] returns a [`Program`]: text, [`Layout`], constants.

mod access;
mod builder;
mod constants;
mod emit;
mod error;
mod features;
mod graph;
mod layout;
mod limits;
mod link;
mod live;
mod module;
mod options;
mod program;
mod scan;
mod values;

pub use builder::ProgramBuilder;

pub use error::TranslateError;
pub use layout::{
    AreaOffset, BLOCK_THREADS, BufferOffset, CONTROL_WORDS, CopyState, ENTRY_NAME, GlobalCell, LANES, LAUNCH_BYTES,
    LaunchBlock, Layout, LayoutBuilder, MAX_REGISTERS, MemoryRegion, NO_FUNCTION, PAGE_BYTES, Run, TEXT_MARKER,
    TableRegion, WORD_STRIDE, Word, argument_offset,
};
pub use limits::{
    MAX_BRANCH_TARGETS, MAX_CONSTANT_BYTES, MAX_FUNCTIONS, MAX_INSTANCES, MAX_LIVE_LOCALS, MAX_LIVE_WORK,
    MAX_LOOP_NESTING, MAX_MODULE_BYTES, MAX_NESTING, MAX_PAGES, MAX_STACK_VALUES, MAX_TABLE_ELEMENTS, MAX_TEXT_BYTES,
    MAX_VALUES,
};
pub use options::{CellSize, Options, Placement, Suspension};
pub use program::{
    Block, EntryPoint, Export, ExportedItem, Function, Global, HostFunction, ModuleRole, Program, Signature, TrapKind,
};
pub use values::{FunctionId, GlobalId, InstanceId, MemoryId, TableId, ValueType};
