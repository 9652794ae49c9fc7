//! Memory that does not fit: regions that overlap, mapped pages without content, tables that cannot be followed.

use super::{Few, Finding, FindingKind};
use crate::mmu;
use crate::recording::Recording;

/// Regions of one address space that cover the same addresses.
pub(super) fn regions(recording: &Recording, findings: &mut Vec<Finding>) {
    let mut regions: Vec<_> = recording.facts.regions.iter().collect();
    regions.sort_by_key(|r| (r.address_space, r.start, r.end));
    let mut few = Few::new(FindingKind::OverlappingRegions);
    // The region that reaches furthest so far; whatever begins before its end overlaps it.
    let mut furthest: Option<&crate::recording::Region> = None;
    for r in regions {
        if r.end <= r.start {
            continue;
        }
        if let Some(f) = furthest.filter(|f| f.address_space == r.address_space && r.start < f.end) {
            few.add(|| {
                Finding::new(
                    FindingKind::OverlappingRegions,
                    format!("{}", r.start),
                    format!(
                        "the regions {} to {} and {} to {} overlap; the source does not tell when one was given back",
                        f.start, f.end, r.start, r.end
                    ),
                )
            });
        }
        if furthest.is_none_or(|f| f.address_space != r.address_space || r.end > f.end) {
            furthest = Some(r);
        }
    }
    few.tell(findings);
}

/// What the page tables map, held against the contents that there are.
pub(super) fn mappings(recording: &Recording, findings: &mut Vec<Finding>) {
    let view = recording.memory.last();
    let content = mmu::content_frames(&view);
    for space in &recording.facts.address_spaces {
        let scan = mmu::scan(space.format, space.root, &view);
        let mut broken = Few::new(FindingKind::TruncatedSection);
        for p in &scan.problems {
            broken.add(|| {
                let place = format!("page tables of address space {}", space.number);
                Finding::new(FindingKind::TruncatedSection, place, p.to_string())
            });
        }
        broken.tell(findings);
        let mut few = Few::new(FindingKind::MappedWithoutContent);
        for run in mmu::mapped_without(&scan.leaves, &content) {
            few.add(|| {
                let message = format!(
                    "{} pages are mapped here and the recording does not hold their contents; a replay starts them \
                     as zero",
                    run.pages
                );
                Finding::new(FindingKind::MappedWithoutContent, format!("{}", run.va), message)
            });
        }
        few.tell(findings);
    }
}
