//! Comparison of job descriptors field by field: the descriptors of every chain, as its submit found them.
//!
//! The jobs of a chain are matched in order, and their descriptors by kind: header, payload, draw descriptor and the
//! renderer state that it points to. An address field that differs only by relocation is no difference. Neither is a
//! status field that the device writes, because it is not part of the job's work.

use super::event_alignment::JobInterval;
use super::event_diff::{JobPair, MAX_LISTED_DIFFERENCES};
use super::relocation::Relocations;
use super::rules::Rules;
use crate::GpuVa;
use crate::families::{ChainJob, address_spaces, find_family_with};
use crate::memory::{GpuMemory, GpuMemoryView};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::{FieldKind, Layout, RegisterMap};
use serde::Serialize;
use std::collections::HashSet;

/// Size of the longest descriptor that has a layout, bytes: a draw descriptor.
const MAX_DESCRIPTOR_BYTES: usize = 128;

/// Job descriptors, compared field by field: the descriptors of the chains of matching jobs, each as its submit found
/// it. Jobs that run the same chains again, with the same snapshots, are compared once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DescriptorDiff {
    /// Number of descriptors that are the same on both sides.
    pub same: u64,
    /// Number of descriptors with a field that differs.
    pub changed: u64,
    /// Number of jobs of chains that only the first recording has.
    pub only_a: u64,
    /// Number of jobs of chains that only the second recording has.
    pub only_b: u64,
    /// Number of address fields that differ only by relocation. They count as no difference.
    pub relocated: u64,
    /// Number of descriptors and jobs that a side does not hold, or that rules exclude.
    pub unknown: u64,
    /// Number of descriptors whose status fields, which the device writes, differ. They count as no difference.
    pub status: u64,
    /// Names of those status fields.
    pub status_fields: Vec<String>,
    /// The first descriptors that differ, at most [`MAX_LISTED_DIFFERENCES`], in the order of the jobs.
    pub list: Vec<DescriptorDifference>,
}

/// A descriptor that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DescriptorDifference {
    /// The jobs whose chain it belongs to.
    pub job: JobPair,
    /// The submits of these jobs, at which it was read: the event of the first recording, and of the second.
    pub events: (u64, u64),
    /// Index of its job in the chain, from 0.
    pub in_chain: u32,
    /// The name of its layout in the register map, for example `draw`.
    pub layout: String,
    /// Numbers of the address spaces that contain it.
    pub spaces: (u8, u8),
    /// Its address in the first recording; `None` if the chain has no such job.
    pub a: Option<GpuVa>,
    /// Its address in the second recording; `None` if the chain has no such job.
    pub b: Option<GpuVa>,
    /// Its size, bytes.
    pub bytes: u32,
    /// Offset of the byte in which the first differing field starts.
    pub first_byte: u32,
    /// Fields that differ: name, and decoded value on each side, empty if a side has none.
    pub fields: Vec<(String, String, String)>,
}

impl DescriptorDiff {
    /// Returns the number of differences.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        self.changed + self.only_a + self.only_b
    }

    /// Returns the same with the sides swapped.
    pub(super) fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.only_a, &mut self.only_b);
        for d in &mut self.list {
            d.job = d.job.swapped();
            d.spaces = (d.spaces.1, d.spaces.0);
            d.events = (d.events.1, d.events.0);
            std::mem::swap(&mut d.a, &mut d.b);
            for f in &mut d.fields {
                std::mem::swap(&mut f.1, &mut f.2);
            }
        }
        self
    }
}

/// The first bit that differs, and the fields that differ: name, and decoded value on each side.
type Differ = (u32, Vec<(String, String, String)>);

/// One side of the comparison.
struct Side<'r> {
    recording: &'r Recording,
    /// For each pair of jobs, the address space that the job runs in, as an index into the recording's list.
    spaces: Vec<Option<u32>>,
}

impl<'r> Side<'r> {
    fn new(recording: &'r Recording, map: &RegisterMap, submits: Vec<Option<u64>>) -> Self {
        let known: Vec<u64> = submits.iter().flatten().copied().collect();
        // Matching jobs may be in another order here; address spaces are requested in event order.
        let mut rising = known;
        rising.sort_unstable();
        rising.dedup();
        let found = address_spaces(recording, map, &rising);
        let of = |submit: Option<u64>| {
            let at = rising.binary_search(&submit?).ok()?;
            found.get(at).copied().flatten()
        };
        Self {
            recording,
            spaces: submits.into_iter().map(of).collect(),
        }
    }

