//! Comparison of events job by job: equal, changed, moved, or on one side only; and the registers that differ.

use super::align::{Common, Step};
use super::anchors::align_long;
use super::calls::{self, CallComparer, CallDiff};
use super::event_alignment::{Block, EventAlignment, JobInterval};
use super::event_diff::{
    ChangeKind, EventDiff, EventDifference, JobPair, MAX_LISTED_DIFFERENCES, OneSided, RegisterDiff,
};
use super::moved_events::{self, MovedEvents};
use super::relocation::Relocations;
use super::rules::Rules;
use super::stream::{self, Item, Key, Rule, Side, SpaceNumbers, Stream};
use crate::RegOffset;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, EventKind, Recording};
use crate::registers::{Direction, RegisterMap, Role, format_location};
use std::collections::BTreeMap;
use std::ops::Range;

/// All results of comparing the events of two recordings.
pub(super) struct Compared {
    pub events: EventDiff,
    pub registers: Vec<RegisterDiff>,
    pub calls: CallDiff,
    /// Number of jobs on each side.
    pub jobs: (u64, u64),
    pub aligned: EventAlignment,
}

impl Compared {
    /// Returns the same with the sides swapped.
    fn swapped(self) -> Self {
        Self {
            events: self.events.swapped(),
            registers: self.registers.into_iter().map(RegisterDiff::swapped).collect(),
            calls: self.calls.swapped(),
            jobs: (self.jobs.1, self.jobs.0),
            aligned: self.aligned.swapped(),
        }
    }
}

/// Compares the events of two recordings.
pub(super) fn diff(a: &Recording, b: &Recording, rules: &Rules, progress: &Progress) -> Result<Compared, Cancelled> {
    let map_of = |r: &Recording| RegisterMap::for_recording(r);
    let map = map_of(a).or_else(|| map_of(b));
    let (names_a, names_b) = SpaceNumbers::from_recordings(a, b);
    let (seen_a, seen_b) = (stream::count_recorder_dependent(a), stream::count_recorder_dependent(b));
    let mut both = [false; 3];
    let mut one_sided = Vec::new();
    for (((kind, x), y), both) in stream::RECORDER_DEPENDENT_KINDS
        .into_iter()
        .zip(seen_a)
        .zip(seen_b)
        .zip(&mut both)
    {
        *both = x > 0 && y > 0;
        if !*both && x + y > 0 && rules.compares(kind) {
            one_sided.push(OneSided { kind, a: x, b: y });
        }
    }
    let known = calls::index_calls(a, b, progress)?;
    let (known_a, known_b) = (known.as_ref().map(|k| &k.0), known.as_ref().map(|k| &k.1));
    let (foreign_a, foreign_b) = (stream::foreign_spaces(a, b), stream::foreign_spaces(b, a));
    let foreign = (stream::accesses_to(a, &foreign_a), stream::accesses_to(b, &foreign_b));
    let not_played = (
        known_a.map_or(0, |k| stream::count_not_played(a, k)),
        known_b.map_or(0, |k| stream::count_not_played(b, k)),
    );
    let side_a = Side::new(a, map, names_a, both, rules, known_a).without_spaces(foreign_a);
    let side_b = Side::new(b, map, names_b, both, rules, known_b).without_spaces(foreign_b);
    let (of_a, of_b) = rayon::join(
        || stream::read_stream(&side_a, progress),
        || stream::read_stream(&side_b, progress),
    );
    let (of_a, of_b) = (of_a?, of_b?);
    // Of several equally good alignments, the one that is found depends on which side is first. A fixed order of the
    // sides makes the result independent of the order of the arguments.
    let mut found = if (&of_a.tokens, &of_a.events) <= (&of_b.tokens, &of_b.events) {
        compare((&side_a, of_a), (&side_b, of_b), rules, progress)?
    } else {
        compare((&side_b, of_b), (&side_a, of_a), rules, progress)?.swapped()
    };
    found.events.one_sided = one_sided;
    found.events.foreign = foreign;
    found.events.not_played = not_played;
    Ok(found)
}

