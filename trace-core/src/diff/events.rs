//! Accesses aligned job by job, and the registers whose values differ.

use super::align::{Alignment, Step, align};
use super::host_writes::Course;
use super::spaces::{self, SpacePair};
use super::{EventDiff, EventDifference, JobPair, MOST, RegisterDiff, key};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, Recording};
use crate::registers::{Half, ReadRule, Register, RegisterMap, Role, register_space};
use std::collections::{BTreeMap, HashMap};

type Item = (usize, Access);

/// Events, registers, the number of jobs on each side, and the courses of jobs that were compared.
type Compared = (EventDiff, Vec<RegisterDiff>, (u64, u64), Vec<Course>);

/// The accesses between two submits: the course of the job that the first of them began.
#[derive(Default)]
struct Part {
    items: Vec<Item>,
    /// The first event behind the submit that began it.
    begin: u64,
    /// Slot and head of that job's chain, as last written before its submit.
    head: (Option<u8>, u64),
    /// Reads that a later one of the same wait stands for.
    folded: u64,
    /// Where the last access of each thread stands, while it is filled.
    last: HashMap<u32, usize>,
}

/// In the place of the event of a read that another one stands for.
const FOLDED: usize = usize::MAX;

impl Part {
    /// Takes an access up. Of a status that a thread reads again and again its last read stands for all: how often it
    /// takes is a matter of time and not of what was done. What other threads do meanwhile does not end the wait.
    fn push(&mut self, event: usize, a: Access, thread: u32, waits: bool) {
        let before = self.last.insert(thread, self.items.len());
        let before = before.and_then(|at| self.items.get_mut(at)).filter(|_| waits);
        if let Some(before) = before.filter(|b| key(&b.1) == key(&a)) {
            before.0 = FOLDED;
            self.folded += 1;
        }
        self.items.push((event, a));
    }

    /// Takes out what others stand for.
    fn close(&mut self) {
        self.items.retain(|i| i.0 != FOLDED);
        self.last = HashMap::new();
    }
}

/// The accesses of a recording, cut after each submit: the first part is what comes before any job has begun.
fn parts(recording: &Recording, map: Option<&RegisterMap>) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    let mut heads: HashMap<u32, u64> = HashMap::new();
    let space = register_space(recording, map);
    for (event, a) in recording.events.accesses(0..recording.events.len()) {
        let register = map
            .filter(|_| a.space == space)
            .and_then(|m| m.touched(a.offset, a.width));
        let waits = !a.write && register.is_some_and(|r| r.replay.read == ReadRule::Until);
        let thread = recording.events.thread.get(event).unwrap_or(0);
        if let Some(last) = parts.last_mut() {
            last.push(event, a, thread, waits);
        }
        let Some(r) = register.filter(|_| a.write) else {
            continue;
        };
        match r.replay.role {
            Some(Role::JobHead) => {
                heads.insert(a.offset, a.value);
            }
            Some(Role::JobCommand) if a.value == 1 => parts.push(Part {
                begin: event as u64 + 1,
                head: (r.index, head(map, r, &heads)),
                ..Part::default()
            }),
            _ => {}
        }
    }
    parts.iter_mut().for_each(Part::close);
    parts
}

/// What the head registers of a command's slot hold.
fn head(map: Option<&RegisterMap>, command: &Register, written: &HashMap<u32, u64>) -> u64 {
    let of = |offset: u32| written.get(&offset).copied().unwrap_or(0);
    let low = map.and_then(|m| {
        m.registers()
            .find(|r| r.replay.role == Some(Role::JobHead) && r.index == command.index && r.block == command.block)
    });
    low.map_or(0, |r| match r.pair {
        Some(Half::Low { high_offset }) => of(r.offset) | of(high_offset) << 32,
        _ => of(r.offset),
    })
}

/// Parts that go together, by index.
type PartPair = (Option<usize>, Option<usize>);

