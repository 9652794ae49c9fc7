//! A validated module in the form that linking and emission need.

mod parse;

use std::ops::Range;

use crate::program::{ModuleRole, Signature};
use crate::values::ValueType;

pub(crate) use parse::{body_reader, parse, value_type};

/// Limits of a memory in pages or of a table in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub min: u64,
    pub max: Option<u64>,
}

/// Type of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GlobalType {
    pub ty: ValueType,
    pub mutable: bool,
}

/// What an import asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportKind {
    Function(u32),
    Table(Limits),
    Memory(Limits),
    Global(GlobalType),
}

#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub module: String,
    pub name: String,
    pub kind: ImportKind,
}

/// A constant expression of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConstExpr {
    Value(u64),
    Global(u32),
}

/// An item of an element segment: an index of a function, or null.
pub(crate) type ElementItem = Option<u32>;

#[derive(Clone, Debug)]
pub(crate) struct Element {
    /// Table and offset of an active segment.
    pub active: Option<(u32, ConstExpr)>,
    /// A declared segment has no items at run time.
    pub declared: bool,
    pub items: Vec<ElementItem>,
    pub offset: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// Memory and offset of an active segment.
    pub active: Option<(u32, ConstExpr)>,
    /// Bytes of the segment in the module's file.
    pub bytes: Range<usize>,
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportKind {
    Function(u32),
    Table(u32),
    Memory(u32),
    Global(u32),
}

/// A validated module. Index spaces contain the imports first.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub name: String,
    pub role: ModuleRole,
    pub bytes: Vec<u8>,
    pub types: Vec<Signature>,
    pub imports: Vec<Import>,
    /// Type index of each function.
    pub functions: Vec<u32>,
    /// Number of imported functions.
    pub imported_functions: u32,
    /// Body of each defined function in the file.
    pub bodies: Vec<Range<usize>>,
    pub tables: Vec<Limits>,
    pub memories: Vec<Limits>,
    /// Defined globals, without the imported ones.
    pub globals: Vec<(GlobalType, ConstExpr)>,
    pub exports: Vec<(String, ExportKind)>,
    pub start: Option<u32>,
    pub elements: Vec<Element>,
    pub datas: Vec<Data>,
    /// Names of functions from the name section.
    pub function_names: Vec<(u32, String)>,
}