    /// Returns the memory as the submit found it, the snapshot in effect, and the number of the address space.
    fn memory(&self, at: usize, submit: u64) -> Option<(GpuMemoryView<'r>, usize, u8)> {
        let index = self.spaces.get(at).copied().flatten()?;
        let space = self.recording.metadata.address_spaces.get(index as usize)?;
        let view = GpuMemoryView::new(self.recording.memory.at(submit), space);
        let snapshot = self.recording.memory.snapshots.partition_point(|s| s.event <= submit);
        Some((view, snapshot, space.number))
    }
}

/// Compares the descriptors of all matching jobs.
pub(super) fn diff(
    a: &Recording,
    b: &Recording,
    courses: &[JobInterval],
    rules: &Rules,
    progress: &Progress,
) -> Result<DescriptorDiff, Cancelled> {
    let mut out = DescriptorDiff::default();
    let map_of = |r| Some((r, RegisterMap::for_recording(r)?));
    let Some((of_map, map)) = map_of(a).or_else(|| map_of(b)) else {
        return Ok(out);
    };
    let family = find_family_with(of_map, Some(map));
    let header = family.header_layout().and_then(|name| map.layout(name));
    let Some(header) = header.filter(|_| [a, b].iter().all(|r| !r.metadata.address_spaces.is_empty())) else {
        return Ok(out);
    };
    let ignored = rules.memory(a).merge(rules.memory(b));
    let mut relocations = Relocations::from_recordings(a, b);
    let side_a = Side::new(a, map, courses.iter().map(|c| c.submits().0).collect());
    let side_b = Side::new(b, map, courses.iter().map(|c| c.submits().1).collect());
    // Jobs that run the same chains with unchanged memory are compared once.
    let mut seen = HashSet::new();
    progress.set_total(courses.len() as u64);
    for (at, course) in courses.iter().enumerate() {
        progress.advance(1)?;
        let ((Some(submit_a), Some(submit_b)), (Some(head_a), Some(head_b))) = (course.submits(), course.heads) else {
            continue;
        };
        let (Some(mem_a), Some(mem_b)) = (side_a.memory(at, submit_a), side_b.memory(at, submit_b)) else {
            out.unknown += 1;
            continue;
        };
        let key = ((head_a, mem_a.1, mem_a.2), (head_b, mem_b.1, mem_b.2));
        if !seen.insert(key) {
            continue;
        }
        let mut work = Work {
            map,
            header,
            job: course.job,
            events: (submit_a, submit_b),
            spaces: (mem_a.2, mem_b.2),
            memory: (&mem_a.0, &mem_b.0),
            ignored: |space: u8, va: GpuVa, bytes: u64| !ignored.ignored_within(space, va, bytes).is_empty(),
            relocations: &mut relocations,
            out: &mut out,
        };
        let read = |memory, head| family.read_chain(memory, GpuVa::new(head));
        let (Some(chain_a), Some(chain_b)) = (read(&mem_a.0, head_a.get()), read(&mem_b.0, head_b.get())) else {
            continue;
        };
        for n in 0..chain_a.jobs.len().max(chain_b.jobs.len()) {
            if n.is_multiple_of(64) {
                progress.check()?;
            }
            work.jobs(
                n,
                chain_a.jobs.get(n).map(AsRef::as_ref),
                chain_b.jobs.get(n).map(AsRef::as_ref),
            );
        }
    }
    Ok(out)
}

/// The comparison of one pair of chains.
struct Work<'w, 'r, I: Fn(u8, GpuVa, u64) -> bool> {
    map: &'w RegisterMap,
    /// Layout of the header of a job.
    header: &'w Layout,
    job: JobPair,
    /// The submits.
    events: (u64, u64),
    /// Numbers of the address spaces.
    spaces: (u8, u8),
    memory: (&'w GpuMemoryView<'r>, &'w GpuMemoryView<'r>),
    /// Returns whether rules exclude some of these bytes of an address space.
    ignored: I,
    relocations: &'w mut Relocations,
    out: &'w mut DescriptorDiff,
}

