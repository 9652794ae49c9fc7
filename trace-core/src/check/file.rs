//! Checks of a file against its own digests, which find damage that reading the recording does not touch.

use super::{Finding, FindingKind};
use crate::container::{self, ContainerError};
use crate::progress::Progress;
use std::path::Path;

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
