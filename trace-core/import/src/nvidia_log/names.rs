//! The names of calls, each stored once.

use std::collections::HashMap;
use trace_core::recording::ObjectRow;

/// Maximum number of names.
const MAX_NAMES: usize = 1 << 16;

/// Names and their indices.
#[derive(Debug, Default)]
pub(super) struct Names {
    list: Vec<String>,
    indices: HashMap<String, u32>,
}

impl Names {
    /// Returns the index of a name, which is added if it is new; [`ObjectRow::NO_NAME`] beyond the maximum number.
    pub fn index(&mut self, name: String) -> u32 {
        if let Some(index) = self.indices.get(&name) {
            return *index;
        }
        if self.list.len() >= MAX_NAMES {
            return ObjectRow::NO_NAME;
        }
        let index = self.list.len() as u32;
        self.list.push(name.clone());
        self.indices.insert(name, index);
        index
    }

    /// Returns the names by index.
    pub fn into_list(self) -> Vec<String> {
        self.list
    }
}