/// Which part goes with which. As many jobs on both sides go together in order. Otherwise jobs with the same head are
/// found, in order, and those between two such pairs go together as far as there are any on both sides.
fn pairs(a: &[Part], b: &[Part], progress: &Progress) -> Result<Vec<PartPair>, Cancelled> {
    if a.len() == b.len() {
        return Ok((0..a.len()).map(|i| (Some(i), Some(i))).collect());
    }
    let jobs = |parts: &[Part]| -> Vec<(Option<u8>, u64)> { parts.iter().skip(1).map(|p| p.head).collect() };
    let (heads_a, heads_b) = (jobs(a), jobs(b));
    let steps = symmetric(&heads_a, &heads_b, progress, |x, y| x == y, |x| *x)?.steps;
    let mut out = vec![(Some(0), Some(0))];
    for run in steps.chunk_by(|x, y| matches!(x, Step::Both(..)) == matches!(y, Step::Both(..))) {
        let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
        for s in run {
            match *s {
                Step::Both(i, j) => out.push((Some(i + 1), Some(j + 1))),
                Step::A(i) => of_a.push(i + 1),
                Step::B(j) => of_b.push(j + 1),
            }
        }
        for i in 0..of_a.len().max(of_b.len()) {
            out.push((of_a.get(i).copied(), of_b.get(i).copied()));
        }
    }
    Ok(out)
}

fn map_of(r: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_recording(r)
}

pub(super) fn diff(a: &Recording, b: &Recording, progress: &Progress) -> Result<Compared, Cancelled> {
    let map = map_of(a).or_else(|| map_of(b));
    let (parts_a, parts_b) = (parts(a, map), parts(b, map));
    let jobs = (parts_a.len() as u64 - 1, parts_b.len() as u64 - 1);
    let space = register_space(a, map);
    let tables = spaces::pairs(a, b);
    let folded = |parts: &[Part]| parts.iter().map(|p| p.folded).sum();
    let mut out = EventDiff {
        folded: (folded(&parts_a), folded(&parts_b)),
        ..EventDiff::default()
    };
    let mut registers: BTreeMap<u32, RegisterDiff> = BTreeMap::new();
    let paired = pairs(&parts_a, &parts_b, progress)?;
    progress.set_total(paired.len() as u64);
    let course = |parts: &[Part], i: Option<usize>| {
        let i = i.filter(|i| *i < parts.len())?;
        let end = parts.get(i + 1).map_or(u64::MAX, |p| p.begin);
        Some(parts.get(i)?.begin..end)
    };
    let mut courses = Vec::with_capacity(paired.len());
    for (i, j) in paired {
        progress.advance(1)?;
        let number = |i: Option<usize>| i.map(|i| u32::try_from(i).unwrap_or(u32::MAX));
        let job = JobPair {
            a: number(i),
            b: number(j),
        };
        courses.push(Course {
            job,
            a: course(&parts_a, i),
            b: course(&parts_b, j),
        });
        let one = i.and_then(|i| parts_a.get(i)).map_or(&[][..], |p| p.items.as_slice());
        let two = j.and_then(|j| parts_b.get(j)).map_or(&[][..], |p| p.items.as_slice());
        let order = |x: &Item| (key(&x.1), x.1.value);
        let mut found = symmetric(one, two, progress, |x, y| key(&x.1) == key(&y.1), order)?;
        sort_what_is_alone(&mut found.steps, one, two);
        if found.cut_short {
            out.cut_short.push(job);
        }
        for step in found.steps {
            let (x, y) = match step {
                Step::Both(i, j) => (one.get(i), two.get(j)),
                Step::A(i) => (one.get(i), None),
                Step::B(j) => (None, two.get(j)),
            };
            let Some((_, access)) = x.or(y) else { continue };
            let map = map.filter(|_| access.space == space);
            match (x, y) {
                (Some((_, v)), Some((_, w))) if v.value == w.value => {
                    out.same += 1;
                    continue;
                }
                (Some((_, v)), Some((_, w))) if moved(a, b, map, &tables, v, w) => {
                    out.relocated += 1;
                    continue;
                }
                (Some((_, v)), Some((_, w))) if each_its_own(map, v, w) => {
                    out.uncompared += 1;
                    continue;
                }
                (Some(v), Some(w)) => {
                    out.changed += 1;
                    if access.space == space {
                        register(&mut registers, map, v, w);
                    }
                }
                (Some(_), None) => out.only_a += 1,
                _ => out.only_b += 1,
            }
            if out.list.len() < MOST {
                out.list.push(EventDifference {
                    job,
                    a: x.map(|x| x.0 as u64),
                    b: y.map(|y| y.0 as u64),
                    offset: access.offset,
                    write: access.write,
                    value_a: x.map(|x| x.1.value),
                    value_b: y.map(|y| y.1.value),
                });
            }
        }
    }
    Ok((out, registers.into_values().collect(), jobs, courses))
}

