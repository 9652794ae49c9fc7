//! Checks of memory: overlapping regions, mapped pages without content, page tables that cannot be followed.

use super::capped_findings::CappedFindings;
use crate::finding::{Finding, FindingKind};
use crate::mmu::{self, MmuError, Scan, TableItem};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use std::ops::ControlFlow;

/// Finds regions of one address space that cover the same addresses.
pub(super) fn check_regions(recording: &Recording, findings: &mut Vec<Finding>) {
    let mut regions: Vec<_> = recording.metadata.regions.iter().collect();
    regions.sort_by_key(|r| (r.address_space, r.start, r.end));
    let mut few = CappedFindings::new(FindingKind::OverlappingRegions);
    // The region with the highest end so far: a region that starts before that end overlaps it.
    let mut furthest: Option<&crate::recording::Region> = None;
    for r in regions {
        if r.end <= r.start {
            continue;
        }
        if let Some(f) = furthest.filter(|f| f.address_space == r.address_space && r.start < f.end) {
            few.add(|| {
                Finding::at_address(
                    FindingKind::OverlappingRegions,
                    r.start,
                    format!(
                        "the regions {} to {} and {} to {} overlap; the source does not state when one was freed",
                        f.start, f.end, r.start, r.end
                    ),
                )
            });
        }
        if furthest.is_none_or(|f| f.address_space != r.address_space || r.end > f.end) {
            furthest = Some(r);
        }
    }
    few.append_to(findings);
}

/// Number of tables and leaf entries between two checks for cancellation.
const REPORT_EVERY: u64 = 1 << 12;

/// Compares the mappings of the page tables with the contents that exist. Keeps no leaf entries: a small file can map
/// millions of blocks many times.
pub(super) fn check_mappings(
    recording: &Recording,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let view = recording.memory.last();
    let content = mmu::content_frames(&view);
    for space in &recording.metadata.address_spaces {
        let mut broken = CappedFindings::new(FindingKind::TruncatedSection);
        let mut foreign = CappedFindings::new(FindingKind::ForeignData);
        let mut problems = 0;
        let mut holes = mmu::ContentHoleFinder::new(&content, CappedFindings::MAX_FINDINGS);
        let mut passed = 0u64;
        let _ = mmu::visit_all(space.format, space.root, &view, &mut |found| {
            passed += 1;
            if passed.is_multiple_of(REPORT_EVERY) && progress.check().is_err() {
                return ControlFlow::Break(());
            }
            match found {
                TableItem::Table(_) | TableItem::LeafElsewhere(_) => {}
                TableItem::Leaf(l) => holes.add(&l),
                TableItem::Problem(p) => {
                    // An entry without meaning belongs to something else. Nothing is known of a missing table.
                    let (few, kind) = match p {
                        MmuError::BadEntry { .. } => (&mut foreign, FindingKind::ForeignData),
                        _ => (&mut broken, FindingKind::TruncatedSection),
                    };
                    few.add(|| {
                        let place = format!("page tables of address space {}", space.number);
                        Finding::new(kind, place, p.to_string())
                    });
                    problems += 1;
                    if problems >= Scan::MAX_PROBLEMS {
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        progress.check()?;
        broken.append_to(findings);
        foreign.append_to(findings);
        let holes = holes.finish();
        let last = holes.spans.last().map(|r| r.va);
        for run in holes.spans {
            let message = format!(
                "{} pages are mapped here, but the recording does not hold their contents; a replay starts them as \
                 zero",
                run.pages
            );
            findings.push(Finding::at_address(FindingKind::MappedWithoutContent, run.va, message));
        }
        if let Some(last) = last.filter(|_| holes.more_pages > 0) {
            let message = format!(
                "{} more pages without content are mapped in further runs, which are not listed",
                holes.more_pages
            );
            findings.push(Finding::new(
                FindingKind::MappedWithoutContent,
                format!("after {last}"),
                message,
            ));
        }
        progress.advance(1)?;
    }
    Ok(())
}
