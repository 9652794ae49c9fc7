//! Findings: suspicious properties of a recording, each with its location and reason.

mod jobs;
mod memory;
mod structure;
mod tables;
#[cfg(test)]
mod tests;
mod undecoded;

pub use jobs::Submit;

use crate::container::{self, ContainerError};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Checks a recording for everything suspicious. Findings of the importer or recorder come first; the rest are sorted
/// by severity, worst first.
#[must_use]
pub fn check(recording: &Recording) -> Vec<Finding> {
    // This cannot be cancelled: the progress belongs to this function.
    check_with(recording, &Progress::new()).unwrap_or_default()
}

/// Returns only the findings of kind [`FindingKind::UndecodedAccess`], one per space: the ranges whose content is
/// unknown.
///
/// # Errors
/// If the work was cancelled.
pub fn undecoded_accesses(recording: &Recording, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let mut findings = Vec::new();
    undecoded::check_undecoded(recording, progress, &mut findings)?;
    Ok(findings)
}

/// Does the same as [`check`] with progress: one step each for events, page tables and jobs.
///
/// # Errors
/// If the work was cancelled.
pub fn check_with(recording: &Recording, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    check_submits(recording, None, progress)
}

/// Does the same as [`check_with`] for a caller that already knows the recording's jobs, so that they are not
/// searched again.
///
/// # Errors
/// If the work was cancelled.
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
    progress.set_total(recording.metadata.address_spaces.len() as u64 + 1);
    memory::check_regions(recording, &mut findings);
    progress.advance(1)?;
    memory::check_mappings(recording, progress, &mut findings)?;
    tables::check_page_tables(recording, progress, &mut findings)?;
    jobs::check_jobs(recording, submits, progress, &mut findings)?;
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    Ok(recording.metadata.findings.iter().cloned().chain(findings).collect())
}

/// Finds where a `.kine` file does not match its digests or contradicts itself. Returns nothing for files of other
/// formats. Takes as long as reading the file.
///
/// # Errors
/// If the file cannot be read, or the work was cancelled.
pub fn check_file(path: &Path, progress: &Progress) -> Result<Vec<Finding>, ContainerError> {
    let is_kine = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("kine"));
    if !is_kine || !path.is_file() {
        return Ok(Vec::new());
    }
    let report = container::verify_with(path, progress)?;
    let listed = report.findings.len() as u64;
    let finding = |place: String, what: String| Finding::new(FindingKind::DamagedSection, place, what);
    let mut findings: Vec<Finding> = report
        .findings
        .into_iter()
        .map(|p| finding(format!("byte {:#x}", p.byte), p.message))
        .collect();
    if report.finding_count > listed {
        let more = format!(
            "{} more problems were found; the list has only the first {listed}",
            report.finding_count - listed
        );
        findings.push(finding("the file".into(), more));
    }
    if report.trailing_bytes > 0 {
        let what = format!(
            "the recording was not closed, or its file was truncated: the {} bytes after the last complete commit are \
             unusable and their events are lost",
            report.trailing_bytes
        );
        findings.push(Finding::new(FindingKind::LostEvents, "the end of the file", what));
    }
    Ok(findings)
}

/// Number of items between two progress reports.
const REPORT_EVERY: usize = 1 << 16;

/// Findings of one kind; at most [`CappedFindings::MAX_FINDINGS`] are listed one by one.
struct CappedFindings {
    kind: FindingKind,
    kept: Vec<Finding>,
    more: u64,
}

impl CappedFindings {
    /// Maximum number of findings of one kind: more than a person reads, too few to fill memory.
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

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information.
    Note,
    /// Something may be wrong.
    Warning,
    /// The recording, or a part of it, cannot be trusted.
    Error,
}

/// The kind of a finding. The names are part of the command line's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A submitted job header does not decode.
    UndecodedJobHead,
    /// Memory holds unexpected data, for example text in a job descriptor.
    ForeignData,
    /// A file or section ends before its declared size.
    TruncatedSection,
    /// The recorder missed events.
    LostEvents,
    /// Two regions cover the same addresses.
    OverlappingRegions,
    /// An event's time is before that of the event before it.
    TimeBackwards,
    /// An access to a register that is not in the register map.
    UnknownRegister,
    /// Mapped memory whose contents the recording does not hold.
    MappedWithoutContent,
    /// An identity or feature register changed its value.
    FeatureChanged,
    /// A read during a replay shows state from before the recording.
    StateBeforeRecording,
    /// The importer skipped something in the source, with the reason.
    NotUsed,
    /// The order of two timelines of the same recording differs.
    OrderDiffers,
    /// The source lacks information, and the importer assumed a value.
    Assumed,
    /// Bytes of the file do not match their digest.
    DamagedSection,
    /// In a replay, a job's shader did not run or did not finish, with the reason.
    ShaderNotRun,
    /// Accesses whose address was recorded but not their value.
    UndecodedAccess,
    /// Pages that the GPU may both write and execute.
    WritableAndExecutable,
    /// Physical memory that is mapped at two addresses with different cacheability or shareability.
    AliasedAttributes,
    /// Physical memory that is mapped at two addresses with different access rights.
    AliasedRights,
    /// Mapped pages with no recorded reads or writes.
    MappedUnused,
    /// A page table in memory that the GPU may write.
    WritablePageTable,
    /// The recorded program used a driver feature that the recording does not hold.
    NotRecorded,
}

impl FindingKind {
    /// Returns the severity of findings of this kind.
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
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The severity.
    pub severity: Severity,
    /// The location: a file and line, an event, or an address.
    pub place: String,
    /// What is wrong and why it matters, in one sentence.
    pub message: String,
    /// The event to jump to, if there is one.
    pub event: Option<u64>,
}

impl Finding {
    /// Creates a finding with the severity of its kind.
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

    /// Returns the same finding with an event to jump to.
    #[must_use]
    pub fn at_event(mut self, event: u64) -> Self {
        self.event = Some(event);
        self
    }
}
