//! What functions share during emission.

use std::collections::BTreeSet;

use super::helpers::Helper;
use crate::constants::ConstantMap;
use crate::error::TranslateError;
use crate::graph::Graph;
use crate::layout::{AreaOffset, Layout};
use crate::link::Linked;
use crate::options::Options;
use crate::program::Block;
use crate::values::{FunctionId, InstanceId};

/// What all functions read during emission.
pub(crate) struct Context<'a> {
    pub linked: &'a Linked,
    pub graph: &'a Graph,
    pub layout: &'a Layout,
    pub options: &'a Options,
    pub constants: &'a ConstantMap,
    /// For each instance and data segment: the cell that says that the segment was dropped.
    pub dropped_datas: &'a [Vec<Option<AreaOffset>>],
    /// The same for element segments.
    pub dropped_elements: &'a [Vec<Option<AreaOffset>>],
    /// Functions that the host may call, without duplicates.
    pub entries: &'a [FunctionId],
}

/// What functions leave for the end of the text.
#[derive(Default)]
pub(crate) struct Shared {
    /// Helpers that a function calls.
    pub helpers: BTreeSet<Helper>,
    /// Counted blocks.
    pub blocks: Vec<Block>,
    /// An indirect call reads the address and the signature of functions.
    pub function_table: bool,
}

impl Context<'_> {
    /// Returns true if the size of `memory` can change.
    pub fn can_grow(&self, memory: crate::values::MemoryId) -> bool {
        let region = &self.layout.memories()[memory.0 as usize];
        self.graph.grows && region.min_pages < region.max_pages
    }

    /// Returns the instance with number `id`.
    pub fn instance(&self, id: InstanceId) -> &crate::link::Instance {
        &self.linked.instances[id.0 as usize]
    }
}

/// Fails if the text exceeds its limit.
pub(crate) fn check_text(options: &Options, bytes: usize) -> Result<(), TranslateError> {
    let limit = options.max_text_bytes.min(crate::limits::MAX_TEXT_BYTES);
    if bytes > limit {
        return Err(TranslateError::Limit {
            what: "bytes of PTX text",
            count: bytes as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}
