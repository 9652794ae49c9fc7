//! Causes of differences: a search from a difference back, step by step, to the earliest one that could have caused
//! it.
//!
//! A recording holds what the driver did and what it read, not why. Some steps are certain: a write set the register
//! that is read, the CPU stored the byte. Others are only possible: a job may have read the byte, the driver may have
//! acted on what it read. Each step says which it is, and each is before the one that it explains.

use super::event_alignment::{DiffSide, EventAlignment};
use super::event_diff::ChangeKind;
use super::mapping_changes::{MappingQuery, find_mapping_change};
use super::{BufferDiff, Diff, HostWriteDifference, MappingDifference};
use crate::GpuVa;
use crate::memory::GpuMemoryView;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, AddressSpace, BufferRole, EventKind, MemoryView, Recording};
use crate::registers::{Register, RegisterMap, Role, register_space};
use serde::Serialize;

/// Maximum number of steps.
const MAX_STEPS: usize = 64;
/// Maximum number of events in the backward search for the write that set a register.
const MAX_EVENTS_BACK: usize = 1 << 20;
/// Maximum number of bytes of named buffers that are examined for one job.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of registers, and of buffers, whose differences are explained.
const MAX_PER_KIND: usize = 4;

/// The difference to explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// An event of either or both sides.
    Event {
        /// The event in the first recording.
        a: Option<u64>,
        /// The event in the second recording.
        b: Option<u64>,
    },
    /// A byte of memory at the end.
    Byte {
        /// Index of the address space in the list of the first recording, and in that of the second.
        spaces: (u32, u32),
        /// Its address in the first recording.
        a: GpuVa,
        /// Its address in the second recording.
        b: GpuVa,
        /// The buffer that contains the byte.
        buffer: Option<String>,
    },
    /// The mapping of a page at the end.
    Mapping {
        /// Index of the address space in the list of the first recording, and in that of the second.
        spaces: (u32, u32),
        /// Its address in the first recording.
        a: GpuVa,
        /// Its address in the second recording.
        b: GpuVa,
    },
}

/// How a step leads to the previous one in the list, which is later in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The write set the register.
    Set,
    /// The CPU stored the byte.
    Stored,
    /// The CPU stored bytes that the job may read.
    MayFeed,
    /// The job ran, and left the memory or the status.
    Ran,
    /// The register configured the job.
    #[serde(rename = "told")]
    Configured,
    /// The driver read this before and may have acted on it.
    MayDecide,
    /// The job may have read bytes that differ from the start.
    Held,
    /// The difference exists since this job was started; the recordings do not show its cause.
    Since,
}

impl Link {
    /// Returns whether the step certainly contributed to the later one.
    #[must_use]
    pub fn is_certain(self) -> bool {
        matches!(self, Self::Set | Self::Stored | Self::Configured)
    }

    /// Returns a description of the link, to be followed by that of the step.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Set => "was set by",
            Self::Stored => "was stored by the CPU:",
            Self::MayFeed => "may have read bytes that the CPU stored:",
            Self::Ran => "came after",
            Self::Configured => "was configured by",
            Self::MayDecide => "may follow from",
            Self::Since => "is so since",
            Self::Held => "may have read bytes that differ from the start:",
        }
    }
}

/// A difference, or a job, that contributed to a later difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The event of the first recording; `None` if it has none.
    pub a: Option<u64>,
    /// The event of the second recording; `None` if it has none.
    pub b: Option<u64>,
    /// How the step leads to the previous one in the list.
    pub link: Link,
    /// The buffer whose bytes contributed, if it is known.
    pub buffer: Option<String>,
}

/// The cause of a difference: the last step is the earliest that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The difference.
    pub effect: Effect,
    /// Steps back from the difference; empty if nothing earlier differs.
    pub steps: Vec<Step>,
}

/// Events of both sides at one position.
type Pair = (Option<u64>, Option<u64>);

struct Walk<'r> {
    a: &'r Recording,
    b: &'r Recording,
    diff: &'r Diff,
    aligned: &'r EventAlignment,
    map: Option<&'r RegisterMap>,
    /// By block: the number of positions before it.
    starts: Vec<u64>,
    spaces: (u8, u8),
}

impl<'r> Walk<'r> {
    fn new(a: &'r Recording, b: &'r Recording, diff: &'r Diff, aligned: &'r EventAlignment) -> Self {
        let map = RegisterMap::built_in_for(a).or_else(|| RegisterMap::built_in_for(b));
        let mut all = 0u64;
        let starts = aligned.blocks().iter().map(|block| {
            let start = all;
            all += u64::from(block.len);
            start
        });
        Self {
            starts: starts.collect(),
            spaces: (register_space(a, map), register_space(b, map)),
            a,
            b,
            diff,
            aligned,
            map,
        }
    }