/// Matching jobs, by index.
type CoursePair = (Option<usize>, Option<usize>);

/// Matches jobs. If both sides have the same number, they match in order. Otherwise jobs that do exactly the same are
/// matched first, in order; between those, jobs with the same head; and between those, jobs in order, as long as both
/// sides have any.
fn pairs(a: &Stream, b: &Stream, progress: &Progress) -> Result<Vec<CoursePair>, Cancelled> {
    let (n, m) = (a.courses.len(), b.courses.len());
    if n == m {
        return Ok((0..n).map(|i| (Some(i), Some(i))).collect());
    }
    let digest = |parts: &[u64]| -> u64 {
        let fold = |d: u64, t: &u64| d.rotate_left(25).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ t;
        parts.iter().fold(parts.len() as u64, fold)
    };
    // The events before the first job always match.
    let heads = |s: &Stream| -> Vec<u64> {
        let of = s.courses.iter().skip(1);
        of.map(|c| digest(&[u64::from(c.head.0.unwrap_or(u8::MAX)), c.head.1.get()]))
            .collect()
    };
    let whole = |s: &Stream, heads: &[u64]| -> Vec<u64> {
        let of = s.courses.iter().skip(1).zip(heads);
        of.map(|(c, head)| digest(&[*head, digest(s.tokens.get(c.tokens.clone()).unwrap_or_default())]))
            .collect()
    };
    let (heads_a, heads_b) = (heads(a), heads(b));
    let same = align_long(&whole(a, &heads_a), &whole(b, &heads_b), progress)?;
    let mut out: Vec<CoursePair> = vec![(Some(0), Some(0))];
    let end = Common {
        a: heads_a.len(),
        b: heads_b.len(),
        len: 0,
    };
    let (mut from_a, mut from_b) = (0, 0);
    for c in same.common.into_iter().chain([end]) {
        let (of_a, of_b) = (heads_a.get(from_a..c.a), heads_b.get(from_b..c.b));
        let (of_a, of_b) = (of_a.unwrap_or_default(), of_b.unwrap_or_default());
        let between = align_long(of_a, of_b, progress)?;
        let (mut alone_a, mut alone_b) = (Vec::new(), Vec::new());
        let flush = |alone_a: &mut Vec<usize>, alone_b: &mut Vec<usize>, out: &mut Vec<CoursePair>| {
            for n in 0..alone_a.len().max(alone_b.len()) {
                out.push((alone_a.get(n).copied(), alone_b.get(n).copied()));
            }
            alone_a.clear();
            alone_b.clear();
        };
        for step in between.steps((of_a.len(), of_b.len())) {
            match step {
                Step::A(i) => alone_a.push(from_a + i + 1),
                Step::B(j) => alone_b.push(from_b + j + 1),
                Step::Both(i, j) => {
                    flush(&mut alone_a, &mut alone_b, &mut out);
                    out.push((Some(from_a + i + 1), Some(from_b + j + 1)));
                }
            }
        }
        flush(&mut alone_a, &mut alone_b, &mut out);
        out.extend((0..c.len).map(|n| (Some(c.a + n + 1), Some(c.b + n + 1))));
        (from_a, from_b) = (c.a + c.len, c.b + c.len);
    }
    Ok(out)
}

