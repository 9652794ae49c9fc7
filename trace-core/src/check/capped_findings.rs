//! A list of findings of one kind with a limit, and the step of progress reports, for all checks.

use crate::finding::{Finding, FindingKind};

/// Number of items between two progress reports.
pub(super) const REPORT_EVERY: usize = 1 << 16;

/// Findings of one kind; at most [`CappedFindings::MAX_FINDINGS`] are listed one by one.
pub(super) struct CappedFindings {
    kind: FindingKind,
    kept: Vec<Finding>,
    /// Number of findings that are not listed.
    pub(super) more: u64,
}

impl CappedFindings {
    /// Maximum number of findings of one kind: more than a person reads, too few to fill memory.
    pub(super) const MAX_FINDINGS: usize = 256;

    pub(super) fn new(kind: FindingKind) -> Self {
        Self {
            kind,
            kept: Vec::new(),
            more: 0,
        }
    }

    pub(super) fn add(&mut self, finding: impl FnOnce() -> Finding) {
        if self.kept.len() < Self::MAX_FINDINGS {
            self.kept.push(finding());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn append_to(self, findings: &mut Vec<Finding>) {
        let last = self.kept.last().map(|f| f.place.clone()).unwrap_or_default();
        findings.extend(self.kept);
        if self.more > 0 {
            let message = format!("{} more findings of this kind follow and are not listed", self.more);
            findings.push(Finding::new(self.kind, format!("after {last}"), message));
        }
    }
}
