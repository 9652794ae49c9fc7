//! The checks of a recording: a file for each subject, whose functions [`check_submits`] calls. Each adds its findings
//! to a list; [`FindingKind`] lists their kinds.

mod capped_findings;
mod driver_faults;
mod driver_memory;
mod jobs;
mod memory;
mod structure;
mod tables;
#[cfg(test)]
mod tests;
mod undecoded;

pub use jobs::Submit;

use crate::container::{self, ContainerError};
use crate::driver_trace::DriverWork;
use crate::families::{find_family, read_driver_work};
use crate::finding::{Finding, FindingKind};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use driver_faults::FaultExplainer;
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
    let known = match read_driver_work(recording, progress)? {
        Some(work) => check_driver_trace(recording, &work, progress, &mut findings)?,
        None => recording.metadata.findings.clone(),
    };
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    Ok(known.into_iter().chain(findings).collect())
}

/// Checks a driver trace. Returns the findings of the importer or recorder, with what is nearest to each fault.
fn check_driver_trace(
    recording: &Recording,
    work: &DriverWork,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<Vec<Finding>, Cancelled> {
    let family = find_family(recording);
    driver_memory::check_addresses(recording, work, family, progress, findings)?;
    driver_memory::check_freed(work.trace(), findings);
    let explainer = FaultExplainer::new(recording, work, family);
    findings.extend(explainer.report(family.find_driver_faults(recording, work.trace())));
    let known = recording.metadata.findings.iter();
    Ok(known.map(|f| explainer.extend(f)).collect())
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
