//! The results of the analyses of an address space, per mapping.

use super::analysis::{ContentHoleFinder, DoubleMapping, PageSpan, Scan, find_double_mappings};
use super::mali::PAGE_BYTES;
use super::mapping::Mapping;
use crate::json_forms;
use crate::{GpuVa, PhysAddr};
use serde::Serialize;
use std::ops::Range;

/// Aliased pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alias {
    /// First address in the mapping.
    #[serde(serialize_with = "json_forms::text")]
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The other address of the first page.
    #[serde(rename = "also", serialize_with = "json_forms::text")]
    pub alias_va: GpuVa,
    /// Physical address of the first page.
    #[serde(serialize_with = "json_forms::text")]
    pub pa: PhysAddr,
}

/// Notable properties of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingTally {
    /// Whether it is both writable and executable for the GPU.
    pub executable_and_writable: bool,
    /// Aliased parts by address. A page with three addresses is listed with its neighbours in address order: at most
    /// twice.
    pub aliases: Vec<Alias>,
    /// Number of aliased pages, each counted once.
    pub twice: u64,
    /// Number of pages without recorded contents.
    pub without_content: u64,
}

/// Computes the properties of each mapping of a scan. `content` is as in [`ContentHoleFinder::new`].
#[must_use]
pub fn tally(scan: &Scan, content: &[Range<u64>]) -> Vec<MappingTally> {
    let mut out: Vec<MappingTally> = scan
        .mappings
        .iter()
        .map(|m| MappingTally {
            executable_and_writable: m.rights.execute && m.rights.write,
            ..MappingTally::default()
        })
        .collect();
    // A leaf lies in one mapping, and both come by ascending address.
    let holes = ContentHoleFinder::new(content, 0);
    let mut of = scan.mappings.iter().zip(&mut out).peekable();
    for leaf in &scan.leaves {
        while of.next_if(|(m, _)| m.end() <= leaf.va).is_some() {}
        if let Some((_, t)) = of.peek_mut() {
            let first = leaf.pa.frame();
            let pages = holes.without(first..first.saturating_add(leaf.bytes / PAGE_BYTES));
            t.without_content = t.without_content.saturating_add(pages);
        }
    }
    for d in find_double_mappings(&scan.leaves) {
        for (va, also) in [(d.first, d.second), (d.second, d.first)] {
            alias(&scan.mappings, &d, va, also, &mut out);
        }
    }
    for t in &mut out {
        t.aliases.sort_unstable_by_key(|a| (a.va, a.alias_va));
        let mut counted = 0;
        for a in &t.aliases {
            let end = a.va.get().saturating_add(a.pages.saturating_mul(PAGE_BYTES));
            t.twice += end.saturating_sub(a.va.get().max(counted)) / PAGE_BYTES;
            counted = counted.max(end);
        }
    }
    out
}

/// Adds one side of a double mapping to every mapping that it touches.
fn alias(mappings: &[Mapping], d: &DoubleMapping, va: GpuVa, also: GpuVa, out: &mut [MappingTally]) {
    each_part(mappings, PageSpan { va, pages: d.pages }, |at, part| {
        let from = part.va.get().saturating_sub(va.get());
        if let Some(t) = out.get_mut(at) {
            t.aliases.push(Alias {
                va: part.va,
                pages: part.pages,
                alias_va: also.saturating_add(from),
                pa: d.pa.saturating_add(from),
            });
        }
    });
}

/// Cuts a span at the borders of mappings, which are in ascending order, and passes on each part with its mapping's
/// index.
fn each_part(mappings: &[Mapping], span: PageSpan, mut part: impl FnMut(usize, PageSpan)) {
    let end = span.va.get().saturating_add(span.pages.saturating_mul(PAGE_BYTES));
    let first = mappings.partition_point(|m| m.end() <= span.va);
    for (at, m) in mappings.iter().enumerate().skip(first) {
        if m.va.get() >= end {
            break;
        }
        let (from, to) = (m.va.get().max(span.va.get()), m.end().get().min(end));
        let pages = to.saturating_sub(from) / PAGE_BYTES;
        if pages > 0 {
            part(
                at,
                PageSpan {
                    va: GpuVa::new(from),
                    pages,
                },
            );
        }
    }
}
