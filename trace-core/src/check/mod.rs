//! Findings: something suspicious in a recording, with its place and its reason.

mod file;
mod jobs;
mod memory;
mod structure;
mod tables;
#[cfg(test)]
mod tests;
mod undecoded;

pub use file::check_file;
pub use jobs::Submit;

use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use serde::{Deserialize, Serialize};

/// Looks for everything suspicious in a recording. What the importer or recorder noticed comes first; then by
/// severity, the worst first.
#[must_use]
pub fn check(recording: &Recording) -> Vec<Finding> {
    // Nobody can cancel: the progress is this function's own.
    check_with(recording, &Progress::new()).unwrap_or_default()
}

/// The findings of [`FindingKind::UndecodedAccess`] alone, one a space: which ranges hold what nobody knows.
///
/// # Errors
/// When nobody wants them any more.
pub fn undecoded_accesses(recording: &Recording, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let mut findings = Vec::new();
    undecoded::check_undecoded(recording, progress, &mut findings)?;
    Ok(findings)
}

/// [`check`] with progress, a step for events, page tables and jobs each.
///
/// # Errors
/// When the work was cancelled.
pub fn check_with(recording: &Recording, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    check_submits(recording, None, progress)
}

/// [`check_with`] for one who knows the recording's jobs already, so that they are not looked for once more.
///
/// # Errors
/// When the work was cancelled.
pub fn check_submits(
    recording: &Recording,
    submits: Option<&[Submit]>,
    progress: &Progress,
) -> Result<Vec<Finding>, Cancelled> {
    let mut findings = Vec::new();
    progress.set_total(2 * recording.events.len() as u64);
    structure::check_lost_events(recording, &mut findings);
    structure::check_time(recording, progress, &mut findings)?;
    structure::check_registers(recording, progress, &mut findings)?;
    undecoded::check_undecoded(recording, progress, &mut findings)?;
    progress.set_total(recording.facts.address_spaces.len() as u64 + 1);
    memory::check_regions(recording, &mut findings);
    progress.advance(1)?;
    memory::check_mappings(recording, progress, &mut findings)?;
    tables::check_page_tables(recording, progress, &mut findings)?;
    jobs::check_jobs(recording, submits, progress, &mut findings)?;
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    Ok(recording.facts.findings.iter().cloned().chain(findings).collect())
}

/// Things looked at between two reports of progress.
const REPORT_EVERY: usize = 1 << 16;

/// Findings of one kind, at most [`Few::MAX_FINDINGS`] of them told one by one.
struct CappedFindings {
    kind: FindingKind,
    kept: Vec<Finding>,
    more: u64,
}

impl CappedFindings {
    /// More than a person reads, fewer than fill memory.
    const MAX_FINDINGS: usize = 256;

    fn new(kind: FindingKind) -> Self {
        Self {
            kind,
            kept: Vec::new(),
            more: 0,
        }
    }

    fn add(&mut self, finding: impl FnOnce() -> Finding) {
        if self.kept.len() < Self::MAX_FINDINGS {
            self.kept.push(finding());
        } else {
            self.more += 1;
        }
    }

    fn append_to(self, findings: &mut Vec<Finding>) {
        let last = self.kept.last().map(|f| f.place.clone()).unwrap_or_default();
        findings.extend(self.kept);
        if self.more > 0 {
            let message = format!("{} more findings of this kind follow and are not listed", self.more);
            findings.push(Finding::new(self.kind, format!("after {last}"), message));
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Something may be wrong.
    Warning,
    /// The recording, or a part of it, cannot be trusted.
    Error,
}

/// What kind of thing a finding is. The names are part of the command line's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A submitted job header does not decode.
    UndecodedJobHead,
    /// Memory holds something that does not belong there, text in a job descriptor for one.
    ForeignData,
    /// A file or section ends before what it announces.
    TruncatedSection,
    /// The recorder missed events.
    LostEvents,
    /// Two regions cover the same addresses.
    OverlappingRegions,
    /// An event's time is before that of the event before it.
    TimeBackwards,
    /// An access to a register that the register map does not know.
    UnknownRegister,
    /// Mapped memory whose contents the recording does not hold.
    MappedWithoutContent,
    /// An identity or feature register changed its value.
    FeatureChanged,
    /// A read during a replay of state that was there before the recording began.
    StateBeforeRecording,
    /// The source holds something that the importer did not use, and why.
    NotUsed,
    /// The order of two timelines of the same recording differs.
    OrderDiffers,
    /// The source does not tell something that the importer had to take for granted, and what that is.
    Assumed,
    /// Bytes of the file do not agree with their digest.
    DamagedSection,
    /// In a replay, a job's shader did not run, or did not come to its end, and why.
    ShaderNotRun,
    /// Accesses of which the recorder saw the address and not the value.
    UndecodedAccess,
    /// Pages that the GPU may both write and fetch code from.
    WritableAndExecutable,
    /// Physical memory that two addresses reach, which cache it or share it in different ways.
    AliasedAttributes,
    /// Physical memory that two addresses reach with different rights.
    AliasedRights,
    /// Mapped pages of which nothing in the recording tells that anything reads or writes them.
    MappedUnused,
    /// A page table in memory that the GPU may write.
    WritablePageTable,
    /// The recorded program used something of its driver that the recording does not hold, and what that is.
    NotRecorded,
}

impl FindingKind {
    /// The severity that findings of this kind have.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::UndecodedJobHead | Self::ForeignData | Self::TruncatedSection | Self::DamagedSection => {
                Severity::Error
            }
            Self::LostEvents
            | Self::OverlappingRegions
            | Self::TimeBackwards
            | Self::UnknownRegister
            | Self::UndecodedAccess
            | Self::AliasedAttributes
            | Self::WritablePageTable
            | Self::NotRecorded => Severity::Warning,
            Self::MappedWithoutContent
            | Self::FeatureChanged
            | Self::StateBeforeRecording
            | Self::NotUsed
            | Self::OrderDiffers
            | Self::Assumed
            | Self::ShaderNotRun
            | Self::WritableAndExecutable
            | Self::AliasedRights
            | Self::MappedUnused => Severity::Note,
        }
    }
}

/// Something suspicious in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Where: a file and line, an event, an address.
    pub place: String,
    /// What is wrong and why it matters, in a sentence.
    pub message: String,
    /// The event to jump to, when there is one.
    pub event: Option<u64>,
}

impl Finding {
    /// A finding with its kind's severity.
    #[must_use]
    pub fn new(kind: FindingKind, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            severity: kind.severity(),
            place: place.into(),
            message: message.into(),
            event: None,
        }
    }

    /// The same finding with the event to jump to.
    #[must_use]
    pub fn at_event(mut self, event: u64) -> Self {
        self.event = Some(event);
        self
    }
}