    /// Returns the position of an event in the common order of both sides: odd if it is compared itself, even if it
    /// comes before one that is.
    fn place_of(&self, which: DiffSide, event: u64) -> u64 {
        let events = self.aligned.events(which);
        let compared = events.partition_point(|e| u64::from(*e) < event);
        let own = events.get(compared).is_some_and(|e| u64::from(*e) == event);
        let Some(block) = self.aligned.block_at(which, event) else {
            return 0;
        };
        let first = self
            .aligned
            .blocks()
            .get(block)
            .map_or(0, |b| EventAlignment::first(b, which));
        let start = self.starts.get(block).copied().unwrap_or(0);
        let by = (compared as u64).saturating_sub(u64::from(first));
        2 * (start + by) + u64::from(own)
    }

    fn place(&self, pair: Pair) -> u64 {
        match pair {
            (Some(a), _) => self.place_of(DiffSide::A, a),
            (None, Some(b)) => self.place_of(DiffSide::B, b),
            (None, None) => 0,
        }
    }

    /// Iterates over the differences before a position, last first.
    fn before(&self, place: u64) -> impl Iterator<Item = Pair> + '_ {
        let ended = self.starts.partition_point(|s| 2 * s < place);
        let blocks = self.aligned.blocks().iter().zip(&self.starts).take(ended).rev();
        let differing = blocks.filter(|(b, _)| b.change.differs());
        differing.flat_map(move |(block, start)| {
            let len = u64::from(block.len).min((place / 2).saturating_sub(*start));
            let (of_a, of_b) = (block.len_a() > 0, block.len_b() > 0);
            (0..len as u32).rev().map(move |k| {
                let a = of_a.then(|| self.aligned.event_a(block.a + k)).flatten();
                let b = of_b.then(|| self.aligned.event_b(block.b + k)).flatten();
                (a, b)
            })
        })
    }

    fn access(&self, which: DiffSide, event: Option<u64>) -> Option<Access> {
        let recording = match which {
            DiffSide::A => self.a,
            DiffSide::B => self.b,
        };
        recording.events.access(usize::try_from(event?).ok()?)
    }

    /// Returns the access of either side; that of the first if both have one.
    fn access_of_pair(&self, pair: Pair) -> Option<(Access, bool)> {
        let a = self.access(DiffSide::A, pair.0).map(|x| (x, x.space == self.spaces.0));
        a.or_else(|| self.access(DiffSide::B, pair.1).map(|x| (x, x.space == self.spaces.1)))
    }

    fn register(&self, access: &Access, in_registers: bool) -> Option<&'r Register> {
        let map = self.map.filter(|_| in_registers)?;
        map.covered_registers(access.offset, access.width)
            .next()
            .map(|p| p.register)
    }

    /// Returns the last write to the location of an access, before that access.
    fn last_write(&self, which: DiffSide, before: Option<u64>, of: &Access) -> Option<u64> {
        let recording = match which {
            DiffSide::A => self.a,
            DiffSide::B => self.b,
        };
        let end = usize::try_from(before?).ok()?;
        let from = end.saturating_sub(MAX_EVENTS_BACK);
        (from..end).rev().find_map(|e| {
            let a = recording.events.access(e)?;
            (a.write && (a.space, a.offset) == (of.space, of.offset)).then_some(e as u64)
        })
    }

    /// Returns whether the writes that set a register differ.
    fn has_difference(&self, (x, y): Pair) -> bool {
        let what = |which, e: Option<u64>| e.and_then(|e| self.aligned.change_at(which, e));
        let differs = |w: Option<ChangeKind>| w.is_some_and(ChangeKind::differs);
        differs(what(DiffSide::A, x)) || differs(what(DiffSide::B, y)) || x.is_some() != y.is_some()
    }

    /// Returns the submits of the jobs that were started last before a position.
    fn job_before(&self, place: u64) -> Option<Pair> {
        let begun = |pair: &Pair| *pair != (None, None) && self.place(*pair) < place;
        self.aligned
            .job_intervals()
            .iter()
            .rev()
            .map(super::event_alignment::JobInterval::submits)
            .find(begun)
    }

    /// Returns the step that contributed to an event.
    fn before_event(&self, pair: Pair) -> Option<Step> {
        let place = self.place(pair);
        let step = |(a, b): Pair, link: Link| Step {
            a,
            b,
            link,
            buffer: None,
        };
        let submits = self
            .aligned
            .job_intervals()
            .iter()
            .map(super::event_alignment::JobInterval::submits);
        let is_submit = submits.clone().any(|s| {
            let same = |x: Option<u64>, y: Option<u64>| x.is_some() && x == y;
            same(s.0, pair.0) || same(s.1, pair.1)
        });
        if is_submit {
            if let Some(found) = self.before_job(pair, place) {
                return Some(found);
            }
        } else if let Some((access, in_registers)) = self.access_of_pair(pair) {
            let register = self.register(&access, in_registers);
            if !access.write {
                let of = |which| {
                    self.access(which, if which == DiffSide::A { pair.0 } else { pair.1 })
                        .unwrap_or(access)
                };
                let set = (
                    self.last_write(DiffSide::A, pair.0, &of(DiffSide::A)),
                    self.last_write(DiffSide::B, pair.1, &of(DiffSide::B)),
                );
                if set != (None, None) && self.place(set) < place && self.has_difference(set) {
                    return Some(step(set, Link::Set));
                }
                let of_job = matches!(
                    register.and_then(|r| r.replay.role),
                    Some(
                        Role::JobStatus
                            | Role::JobCurrent
                            | Role::JobTail
                            | Role::FaultStatus
                            | Role::FaultAddress
                            | Role::GpuFaultStatus
                            | Role::GpuFaultAddress
                            | Role::IrqStatus(_)
                            | Role::IrqRawstat(_)
                    )
                );
                if let Some(job) = self.job_before(place).filter(|_| of_job || self.map.is_none()) {
                    return Some(step(job, Link::Ran));
                }
                return None;
            }
        } else if self.kind(pair) == Some(EventKind::Interrupt)
            && let Some(job) = self.job_before(place)
        {
            return Some(step(job, Link::Ran));
        }
        // The driver decided its own actions: the last differing value that it read may have led to them.
        let read = |p: &Pair| {
            let kind = self.kind(*p);
            kind == Some(EventKind::Interrupt) || self.access_of_pair(*p).is_some_and(|(a, _)| !a.write)
        };
        self.before(place).find(read).map(|p| step(p, Link::MayDecide))
    }

    fn kind(&self, pair: Pair) -> Option<EventKind> {
        let of = |r: &Recording, e: Option<u64>| r.events.kind(usize::try_from(e?).ok()?);
        of(self.a, pair.0).or_else(|| of(self.b, pair.1))
    }

    /// Returns the step before a job's submit that contributed to its work: registers of its slot, or CPU stores.
    fn before_job(&self, submit: Pair, place: u64) -> Option<Step> {
        let slot = self.access_of_pair(submit).and_then(|(a, r)| self.register(&a, r));
        let since = self.job_before(place).map_or(0, |p| self.place(p));
        let reported = self.before(place).take_while(|p| self.place(*p) > since).find(|p| {
            self.access_of_pair(*p).is_some_and(|(a, r)| {
                let register = self.register(&a, r);
                let same_slot = match (register, slot) {
                    (Some(r), Some(s)) => (&r.block, r.index) == (&s.block, s.index),
                    _ => true,
                };
                // The flush that a job waits for differs between runs.
                let own = register.is_some_and(|r| r.replay.role == Some(Role::FlushId));
                a.write && same_slot && !own
            })
        });
        if let Some((a, b)) = reported {
            return Some(Step {
                a,
                b,
                link: Link::Configured,
                buffer: None,
            });
        }
        if let Some(found) = self.find_feeding_write(submit, place) {
            return Some(found);
        }
        let stored = self.diff.host_writes.list.iter().map(|h| (h.a, h.b));
        let (a, b) = stored
            .filter(|p| self.place(*p) < place)
            .max_by_key(|p| self.place(*p))?;
        Some(Step {
            a,
            b,
            link: Link::MayFeed,
            buffer: None,
        })
    }

    /// Returns the write that put other bytes into a named buffer that a job found, for the buffer that was written
    /// last.
    fn find_feeding_write(&self, submit: Pair, place: u64) -> Option<Step> {
        let (x, y) = (submit.0?, submit.1?);
        let mut bytes_left = MAX_BYTES;
        let mut found: Option<(u64, Step)> = None;
        for of_a in &self.a.metadata.buffers {
            let Some(of_b) = self.b.metadata.buffers.iter().find(|b| b.name == of_a.name) else {
                continue;
            };
            let bytes = of_a.bytes.min(of_b.bytes).min(bytes_left);
            bytes_left -= bytes;
            let spaces = (of_a.address_space, of_b.address_space);
            let (Some(one), Some(two)) = (
                self.a.metadata.address_spaces.get(spaces.0 as usize),
                self.b.metadata.address_spaces.get(spaces.1 as usize),
            ) else {
                continue;
            };
            let read = |view: MemoryView<'_>, space, va| GpuMemoryView::new(view, space).read_range(va, bytes).bytes;
            let (p, q) = (
                read(self.a.memory.at(x), one, of_a.va),
                read(self.b.memory.at(y), two, of_b.va),
            );
            let Some(by) = p.iter().zip(&q).position(|(v, w)| v != w) else {
                continue;
            };
            let at = |va: GpuVa| va.saturating_add(by as u64);
            let put = self.byte_before(spaces, (at(of_a.va), at(of_b.va)), Some(submit));
            let (when, mut step) = match put {
                Some(s) => (self.place((s.a, s.b)), s),
                // Job outputs differ here only because the recording holds memory at its end alone.
                None if of_a.role == BufferRole::Output => continue,
                None => (
                    0,
                    Step {
                        a: None,
                        b: None,
                        link: Link::Held,
                        buffer: None,
                    },
                ),
            };
            if step.link == Link::Stored {
                step.link = Link::MayFeed;
            }
            step.buffer = Some(of_a.name.clone());
            if when < place && found.as_ref().is_none_or(|f| f.0 < when) {
                found = Some((when, step));
            }
        }
        found.map(|f| f.1)
    }

    /// Returns the store of a byte, or the job after which it first differs and stays different: at the end, or as a
    /// job's submit found it.
    fn byte_before(&self, spaces: (u32, u32), at: (GpuVa, GpuVa), submit: Option<Pair>) -> Option<Step> {
        let (of_a, of_b) = (
            self.a.metadata.address_spaces.get(spaces.0 as usize)?,
            self.b.metadata.address_spaces.get(spaces.1 as usize)?,
        );
        let byte = |view: MemoryView<'_>, space: &AddressSpace, va: GpuVa| {
            let memory = GpuMemoryView::new(view, space);
            // Memory without contents starts as zero.
            memory
                .page(va)
                .0
                .map_or(0, |p| p.get(va.in_page()).copied().unwrap_or(0))
        };
        let differs = |x: u64, y: u64| byte(self.a.memory.at(x), of_a, at.0) != byte(self.b.memory.at(y), of_b, at.1);
        let until = match submit {
            Some((x, _)) => self.aligned.job_intervals().iter().position(|c| c.submits().0 == x)?,
            None => self.aligned.job_intervals().len(),
        };
        let mut found = None;
        for course in self.aligned.job_intervals().iter().take(until).rev() {
            let (Some(x), Some(y)) = (course.a.as_ref(), course.b.as_ref()) else {
                continue;
            };
            if !differs(x.end, y.end) {
                break;
            }
            found = Some(course);
        }
        let course = found?;
        let holds = |h: &&HostWriteDifference| {
            h.address_space == of_a.number
                && h.job == course.job
                && at.0.offset_from(h.va).is_some_and(|by| by < h.bytes)
        };
        let step = |(a, b): Pair, link| Step {
            a,
            b,
            link,
            buffer: None,
        };
        if let Some(h) = self.diff.host_writes.list.iter().find(holds) {
            return Some(step((h.a, h.b), Link::Stored));
        }
        let submits = course.submits();
        (submits != (None, None)).then(|| step(submits, Link::Ran))
    }

    /// Returns the step that changed the mapping of a page.
    fn mapping_before(
        &self,
        spaces: (u32, u32),
        (a, b): (GpuVa, GpuVa),
        progress: &Progress,
    ) -> Result<Option<Step>, Cancelled> {
        let place = |recording: &'r Recording, space: u32, va| {
            let space = recording.metadata.address_spaces.get(space as usize)?;
            Some(MappingQuery { recording, space, va })
        };
        let (Some(a), Some(b)) = (place(self.a, spaces.0, a), place(self.b, spaces.1, b)) else {
            return Ok(None);
        };
        find_mapping_change(a, b, self.aligned.job_intervals(), progress)
    }

    /// Returns the last job, for a buffer that jobs write. If a recording holds memory at its end alone, it does not
    /// show after which job a byte differs.
    fn last_job(&self, buffer: Option<&str>) -> Option<Step> {
        let found = self
            .a
            .metadata
            .buffers
            .iter()
            .find(|b| Some(b.name.as_str()) == buffer)?;
        if found.role != BufferRole::Output {
            return None;
        }
        let (a, b) = self.job_before(u64::MAX)?;
        Some(Step {
            a,
            b,
            link: Link::Ran,
            buffer: None,
        })
    }

    fn cause(&self, effect: Effect, progress: &Progress) -> Result<Cause, Cancelled> {
        let mut steps: Vec<Step> = Vec::new();
        let mut next = match &effect {
            Effect::Event { a, b } => self.before_event((*a, *b)),
            Effect::Byte { spaces, a, b, buffer } => {
                let stored = self.byte_before(*spaces, (*a, *b), None);
                stored.or_else(|| self.last_job(buffer.as_deref()))
            }
            Effect::Mapping { spaces, a, b } => self.mapping_before(*spaces, (*a, *b), progress)?,
        };
        let mut last = match &effect {
            Effect::Event { a, b } => self.place((*a, *b)),
            Effect::Byte { .. } | Effect::Mapping { .. } => u64::MAX,
        };
        while let Some(step) = next.take() {
            progress.check()?;
            let place = self.place((step.a, step.b));
            if place >= last || steps.len() >= MAX_STEPS {
                break;
            }
            last = place;
            let pair = (step.a, step.b);
            steps.push(step);
            if pair == (None, None) {
                break;
            }
            next = self.before_event(pair);
        }
        // A job before which nothing differs stays in the list: the device behaved differently with the same work.
        Ok(Cause { effect, steps })
    }
}