impl<I: Fn(u8, GpuVa, u64) -> bool> Work<'_, '_, I> {
    /// Compares two jobs at the same position of their chains.
    fn jobs(&mut self, n: usize, a: Option<&dyn ChainJob>, b: Option<&dyn ChainJob>) {
        let (Some(x), Some(y)) = (a, b) else {
            let kind = a.or(b).and_then(ChainJob::type_name).unwrap_or("job");
            let fields = vec![(
                "job".to_owned(),
                a.map_or_else(String::new, |_| kind.to_owned()),
                b.map_or_else(String::new, |_| kind.to_owned()),
            )];
            self.push_difference(n, self.header, (a.map(ChainJob::va), b.map(ChainJob::va)), (0, fields));
            return;
        };
        let (of_x, of_y) = (x.descriptors(), y.descriptors());
        // Another kind of job has other descriptors: the header shows it.
        let same_kinds = of_x.iter().map(|d| d.0).eq(of_y.iter().map(|d| d.0));
        let pairs = of_x.iter().zip(&of_y).take(if same_kinds { usize::MAX } else { 1 });
        for ((name, at_a), (_, at_b)) in pairs {
            let Some(layout) = self.map.layout(name) else { continue };
            match self.fields(layout, *at_a, *at_b) {
                Some((_, fields)) if fields.is_empty() => self.out.same += 1,
                Some(differ) => self.push_difference(n, layout, (Some(*at_a), Some(*at_b)), differ),
                None => self.out.unknown += 1,
            }
        }
    }

    /// Returns the fields of two descriptors that differ (name, and decoded value on each side), with the first
    /// differing bit. Returns `None` if they are not readable, or excluded by a rule.
    fn fields(&mut self, layout: &Layout, a: GpuVa, b: GpuVa) -> Option<Differ> {
        let bytes = layout.bits.div_ceil(8) as usize;
        let (mut of_a, mut of_b) = ([0; MAX_DESCRIPTOR_BYTES], [0; MAX_DESCRIPTOR_BYTES]);
        let (x, y) = (of_a.get_mut(..bytes)?, of_b.get_mut(..bytes)?);
        let left_out = [(self.spaces.0, a), (self.spaces.1, b)]
            .iter()
            .any(|(space, va)| (self.ignored)(*space, *va, bytes as u64));
        if left_out || !self.memory.0.read(a, x) || !self.memory.1.read(b, y) {
            return None;
        }
        if x == y {
            return Some((0, Vec::new()));
        }
        let (x, y) = (layout.decode_bytes(x), layout.decode_bytes(y));
        let mut out = Vec::new();
        let mut first = layout.bits;
        let mut status = false;
        for (of_a, of_b) in x.fields.iter().zip(&y.fields).filter(|(x, y)| x.value != y.value) {
            if of_a.field.status {
                status = true;
                if !self.out.status_fields.contains(&of_a.field.name) {
                    self.out.status_fields.push(of_a.field.name.clone());
                }
                continue;
            }
            let elsewhere = match of_a.field.kind {
                FieldKind::Address { shift } => {
                    let whole = |value: u64| value.checked_shl(shift).unwrap_or(0);
                    self.relocations
                        .is_relocated(None, (whole(of_a.value), whole(of_b.value)))
                }
                _ => false,
            };
            if elsewhere {
                self.out.relocated += 1;
            } else {
                first = first.min(of_a.field.lo);
                out.push((of_a.field.name.clone(), of_a.text.clone(), of_b.text.clone()));
            }
        }
        self.out.status += u64::from(status);
        // Unknown bits are compared by word, each reported by its position.
        let word = |u: &[crate::registers::Unknown], n: u32| u.iter().find(|u| u.word == n).map_or(0, |u| u.value);
        for n in 0..layout.bits.div_ceil(64) {
            let (p, q) = (word(&x.unknown, n), word(&y.unknown, n));
            if p != q {
                first = first.min(n * 64 + (p ^ q).trailing_zeros());
                out.push((
                    format!("unknown bits of word {n}"),
                    format!("{p:#x}"),
                    format!("{q:#x}"),
                ));
            }
        }
        Some((first, out))
    }

    fn push_difference(
        &mut self,
        n: usize,
        layout: &Layout,
        (a, b): (Option<GpuVa>, Option<GpuVa>),
        (first, fields): Differ,
    ) {
        let count = match (a, b) {
            (Some(_), None) => &mut self.out.only_a,
            (None, Some(_)) => &mut self.out.only_b,
            _ => &mut self.out.changed,
        };
        *count += 1;
        if self.out.list.len() < MAX_LISTED_DIFFERENCES {
            self.out.list.push(DescriptorDifference {
                job: self.job,
                events: self.events,
                in_chain: u32::try_from(n).unwrap_or(u32::MAX),
                layout: layout.name.clone(),
                spaces: self.spaces,
                a,
                b,
                bytes: layout.bits.div_ceil(8),
                first_byte: first / 8,
                fields,
            });
        }
    }
}
