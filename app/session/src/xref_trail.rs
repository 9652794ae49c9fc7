//! The references of the selection: their cache, and the search that is running.

use std::sync::Arc;
use trace_core::progress::{Cancelled, Progress};
use trace_core::xref::{Reference, References, XrefTarget};

/// A filter for the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFilter {
    /// All references.
    All,
    /// References after which the value may differ.
    Writes,
    /// References that may depend on the value.
    Reads,
}

/// The references of the target, unless the target is a register.
#[derive(Default)]
pub struct XrefTrail {
    /// The target, whose references are in `list`; `list` is `None` until they are known.
    of: Option<XrefTarget>,
    list: Option<Arc<Vec<Reference>>>,
    asked: Option<Progress>,
}

impl XrefTrail {
    /// Returns the references of the target, without those of only its page.
    fn own(&self) -> &[Reference] {
        let all = self.list.as_deref().map_or(&[][..], Vec::as_slice);
        let own = all.partition_point(|t| !t.is_page_only);
        all.get(..own).unwrap_or_default()
    }

    /// Returns the references of only its page: those with events first, in order.
    #[must_use]
    pub fn page_xrefs(&self) -> &[Reference] {
        let all = self.list.as_deref().map_or(&[][..], Vec::as_slice);
        all.get(self.own().len()..).unwrap_or_default()
    }

    /// Returns the references with events, in event order.
    #[must_use]
    pub fn event_xrefs(&self) -> &[Reference] {
        let all = self.own();
        // References without events come after those with events.
        let happened = all.partition_point(|t| t.event.is_some());
        all.get(..happened).unwrap_or_default()
    }

    /// Returns the references without events.
    #[must_use]
    pub fn static_xrefs(&self) -> &[Reference] {
        self.own().get(self.event_xrefs().len()..).unwrap_or_default()
    }

    /// Whether the search is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.list.is_some()
    }

    /// Whether a search is running.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.of.is_some() && self.list.is_none() && self.asked.is_some()
    }

    /// Stores that a search for a target is running, and cancels the previous one.
    pub fn set_pending(&mut self, followed: XrefTarget, progress: Progress) {
        self.clear();
        self.of = Some(followed);
        self.asked = Some(progress);
    }

    /// Stores the result of a search.
    pub fn set_result(&mut self, followed: XrefTarget, found: Result<References, Cancelled>) {
        if self.of == Some(followed) {
            self.asked = None;
            if let Ok(found) = found {
                self.list = Some(Arc::new(found.list));
            }
        }
    }

    /// Clears the target and cancels its search.
    pub fn clear(&mut self) {
        if let Some(p) = self.asked.take() {
            p.cancel();
        }
        self.of = None;
        self.list = None;
    }

    /// Whether the references are those of this target.
    #[must_use]
    pub fn is_for(&self, followed: XrefTarget) -> bool {
        self.of == Some(followed)
    }
}
