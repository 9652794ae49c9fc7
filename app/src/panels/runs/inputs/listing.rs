//! The buffers that the list shows, by kind.

use kinescope_files::buffer_index::Buffers;
use std::sync::Arc;
use trace_core::recording::BufferRole;

/// Maximum number of listed buffers of one kind.
pub(super) const LISTED: usize = 24;

/// The list, computed once for a search text.
#[derive(Clone)]
pub(super) struct Listing {
    pub(super) of: usize,
    pub(super) find: String,
    pub(super) sections: [Section; 3],
}

/// Buffers of one kind.
#[derive(Clone, Default)]
pub(super) struct Section {
    /// Indices of the listed buffers in the list of all.
    pub(super) shown: Vec<usize>,
    /// How many match.
    pub(super) fit: usize,
}

impl Listing {
    /// Lists the buffers whose names contain a text.
    pub(super) fn new(all: &Arc<Buffers>, find: &str) -> Self {
        let search = find.trim().to_lowercase();
        let mut sections: [Section; 3] = Default::default();
        for (n, b) in all.list().iter().enumerate() {
            if !b.name.to_lowercase().contains(&search) {
                continue;
            }
            let [inputs, outputs, others] = &mut sections;
            let section = match b.role {
                BufferRole::Input => inputs,
                BufferRole::Output => outputs,
                _ => others,
            };
            section.fit += 1;
            if section.shown.len() < LISTED {
                section.shown.push(n);
            }
        }
        Self {
            of: Arc::as_ptr(all) as usize,
            find: find.to_owned(),
            sections,
        }
    }
}
