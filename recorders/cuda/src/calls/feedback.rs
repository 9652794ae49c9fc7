//! Feedback copies of graphs: copies to the device whose source the graph, or an earlier copy, writes on the host.

use crate::content::content_at;
use crate::graphs::{Node, NodeWork, for_each_enabled};
use crate::process_memory::HostAddr;
use crate::recorder::Recorder;
use crate::streams::overlaps;
use crate::trace::Form;
use cuda_driver::CuStream;
use cuda_session::EntryPayload;
use std::collections::HashMap;
use trace_core::recording::{CopyKind, CopyRow};

/// The time at which host memory holds the source of a copy to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceTiming {
    /// Before the graph starts: the graph writes there later.
    Before,
    /// After the graph ends: the graph wrote there earlier.
    After,
    /// At no time when the recorder can read it.
    Never,
}

/// Copies of a graph whose source the graph itself writes, by their index among all of its copies.
#[derive(Debug, Default)]
pub(super) struct FeedbackSources {
    when: HashMap<usize, SourceTiming>,
    early: HashMap<usize, EntryPayload>,
}

impl FeedbackSources {
    /// Finds the feedback copies among a graph's nodes, and reads the sources that must be read before the graph
    /// starts.
    pub fn from_nodes(r: &Recorder, nodes: &[Node], stream: CuStream, form: Form) -> Self {
        let (mut to_device, mut to_host, mut count) = (Vec::new(), Vec::new(), 0);
        for_each_enabled(nodes, &mut |what| {
            for row in if let NodeWork::Copies(rows) = what {
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
            let from = HostAddr::new(row.from);
            let mut written = to_host
                .iter()
                .filter(|(_, read)| overlaps(read, from, row.from_pitch, row));
            let (first, last) = (written.next(), written.next_back());
            let Some((first, _)) = first else { continue };
            let last = last.map_or(*first, |(last, _)| *last);
            let when = match (*first < n, last > n) {
                (true, false) => SourceTiming::After,
                (false, _) => SourceTiming::Before,
                (true, true) => SourceTiming::Never,
            };
            all.when.insert(n, when);
            if when == SourceTiming::Before && is_there(r, row, stream, form) {
                all.early.insert(n, content_at(&r.trace, from, row.from_pitch, row));
            }
        }
        all
    }

    /// Returns the content of copy number `n`, after the graph was launched on a stream.
    pub fn content(&mut self, r: &Recorder, n: usize, row: &CopyRow, stream: CuStream, form: Form) -> EntryPayload {
        let content = match self.when.get(&n) {
            None | Some(SourceTiming::After) if is_there(r, row, stream, form) => {
                Some(content_at(&r.trace, HostAddr::new(row.from), row.from_pitch, row))
            }
            Some(SourceTiming::Before) => self.early.remove(&n),
            _ => None,
        };
        content.unwrap_or_else(|| {
            r.trace.note_not_recorded(
                "graph",
                "a graph copies data to the device that it copied to the host before, and the data could not be \
                 read: a replay leaves the copy out",
            );
            EntryPayload::Nothing
        })
    }
}

/// Waits until host memory holds the source of a copy. Returns `false` if the wait was not possible.
fn is_there(r: &Recorder, row: &CopyRow, stream: CuStream, form: Form) -> bool {
    let bytes = row.from_pitch.max(row.bytes).saturating_mul(row.rows);
    r.streams.is_source_ready(&r.trace, &r.memory, (stream, form), row)
        && !r.streams.is_awaited(HostAddr::new(row.from), bytes)
}
