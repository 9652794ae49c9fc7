//! Accesses aligned job by job, and the registers whose values differ.

use super::align::{Step, align};
use super::{EventDiff, EventDifference, MOST, RegisterDiff, key};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, Recording};
use crate::registers::{RegisterMap, Role};
use std::collections::BTreeMap;

type Item = (usize, Access);

/// Events, registers, and the number of jobs on each side.
type Compared = (EventDiff, Vec<RegisterDiff>, (u64, u64));

/// The accesses of a recording, cut after each submit: the first part is what comes before any job has begun.
fn parts(recording: &Recording, map: Option<&RegisterMap>) -> Vec<Vec<Item>> {
    let mut parts = vec![Vec::new()];
    for (event, a) in recording.events.accesses(0..recording.events.len()) {
        if let Some(last) = parts.last_mut() {
            last.push((event, a));
        }
        let submits = a.write
            && a.value == 1
            && map
                .and_then(|m| m.at(a.offset))
                .is_some_and(|r| r.replay.role == Some(Role::JobCommand));
        if submits {
            parts.push(Vec::new());
        }
    }
    parts
}

fn map_of(r: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_gpu(r.facts.identity.gpu_id)
}

pub(super) fn diff(a: &Recording, b: &Recording, progress: &Progress) -> Result<Compared, Cancelled> {
    let map = map_of(a).or_else(|| map_of(b));
    let (parts_a, parts_b) = (parts(a, map), parts(b, map));
    let jobs = (parts_a.len() as u64 - 1, parts_b.len() as u64 - 1);
    let mut out = EventDiff::default();
    let mut registers: BTreeMap<u32, RegisterDiff> = BTreeMap::new();
    progress.set_total(parts_a.len().max(parts_b.len()) as u64);
    for job in 0..parts_a.len().max(parts_b.len()) {
        progress.advance(1)?;
        let one = parts_a.get(job).map_or(&[][..], Vec::as_slice);
        let two = parts_b.get(job).map_or(&[][..], Vec::as_slice);
        for step in steps(one, two) {
            let (x, y) = match step {
                Step::Both(i, j) => (one.get(i), two.get(j)),
                Step::A(i) => (one.get(i), None),
                Step::B(j) => (None, two.get(j)),
            };
            let Some((_, access)) = x.or(y) else { continue };
            match (x, y) {
                (Some((_, v)), Some((_, w))) if v.value == w.value => {
                    out.same += 1;
                    continue;
                }
                (Some(v), Some(w)) => {
                    out.changed += 1;
                    register(&mut registers, map, v, w);
                }
                (Some(_), None) => out.only_a += 1,
                _ => out.only_b += 1,
            }
            if out.list.len() < MOST {
                out.list.push(EventDifference {
                    job: u32::try_from(job).unwrap_or(u32::MAX),
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
    Ok((out, registers.into_values().collect(), jobs))
}

/// The alignment of two parts, the same whichever comes first: of several shortest ones, that which is found from the
/// part that is smaller by its keys and values.
fn steps(a: &[Item], b: &[Item]) -> Vec<Step> {
    let order = |x: &Item| (key(&x.1), x.1.value);
    let same = |x: &Item, y: &Item| key(&x.1) == key(&y.1);
    let mut steps = if a.iter().map(order).le(b.iter().map(order)) {
        align(a, b, same)
    } else {
        let mirrored = align(b, a, same).into_iter().map(|s| match s {
            Step::Both(i, j) => Step::Both(j, i),
            Step::A(i) => Step::B(i),
            Step::B(j) => Step::A(j),
        });
        mirrored.collect()
    };
    // Between two common steps the order of what either side has alone must not depend on the side.
    let alone = |s: &Step| !matches!(s, Step::Both(..));
    for run in steps.chunk_by_mut(|x, y| alone(x) && alone(y)) {
        run.sort_by_key(|s| match s {
            Step::A(i) => a.get(*i).map(|x| (x.0, order(x))),
            Step::B(j) => b.get(*j).map(|x| (x.0, order(x))),
            Step::Both(..) => None,
        });
    }
    steps
}

fn register(registers: &mut BTreeMap<u32, RegisterDiff>, map: Option<&RegisterMap>, a: &Item, b: &Item) {
    let offset = a.1.offset;
    let entry = registers.entry(offset).or_insert_with(|| {
        let known = map.and_then(|m| m.at(offset));
        let mut fields = Vec::new();
        if let Some(r) = known {
            for field in &r.layout.fields {
                let (x, y) = (field.extract(a.1.value), field.extract(b.1.value));
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
