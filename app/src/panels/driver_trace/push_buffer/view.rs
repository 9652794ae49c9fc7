//! State of the Push buffer panel: the decoded submission, its lines, and the last few decoded ones.

use crate::theme::rows::Rows;
use kinescope_session::driver_data::{ProgramText, PushItem, PushListing};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// Number of decoded submissions that are kept.
const MAX_KEPT: usize = 8;

/// The derived data, and a submission of it.
pub(super) type ListingKey = (usize, u32);

/// A line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PushLine {
    /// Index of the item.
    pub item: u32,
    /// `None` for the item itself, else the number of its line.
    pub detail: Option<u32>,
}

/// The code of a launch below the list.
#[derive(Clone, Default)]
pub(super) struct ShownCode {
    /// Address of the first instruction.
    pub program: GpuVa,
    /// The text, once it is read.
    pub text: Option<Arc<ProgramText>>,
    /// The work that reads it.
    pub reading: Option<Progress>,
    pub list: Rows,
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// The decoded submission, once it is decoded.
    pub listing: Option<Arc<PushListing>>,
    /// Whether the list shows the work of the GPU alone, without methods.
    pub only_work: bool,
    /// The selected line.
    pub(super) selected: Option<u32>,
    /// The submission that is shown, and why: whether the current event is one of its own.
    pub(super) key: Option<ListingKey>,
    pub(super) is_exact: bool,
    pub(super) reading: Option<Progress>,
    pub(super) lines: Vec<PushLine>,
    /// Items that the user folded or unfolded.
    pub(super) toggled: BTreeSet<u32>,
    /// The code of a launch, while the panel shows it.
    pub(super) code: Option<ShownCode>,
    pub(super) list: Rows,
    pub(super) seen_jump: Option<u64>,
    kept: VecDeque<(ListingKey, Arc<PushListing>)>,
}

impl View {
    /// Shows a submission. Returns `false` if it must be decoded first.
    pub(super) fn show(&mut self, key: ListingKey) -> bool {
        self.key = Some(key);
        self.toggled.clear();
        self.selected = None;
        self.close_code();
        self.list.top = 0.0;
        self.listing = self.kept.iter().find(|k| k.0 == key).map(|k| Arc::clone(&k.1));
        self.build_lines();
        self.reveal_launch();
        self.listing.is_some()
    }

    /// Stores a decoded submission, and shows it if it is still the current one.
    pub(super) fn store(&mut self, key: ListingKey, listing: Arc<PushListing>) {
        self.kept.push_front((key, Arc::clone(&listing)));
        self.kept.truncate(MAX_KEPT);
        if self.key == Some(key) {
            self.reading = None;
            self.listing = Some(listing);
            self.build_lines();
            self.reveal_launch();
        }
    }

    /// Hides the code, and stops the work that reads it.
    pub(super) fn close_code(&mut self) {
        if let Some(reading) = self.code.take().and_then(|c| c.reading) {
            reading.cancel();
        }
    }

    /// Brings the first line into view.
    pub fn scroll_to_top(&mut self) {
        self.list.top = 0.0;
    }

    /// Brings the first launch into view: it follows hundreds of methods that prepare it.
    fn reveal_launch(&mut self) {
        let Some(listing) = &self.listing else { return };
        let is_launch = |line: &PushLine| {
            let item = listing.items.get(line.item as usize);
            line.detail.is_none() && matches!(item, Some(PushItem::Launch { .. }))
        };
        if let Some(n) = self.lines.iter().position(is_launch) {
            self.list.reveal(n as u64);
        }
    }

    /// Whether the lines of an item are shown: those of launches are from the start.
    pub(super) fn is_open(&self, n: u32, item: &PushItem) -> bool {
        matches!(item, PushItem::Launch { .. }) != self.toggled.contains(&n)
    }

    /// Shows the lines of an item, or hides them.
    pub(super) fn toggle(&mut self, item: u32) {
        if !self.toggled.remove(&item) {
            self.toggled.insert(item);
        }
        self.build_lines();
    }

    /// Builds the list of lines after a change of the items or of the open ones.
    pub(super) fn build_lines(&mut self) {
        self.lines.clear();
        let Some(listing) = self.listing.clone() else { return };
        for (n, item) in (0u32..).zip(&listing.items) {
            if self.only_work && !item.is_work() {
                continue;
            }
            self.lines.push(PushLine { item: n, detail: None });
            if self.is_open(n, item) {
                let details = 0..item.line_count() as u32;
                self.lines.extend(details.map(|d| PushLine {
                    item: n,
                    detail: Some(d),
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinescope_session::driver_data::PointedBuffer;
    use trace_core::driver_trace::{DecodedMethod, Submission};

    fn listing(index: u32) -> Arc<PushListing> {
        let method = DecodedMethod {
            word: 1,
            subchannel: 1,
            class: None,
            method: 0x100,
            name: None,
            value: 0,
            fields: Vec::new(),
        };
        let at = PointedBuffer {
            va: GpuVa::new(0x1000),
            buffer: None,
        };
        let upload = PushItem::Upload {
            word: 2,
            bytes: 24,
            to: at,
            values: vec![0; 6],
        };
        Arc::new(PushListing {
            submission: Submission {
                index,
                event: 0,
                channel: 0,
                va: GpuVa::new(0),
                bytes: 0,
                doorbell: None,
            },
            items: vec![PushItem::Method(method, None), upload],
            methods: 7,
            launches: 0,
            error: None,
        })
    }

    #[test]
    fn uploads_are_one_line_until_they_are_opened() {
        let mut view = View::default();
        assert!(!view.show((0, 3)));
        view.store((0, 3), listing(3));
        assert_eq!(view.lines.len(), 2);
        view.toggle(1);
        assert_eq!(view.lines.len(), 4, "six words are two lines");
        view.only_work = true;
        view.build_lines();
        assert_eq!(view.lines.len(), 3);
    }

    #[test]
    fn the_last_submissions_are_kept() {
        let mut view = View::default();
        for n in 0..9 {
            view.show((0, n));
            view.store((0, n), listing(n));
        }
        assert!(view.show((0, 8)) && view.show((0, 1)));
        assert!(!view.show((0, 0)), "the oldest one was dropped");
        assert!(!view.show((1, 8)), "it is of another recording");
    }
}
