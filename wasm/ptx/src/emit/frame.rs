//! An open block of a function during emission.

use super::stops::Dispatch;
use super::value::Value;
use crate::values::ValueType;

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Function,
    Block,
    Loop,
    If,
    Else,
}

/// An open block.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub kind: FrameKind,
    /// Label of branches: the header of a loop, the end of other blocks.
    pub label: u32,
    pub else_label: u32,
    pub results: Vec<ValueType>,
    /// Types of the values that a branch takes.
    pub label_types: Vec<ValueType>,
    /// Registers of these values, once a branch or a merge needs them.
    pub targets: Vec<u32>,
    /// Values on the stack below the block's parameters.
    pub height: usize,
    pub branched: bool,
    /// Parameters of an `if`, for its `else`.
    pub parameters: Vec<Value>,
    /// The way to the stops inside a loop.
    pub dispatch: Option<Dispatch>,
}

impl Frame {
    /// Returns the frame of a function's body.
    pub fn function(label: u32, results: Vec<ValueType>) -> Self {
        Self {
            kind: FrameKind::Function,
            label,
            else_label: 0,
            label_types: results.clone(),
            results,
            targets: Vec::new(),
            height: 0,
            branched: false,
            parameters: Vec::new(),
            dispatch: None,
        }
    }
}
