//! Graphs that copy to the device what they, or copies before them, bring to the host: when what was copied can be read.

use super::nodes::{Node, What, each};
use crate::content::content_at;
use crate::reads::overlaps;
use crate::recorder::{Form, Recorder};
use cuda_driver::CuStream;
use cuda_session::With;
use std::collections::HashMap;
use trace_core::recording::{CopyKind, CopyRow};

/// When memory of the host holds what a copy to the device takes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Before the graph begins: it writes there later.
    Before,
    /// When the graph has ended: it wrote there earlier.
    Behind,
    /// At no time that the recorder can look.
    Never,
}

/// Copies of a graph whose source the graph itself writes, by their number among all of its copies.
#[derive(Debug, Default)]
pub(super) struct Sources {
    when: HashMap<usize, When>,
    early: HashMap<usize, With>,
}

impl Sources {
    /// Those of a graph's nodes; what has to be read before the graph begins is read.
    pub fn of(r: &Recorder, nodes: &[Node], stream: CuStream, form: Form) -> Self {
        let (mut to_device, mut to_host, mut count) = (Vec::new(), Vec::new(), 0);
        each(nodes, &mut |what| {
            for row in if let What::Copies(rows) = what {
                rows.as_slice()
            } else {
                &[]
            } {
                match CopyKind::from_raw(row.kind) {
                    Some(CopyKind::HostToDevice) => to_device.push((count, row)),
                    Some(CopyKind::DeviceToHost) => to_host.push((count, row)),
                    _ => {}
                }
                count += 1;
            }
        });
        let mut all = Self::default();
        for (n, row) in to_device {
            let mut written = to_host
                .iter()
                .filter(|(_, read)| overlaps(read, row.from, row.from_pitch, row));
            let (first, last) = (written.next(), written.next_back());
            let Some((first, _)) = first else { continue };
            let last = last.map_or(*first, |(last, _)| *last);
            let when = match (*first < n, last > n) {
                (true, false) => When::Behind,
                (false, _) => When::Before,
                (true, true) => When::Never,
            };
            all.when.insert(n, when);
            if when == When::Before && is_there(r, row, stream, form) {
                all.early.insert(n, content_at(r, row.from, row.from_pitch, row));
            }
        }
        all
    }

    /// What the copy of this number took, once the graph was launched on a stream.
    pub fn content(&mut self, r: &Recorder, n: usize, row: &CopyRow, stream: CuStream, form: Form) -> With {
        let content = match self.when.get(&n) {
            None | Some(When::Behind) if is_there(r, row, stream, form) => {
                Some(content_at(r, row.from, row.from_pitch, row))
            }
            Some(When::Before) => self.early.remove(&n),
            _ => None,
        };
        content.unwrap_or_else(|| {
            r.not_recorded(
                "graph",
                "a graph copies to the device what it brings to the host itself, and what that was could not be read: a replay leaves the copy out",
            );
            With::Nothing
        })
    }
}

/// Waits until the host's memory holds what a copy takes from it. `false`: that could not be waited for.
fn is_there(r: &Recorder, row: &CopyRow, stream: CuStream, form: Form) -> bool {
    let bytes = row.from_pitch.max(row.bytes).saturating_mul(row.rows);
    r.is_there(stream, form, row.from, row.from_pitch, row) && !r.is_awaited(row.from, bytes)
}