fn compare(
    a: (&Side<'_>, Stream),
    b: (&Side<'_>, Stream),
    rules: &Rules,
    progress: &Progress,
) -> Result<Compared, Cancelled> {
    let paired = pairs(&a.1, &b.1, progress)?;
    progress.set_total(paired.len() as u64);
    let mut work = Work {
        relocations: Relocations::from_recordings(a.0.recording, b.0.recording),
        a,
        b,
        blocks: Vec::new(),
        jobs: Vec::new(),
        cut_short: Vec::new(),
        counts: EventDiff::default(),
    };
    let mut courses = Vec::with_capacity(paired.len());
    for (i, j) in paired {
        progress.advance(1)?;
        let number = |i: Option<usize>| i.map(|i| u32::try_from(i).unwrap_or(u32::MAX));
        let job = JobPair {
            a: number(i),
            b: number(j),
        };
        let course = |s: &Stream, i: Option<usize>| Some(s.courses.get(i?)?.begin..s.end(i?));
        // The first interval is everything before the first job.
        let head = |s: &Stream, i: Option<usize>| Some(s.courses.get(i.filter(|i| *i > 0)?)?.head.1);
        courses.push(JobInterval {
            job,
            a: course(&work.a.1, i),
            b: course(&work.b.1, j),
            heads: (head(&work.a.1, i), head(&work.b.1, j)),
        });
        work.course(job, (i, j), progress)?;
    }
    let calls = work.judge_calls(rules, progress)?;
    let moved = work.find_moved();
    let registers = work.build_register_diffs(&moved, progress)?;
    let Work { a, b, blocks, .. } = work;
    let mut events = work.counts;
    events.folded = (a.1.folded, b.1.folded);
    events.cut_short = work.cut_short;
    Ok(Compared {
        events,
        registers,
        calls,
        jobs: (a.1.courses.len() as u64 - 1, b.1.courses.len() as u64 - 1),
        aligned: EventAlignment {
            courses,
            events_a: a.1.events,
            events_b: b.1.events,
            blocks,
        },
    })
}

/// How the events in a gap are aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlignBy {
    /// By key and value, without the content.
    Value,
    /// By key alone.
    Key,
}

/// Two streams, and the results so far.
struct Work<'s, 'r> {
    a: (&'s Side<'r>, Stream),
    b: (&'s Side<'r>, Stream),
    relocations: Relocations,
    blocks: Vec<Block>,
    /// Start of the blocks of each pair of jobs.
    jobs: Vec<(usize, JobPair)>,
    cut_short: Vec<JobPair>,
    counts: EventDiff,
}

/// By offset: the first register that an access covers, if it differs.
type Registers = BTreeMap<u32, RegisterDiff>;

impl Work<'_, '_> {
    fn push(&mut self, what: ChangeKind, a: usize, b: usize, len: usize) {
        if len == 0 {
            return;
        }
        let (a, b, len) = (a as u32, b as u32, len as u32);
        let block = Block {
            change: what,
            a,
            b,
            len,
        };
        let own = self.jobs.last().map_or(0, |j| j.0);
        let fresh = self.blocks.len() <= own;
        match self.blocks.last_mut().filter(|last| !fresh && last.change == what) {
            Some(last) if (last.a + last.len_a(), last.b + last.len_b()) == (a, b) => last.len += len,
            _ => self.blocks.push(block),
        }
    }

    /// Aligns a pair of jobs.
    fn course(&mut self, job: JobPair, pair: CoursePair, progress: &Progress) -> Result<(), Cancelled> {
        let range = |s: &Stream, i: Option<usize>, end: usize| {
            let found = i.and_then(|i| s.courses.get(i)).map(|c| c.tokens.clone());
            found.unwrap_or(end..end)
        };
        // If a side lacks the job, its position is the end of the blocks so far.
        let ends = self
            .blocks
            .last()
            .map_or((0, 0), |l| (l.a + l.len_a(), l.b + l.len_b()));
        let of_a = range(&self.a.1, pair.0, ends.0 as usize);
        let of_b = range(&self.b.1, pair.1, ends.1 as usize);
        self.jobs.push((self.blocks.len(), job));
        let found = {
            let one = self.a.1.tokens.get(of_a.clone()).unwrap_or_default();
            let two = self.b.1.tokens.get(of_b.clone()).unwrap_or_default();
            align_long(one, two, progress)?
        };
        let mut cut_short = found.cut_short;
        let end = Common {
            a: of_a.len(),
            b: of_b.len(),
            len: 0,
        };
        let (mut from_a, mut from_b) = (of_a.start, of_b.start);
        for c in found.common.into_iter().chain([end]) {
            let (to_a, to_b) = (of_a.start + c.a, of_b.start + c.b);
            let by = if self.a.0.calls.is_some() {
                AlignBy::Value
            } else {
                AlignBy::Key
            };
            cut_short |= self.gap(from_a..to_a, from_b..to_b, by, progress)?;
            self.push(ChangeKind::Equal, to_a, to_b, c.len);
            (from_a, from_b) = (to_a + c.len, to_b + c.len);
        }
        if cut_short {
            self.cut_short.push(job);
        }
        Ok(())
    }

    /// Compares the events between two equal runs: the same accesses with other values, and events that one side has
    /// alone.
    fn gap(
        &mut self,
        of_a: Range<usize>,
        of_b: Range<usize>,
        by: AlignBy,
        progress: &Progress,
    ) -> Result<bool, Cancelled> {
        if of_a.is_empty() || of_b.is_empty() {
            self.push(ChangeKind::Deleted, of_a.start, of_b.start, of_a.len());
            self.push(ChangeKind::Inserted, of_a.end, of_b.start, of_b.len());
            return Ok(false);
        }
        // Calls are aligned first without their content, then by kind alone.
        let calls = by == AlignBy::Value;
        let keys = |(side, stream): &(&Side<'_>, Stream), range: &Range<usize>| -> Vec<u64> {
            let of = |t: usize| stream.event(t).and_then(|e| side.item(e));
            let digest = |i: Item| match by {
                AlignBy::Value => stream::item_token(i),
                AlignBy::Key => stream::key_token(i.key),
            };
            range.clone().map(|t| of(t).map_or(0, digest)).collect()
        };
        let (keys_a, keys_b) = (keys(&self.a, &of_a), keys(&self.b, &of_b));
        let found = align_long(&keys_a, &keys_b, progress)?;
        let mut cut_short = found.cut_short;
        let end = Common {
            a: keys_a.len(),
            b: keys_b.len(),
            len: 0,
        };
        let (mut from_a, mut from_b) = (of_a.start, of_b.start);
        for c in found.common.into_iter().chain([end]) {
            let (to_a, to_b) = (of_a.start + c.a, of_b.start + c.b);
            if calls {
                cut_short |= self.gap(from_a..to_a, from_b..to_b, AlignBy::Key, progress)?;
            } else {
                self.push(ChangeKind::Deleted, from_a, from_b, to_a - from_a);
                self.push(ChangeKind::Inserted, to_a, from_b, to_b - from_b);
            }
            for n in 0..c.len {
                // Events aligned by key alone may turn out to be equal.
                let (i, j) = (to_a + n, to_b + n);
                let equal_tokens = self.a.1.tokens.get(i) == self.b.1.tokens.get(j)
                    || self.items(i, j).is_some_and(|(x, y)| x.value == y.value);
                let equal = equal_tokens || self.is_relocated(i, j);
                self.push(if equal { ChangeKind::Equal } else { ChangeKind::Changed }, i, j, 1);
            }
            (from_a, from_b) = (to_a + c.len, to_b + c.len);
        }
        Ok(cut_short)
    }

    fn items(&self, i: usize, j: usize) -> Option<(Item, Item)> {
        let of = |(side, stream): &(&Side<'_>, Stream), t: usize| side.item(stream.event(t)?);
        Some((of(&self.a, i)?, of(&self.b, j)?))
    }

    /// Returns whether two accesses of an address register differ only by relocation.
    fn is_relocated(&mut self, i: usize, j: usize) -> bool {
        let Some((x, y)) = self.items(i, j) else {
            return false;
        };
        if x.key.kind == EventKind::Submit {
            return self.relocations.is_relocated(None, (x.value, y.value));
        }
        let access = |(side, stream): &(&Side<'_>, Stream), t: usize| side.recording.events.access(stream.event(t)?);
        let found = access(&self.a, i).and_then(|access| {
            let part = self.a.0.part(&access)?;
            (self.a.0.rule(&access) == Rule::Address && part.is_whole()).then_some(part.register.pair)
        });
        found.is_some_and(|half| self.relocations.is_relocated(half, (x.value, y.value)))
    }

    /// Compares matching calls: calls that are the same except for their content become changed.
    fn judge_calls(&mut self, rules: &Rules, progress: &Progress) -> Result<CallDiff, Cancelled> {
        let (Some(of_a), Some(of_b)) = (self.a.0.calls, self.b.0.calls) else {
            return Ok(CallDiff::default());
        };
        let mut judge = CallComparer::new((self.a.0.recording, of_a), (self.b.0.recording, of_b), rules);
        let both = |b: &&Block| matches!(b.change, ChangeKind::Equal | ChangeKind::Changed);
        let pairs = |b: &Block| {
            let (a, b, len) = (b.a as usize, b.b as usize, b.len as usize);
            (0..len).map(move |n| (a + n, b + n))
        };
        let event = |stream: &Stream, token: usize| stream.event(token).map(|e| e as u64);
        let total: u64 = self.blocks.iter().filter(both).map(|b| u64::from(b.len)).sum();
        progress.set_total(total.saturating_mul(2));
        for block in self.blocks.iter().filter(both) {
            for (i, j) in pairs(block) {
                progress.advance(1)?;
                if let (Some(x), Some(y)) = (event(&self.a.1, i), event(&self.b.1, j)) {
                    judge.match_calls(x, y);
                }
            }
        }
        judge.pair_buffers();
        let old = std::mem::take(&mut self.blocks);
        let mut jobs = std::mem::take(&mut self.jobs).into_iter().peekable();
        for (n, block) in old.into_iter().enumerate() {
            while let Some((_, job)) = jobs.next_if(|(at, _)| *at <= n) {
                self.jobs.push((self.blocks.len(), job));
            }
            if !both(&&block) {
                self.blocks.push(block);
                continue;
            }
            for (i, j) in pairs(&block) {
                progress.advance(1)?;
                let equal_tokens = self.a.1.tokens.get(i) == self.b.1.tokens.get(j);
                let differs = match (event(&self.a.1, i), event(&self.b.1, j)) {
                    (Some(x), Some(y)) => judge.differs(x, y, equal_tokens, progress)?,
                    _ => false,
                };
                let what = if differs { ChangeKind::Changed } else { block.change };
                self.push(what, i, j, 1);
            }
        }
        for (_, job) in jobs {
            self.jobs.push((self.blocks.len(), job));
        }
        judge.finish(progress)
    }

    /// Finds moved events, and cuts them out of the events that one side has alone.
    fn find_moved(&mut self) -> Vec<MovedEvents> {
        let alone = |what: ChangeKind, of: fn(&Block) -> u32| -> Vec<Range<usize>> {
            let blocks = self.blocks.iter().filter(|b| b.change == what);
            blocks.map(|b| of(b) as usize..(of(b) + b.len) as usize).collect()
        };
        let (alone_a, alone_b) = (
            alone(ChangeKind::Deleted, |b| b.a),
            alone(ChangeKind::Inserted, |b| b.b),
        );
        let mut found = moved_events::find_moved(&self.a.1.tokens, &self.b.1.tokens, &alone_a, &alone_b);
        found.sort_unstable();
        if found.is_empty() {
            return found;
        }
        let mut by_b = found.clone();
        by_b.sort_unstable_by_key(|m| m.b);
        let (mut of_a, mut of_b) = (found.iter().peekable(), by_b.iter().peekable());
        let old = std::mem::take(&mut self.blocks);
        let mut jobs = std::mem::take(&mut self.jobs).into_iter().peekable();
        for (n, b) in old.into_iter().enumerate() {
            while let Some((_, job)) = jobs.next_if(|(at, _)| *at <= n) {
                self.jobs.push((self.blocks.len(), job));
            }
            // The pieces of a block: moved events, and the rest in between.
            let (own, moves, to) = match b.change {
                ChangeKind::Deleted => (b.a as usize, &mut of_a, ChangeKind::MovedFrom),
                ChangeKind::Inserted => (b.b as usize, &mut of_b, ChangeKind::MovedTo),
                _ => {
                    self.blocks.push(b);
                    continue;
                }
            };
            let place = |m: &MovedEvents| if to == ChangeKind::MovedFrom { m.a } else { m.b };
            let end = own + b.len as usize;
            let mut at = own;
            let cut = |blocks: &mut Vec<Block>, what: ChangeKind, from: usize, len: usize| {
                let by = (from - own) as u32;
                let (a, b_at) = match to {
                    ChangeKind::MovedFrom => (b.a + by, b.b),
                    _ => (b.a, b.b + by),
                };
                if len > 0 {
                    blocks.push(Block {
                        change: what,
                        a,
                        b: b_at,
                        len: len as u32,
                    });
                }
            };
            while let Some(m) = moves.next_if(|m| place(m) < end) {
                cut(&mut self.blocks, b.change, at, place(m) - at);
                cut(&mut self.blocks, to, place(m), m.len);
                at = place(m) + m.len;
            }
            cut(&mut self.blocks, b.change, at, end - at);
        }
        for (_, job) in jobs {
            self.jobs.push((self.blocks.len(), job));
        }
        found
    }

    /// Counts and lists the differences, and the registers that differ.
    fn build_register_diffs(
        &mut self,
        moves: &[MovedEvents],
        progress: &Progress,
    ) -> Result<Vec<RegisterDiff>, Cancelled> {
        let mut registers = Registers::new();
        let mut jobs = self.jobs.clone().into_iter().peekable();
        let mut job = JobPair::default();
        for n in 0..self.blocks.len() {
            while let Some((_, next)) = jobs.next_if(|(at, _)| *at <= n) {
                job = next;
            }
            let Some(block) = self.blocks.get(n).copied() else {
                break;
            };
            progress.check()?;
            match block.change {
                ChangeKind::Equal => self.count_equal(&block),
                ChangeKind::Changed => {
                    self.counts.changed += u64::from(block.len);
                    for k in 0..block.len as usize {
                        let (i, j) = (block.a as usize + k, block.b as usize + k);
                        self.note_register(&mut registers, Some(i), Some(j));
                        self.list(job, ChangeKind::Changed, Some(i), Some(j), 1);
                    }
                }
                ChangeKind::Deleted | ChangeKind::Inserted => {
                    let of_a = block.change == ChangeKind::Deleted;
                    let count = if of_a {
                        &mut self.counts.deleted
                    } else {
                        &mut self.counts.inserted
                    };
                    *count += u64::from(block.len);
                    let side = |k: u32, own: bool, from: u32| own.then_some((from + k) as usize);
                    for k in 0..block.len {
                        self.note_register(&mut registers, side(k, of_a, block.a), side(k, !of_a, block.b));
                    }
                    let (i, j) = (side(0, of_a, block.a), side(0, !of_a, block.b));
                    self.list(job, block.change, i, j, u64::from(block.len));
                }
                ChangeKind::MovedFrom => {
                    self.counts.moved += u64::from(block.len);
                    let there = moves.binary_search_by_key(&(block.a as usize), |m| m.a).ok();
                    let to = there.and_then(|n| moves.get(n)).map(|m| m.b);
                    self.list(
                        job,
                        ChangeKind::MovedFrom,
                        Some(block.a as usize),
                        to,
                        u64::from(block.len),
                    );
                }
                // Moved events are reported at their origin.
                ChangeKind::MovedTo => {}
            }
        }
        Ok(registers.into_values().collect())
    }

    fn count_equal(&mut self, block: &Block) {
        for k in 0..block.len {
            let (i, j) = ((block.a + k) as usize, (block.b + k) as usize);
            let (x, y) = (self.a.1.tokens.get(i), self.b.1.tokens.get(j));
            if x == y && x.is_some_and(|t| stream::is_whole(*t)) {
                self.counts.equal += 1;
                continue;
            }
            let Some((one, two)) = self.items(i, j) else { continue };
            if one.value == two.value {
                self.counts.equal += 1;
            } else if x != y || self.is_root(i) {
                self.counts.relocated += 1;
            } else {
                self.counts.uncompared += 1;
            }
        }
    }

    fn is_root(&self, i: usize) -> bool {
        let access = self.a.1.event(i).and_then(|e| self.a.0.recording.events.access(e));
        let part = access.and_then(|a| self.a.0.part(&a));
        part.is_some_and(|p| p.register.replay.role == Some(Role::Root))
    }

    fn list(&mut self, job: JobPair, what: ChangeKind, i: Option<usize>, j: Option<usize>, events: u64) {
        if self.counts.list.len() >= MAX_LISTED_DIFFERENCES {
            return;
        }
        let found = |(side, stream): &(&Side<'_>, Stream), t: Option<usize>| {
            let event = stream.event(t?)?;
            Some((event as u64, side.item(event)?))
        };
        let (x, y) = (found(&self.a, i), found(&self.b, j));
        let Some(key) = x.or(y).map(|(_, i)| i.key) else {
            return;
        };
        let Key { kind, offset, .. } = key;
        self.counts.list.push(EventDifference {
            job,
            what,
            a: x.map(|x| x.0),
            b: y.map(|y| y.0),
            events,
            kind,
            offset: RegOffset::new(offset),
            value_a: x.map(|x| x.1.value),
            value_b: y.map(|y| y.1.value),
        });
    }

    /// Records that the histories of the register of an access diverge, or differ once more.
    fn note_register(&self, registers: &mut Registers, i: Option<usize>, j: Option<usize>) {
        let access = |(side, stream): &(&Side<'_>, Stream), t: Option<usize>| {
            let event = stream.event(t?)?;
            let access = side.recording.events.access(event)?;
            side.is_register(&access).then_some((event as u64, access))
        };
        let (x, y) = (access(&self.a, i), access(&self.b, j));
        let Some((_, one)) = x.or(y) else { return };
        // Parts of a register are reported as parts, and bits at their position.
        let part = self.a.0.part(&one).or_else(|| self.b.0.part(&one));
        let offset = part.map_or(one.offset, |p| p.register.offset);
        let in_place = |value: u64| part.map_or(value, |p| p.bits(value));
        let entry = registers.entry(offset.get()).or_insert_with(|| {
            let known = part.map(|p| p.register);
            // A field that is not compared is no difference, even if another field is.
            let compared = match self.a.0.rule(&one) {
                Rule::Bits(bits) => bits,
                _ => u64::MAX,
            };
            let value = |side: Option<(u64, Access)>| side.map(|s| in_place(s.1.value & compared));
            let (v, w) = (value(x), value(y));
            let mut fields = Vec::new();
            if let (Some(r), true) = (known, v.is_some() && w.is_some()) {
                for field in r.layout.fields.iter() {
                    let of = |value: Option<u64>| value.map(|v| field.extract(v));
                    if of(v) != of(w) {
                        let side = x.or(y).map(|s| s.1.write).unwrap_or_default();
                        let direction = Direction::new(side);
                        let text =
                            |value: Option<u64>| of(value).map(|v| field.text_in(v, direction)).unwrap_or_default();
                        fields.push((field.name.clone(), text(v), text(w)));
                    }
                }
            }
            if fields.is_empty() {
                let text =
                    |value: Option<(u64, Access)>| value.map(|v| format!("{:#x}", v.1.value)).unwrap_or_default();
                fields.push(("value".into(), text(x), text(y)));
            }
            RegisterDiff {
                name: known.map_or_else(
                    || {
                        format_location(
                            if x.is_some() { self.a.0 } else { self.b.0 }.recording,
                            one.space,
                            offset,
                        )
                    },
                    |r| r.name.clone(),
                ),
                offset,
                count: 0,
                first: (x.map(|x| x.0), y.map(|y| y.0)),
                fields,
            }
        });
        entry.count += 1;
    }
}