/// Whether two accesses of a root register are of tables that go together and lie elsewhere.
fn moved(
    a: &Recording,
    b: &Recording,
    map: Option<&RegisterMap>,
    tables: &[SpacePair],
    v: &Access,
    w: &Access,
) -> bool {
    map.and_then(|m| m.at(v.offset))
        .filter(|r| r.replay.role == Some(Role::Root))
        .is_some_and(|r| spaces::same_tables(a, b, tables, r, (v.value, w.value)))
}

/// Whether the values differ only where every run has its own: counters that run free, and the flush id that a driver
/// reads and hands on with a job.
fn each_its_own(map: Option<&RegisterMap>, v: &Access, w: &Access) -> bool {
    let Some(part) = map.and_then(|m| m.covering(v.offset, v.width).next()) else {
        return false;
    };
    let r = part.register;
    match (v.write, r.replay.read) {
        (true, _) => r.replay.role == Some(Role::FlushId),
        (false, ReadRule::Any | ReadRule::Feeds) => true,
        (false, ReadRule::Masked(bits)) => (part.bits(v.value) ^ part.bits(w.value)) & bits == 0,
        (false, ReadRule::Equal | ReadRule::Until) => false,
    }
}

/// The alignment of two sequences, the same whichever comes first: of several shortest ones, that which is found from
/// the one that is smaller by `order`.
pub(super) fn symmetric<T, O: Ord>(
    a: &[T],
    b: &[T],
    progress: &Progress,
    same: impl Fn(&T, &T) -> bool,
    order: impl Fn(&T) -> O,
) -> Result<Alignment, Cancelled> {
    if a.iter().map(&order).le(b.iter().map(&order)) {
        return align(a, b, progress, same);
    }
    let mut found = align(b, a, progress, same)?;
    for s in &mut found.steps {
        *s = match *s {
            Step::Both(i, j) => Step::Both(j, i),
            Step::A(i) => Step::B(i),
            Step::B(j) => Step::A(j),
        };
    }
    Ok(found)
}

/// Between two common steps the order of what either side has alone must not depend on the side.
fn sort_what_is_alone(steps: &mut [Step], a: &[Item], b: &[Item]) {
    let order = |x: &Item| (x.0, (key(&x.1), x.1.value));
    let alone = |s: &Step| !matches!(s, Step::Both(..));
    for run in steps.chunk_by_mut(|x, y| alone(x) && alone(y)) {
        run.sort_by_key(|s| match s {
            Step::A(i) => a.get(*i).map(order),
            Step::B(j) => b.get(*j).map(order),
            Step::Both(..) => None,
        });
    }
}

fn register(registers: &mut BTreeMap<u32, RegisterDiff>, map: Option<&RegisterMap>, a: &Item, b: &Item) {
    // Parts of a register are told as its parts, and bits of it in place.
    let part = map.and_then(|m| m.covering(a.1.offset, a.1.width).next());
    let offset = part.map_or(a.1.offset, |p| p.register.offset);
    let in_place = |value: u64| part.map_or(value, |p| p.bits(value));
    let entry = registers.entry(offset).or_insert_with(|| {
        let known = part.map(|p| p.register);
        let mut fields = Vec::new();
        if let Some(r) = known {
            for field in &r.layout.fields {
                let (x, y) = (field.extract(in_place(a.1.value)), field.extract(in_place(b.1.value)));
                if x != y {
                    fields.push((field.name.clone(), field.text(x), field.text(y)));
                }
            }
        }
        if fields.is_empty() {
            fields.push(("value".into(), format!("{:#x}", a.1.value), format!("{:#x}", b.1.value)));
        }
        RegisterDiff {
            name: known.map_or_else(|| format!("{offset:#x}"), |r| r.name.clone()),
            offset,
            count: 0,
            first: (a.0 as u64, b.0 as u64),
            fields,
        }
    });
    entry.count += 1;
}