/// Finds the cause of one difference.
///
/// # Errors
/// If the work was cancelled.
pub fn find_cause(
    (a, b): (&Recording, &Recording),
    (diff, aligned): (&Diff, &EventAlignment),
    effect: Effect,
    progress: &Progress,
) -> Result<Cause, Cancelled> {
    Walk::new(a, b, diff, aligned).cause(effect, progress)
}

/// Returns the first differing byte of a buffer as an effect to explain; `None` if one side lacks the buffer, or no
/// element differs.
#[must_use]
pub fn first_byte_effect(a: &Recording, b: &Recording, d: &BufferDiff) -> Option<Effect> {
    let space = |r: &Recording| {
        let found = r.metadata.buffers.iter().find(|x| x.name == d.name)?;
        Some(found.address_space)
    };
    let e = d.elements.as_ref()?;
    let first = e.first?;
    // The first byte of the element that differs.
    let within = (first.a ^ first.b).trailing_zeros() / 8;
    let by = first
        .index
        .saturating_mul(e.element.bytes() as u64)
        .saturating_add(u64::from(within));
    Some(Effect::Byte {
        spaces: (space(a)?, space(b)?),
        a: GpuVa::new(d.a?.0.get().saturating_add(by)),
        b: GpuVa::new(d.b?.0.get().saturating_add(by)),
        buffer: Some(d.name.clone()),
    })
}

