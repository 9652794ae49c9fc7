//! The lists of a comparison: which ones there are, how long each is, and which one opens first.

use super::view::Section;
use kinescope_session::comparison::Comparison;
use kinescope_session::difference::buffers;
use trace_core::diff::Part;

/// Returns the number of entries in a section's list.
pub(super) fn entries(c: &Comparison, section: Section) -> u64 {
    match section {
        Section::Events => c.steps.rows(),
        Section::Calls => (c.diff.calls.list.len() + c.diff.calls.code.len()) as u64,
        Section::Registers => c.diff.registers.len() as u64,
        Section::Writes => c.diff.host_writes.list.len() as u64,
        Section::Descriptors => c.diff.descriptors.list.len() as u64,
        Section::Mappings => c.diff.mappings.list.len() as u64,
        Section::Buffers => (buffers(c).count() + c.diff.pages.list.len()) as u64,
        Section::Rules => c.rules.list.len() as u64,
        // This section has no list.
        Section::Memory => 0,
    }
}

/// Returns the lists that recordings of this kind have.
pub(super) fn list_sections(c: &Comparison) -> &'static [Section] {
    if c.is_api_trace { &Section::CALLS } else { &Section::ALL }
}

/// Returns the list that a comparison opens with: that of the earliest cause. For API traces, the list of calls
/// explains more than the list of their events.
pub(super) fn choose_opening_section(c: &Comparison) -> Option<Section> {
    let section = match c.summary.part {
        Some(Part::Events) if !c.diff.calls.list.is_empty() => Section::Calls,
        Some(Part::Events) => Section::Events,
        Some(Part::Calls) => Section::Calls,
        Some(Part::HostWrites) => Section::Writes,
        Some(Part::Descriptors) => Section::Descriptors,
        Some(Part::Mappings) => Section::Mappings,
        Some(Part::Buffers | Part::Pages) => Section::Buffers,
        None => return find_first_difference(c),
    };
    match entries(c, section) {
        0 => find_first_difference(c),
        _ => Some(section),
    }
}

/// Returns the first list in which something differs.
pub(super) fn find_first_difference(c: &Comparison) -> Option<Section> {
    let lists = |s: &Section| *s != Section::Rules && entries(c, *s) > 0;
    list_sections(c).iter().copied().find(lists)
}
