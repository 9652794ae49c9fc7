//! The instructions of one function, and what one pass finds in them before emission.

use wasmparser::Operator;

use crate::error::TranslateError;
use crate::link::Instance;
use crate::live::live_locals;
use crate::module::{body_reader, value_type};
use crate::program::Signature;
use crate::values::ValueType;

/// The instructions of a function, and what was found in them before emission.
pub(crate) struct Body<'a> {
    pub operators: Vec<(Operator<'a>, u64)>,
    /// Index of the matching `end` of each block.
    pub ends: Vec<u32>,
    /// Live locals at each stop, if the function is resumable.
    pub live: Vec<Option<Vec<u32>>>,
    pub locals: Vec<ValueType>,
    /// Indices of the instructions that assign each local.
    pub sets: Vec<Vec<u32>>,
}

impl<'a> Body<'a> {
    /// Reads a function.
    pub fn read(
        instance: &'a Instance,
        defined: u32,
        signature: &Signature,
        resumable: bool,
    ) -> Result<Self, TranslateError> {
        let invalid = |error: wasmparser::Error| TranslateError::Invalid {
            module: instance.module.name.clone(),
            offset: error.offset(),
            message: error.message().to_owned(),
        };
        let mut locals = signature.params.clone();
        let mut operators = Vec::new();
        if let Some(body) = body_reader(&instance.module, defined as usize) {
            for local in body.get_locals_reader().map_err(invalid)? {
                let (count, ty) = local.map_err(invalid)?;
                // Validation has checked types and the number of locals.
                let ty = value_type(ty).unwrap_or(ValueType::I32);
                locals.extend(std::iter::repeat_n(ty, count as usize));
            }
            for operator in body.get_operators_reader().map_err(invalid)?.into_iter_with_offsets() {
                operators.push(operator.map_err(invalid)?);
            }
        }
        let mut ends = vec![0; operators.len()];
        let mut sets = vec![Vec::new(); locals.len()];
        let mut open = Vec::new();
        for (index, (operator, _)) in (0u32..).zip(&operators) {
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => open.push(index),
                Operator::End => {
                    if let Some(start) = open.pop() {
                        ends[start as usize] = index;
                    }
                }
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                    sets[*local_index as usize].push(index);
                }
                _ => {}
            }
        }
        let live = if resumable {
            live_locals(&operators, &ends, locals.len())?
        } else {
            Vec::new()
        };
        Ok(Self {
            operators,
            ends,
            live,
            locals,
            sets,
        })
    }
}