/// Returns the first page of a run with a different mapping as an effect to explain; `None` if one side lacks the
/// address space.
#[must_use]
pub fn mapping_effect(a: &Recording, b: &Recording, m: &MappingDifference) -> Option<Effect> {
    let space = |r: &Recording| {
        let at = r
            .metadata
            .address_spaces
            .iter()
            .position(|s| s.number == m.address_space);
        u32::try_from(at?).ok()
    };
    Some(Effect::Mapping {
        spaces: (space(a)?, space(b)?),
        a: m.va,
        // A moved run is mapped at both addresses, by one side each; the address of the first recording explains
        // both.
        b: m.va,
    })
}

/// Finds the causes of several differences: the first event, the first access of some registers, the first run of
/// pages with a different mapping, and the first byte of some buffers.
///
/// # Errors
/// If the work was cancelled.
pub fn find_causes(
    (a, b): (&Recording, &Recording),
    (diff, aligned): (&Diff, &EventAlignment),
    progress: &Progress,
) -> Result<Vec<Cause>, Cancelled> {
    // The search goes from register to register; calls have none.
    if a.api().is_some() && b.api().is_some() {
        return Ok(Vec::new());
    }
    let walk = Walk::new(a, b, diff, aligned);
    let mut effects: Vec<Effect> = Vec::new();
    let first = diff.events.list.iter().take(1).map(|e| (e.a, e.b));
    let registers = diff.registers.iter().take(MAX_PER_KIND).map(|r| r.first);
    for (a, b) in first.chain(registers) {
        let effect = Effect::Event { a, b };
        if !effects.contains(&effect) {
            effects.push(effect);
        }
    }
    effects.extend(
        diff.mappings
            .list
            .iter()
            .take(1)
            .filter_map(|m| mapping_effect(a, b, m)),
    );
    let differing = diff.buffers.iter().filter(|b| b.differs());
    for d in differing.take(MAX_PER_KIND) {
        effects.extend(first_byte_effect(a, b, d));
    }
    effects.into_iter().map(|e| walk.cause(e, progress)).collect()
}
