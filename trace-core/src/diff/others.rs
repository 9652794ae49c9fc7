//! Events beside accesses: those of which the recorder saw the place and not the value, and memory that was given to the
//! device.

use super::align::Step;
use super::events::symmetric;
use super::{MOST, OtherDiff, OtherDifference};
use crate::progress::{Cancelled, Progress};
use crate::recording::{DmaMapRow, EventKind, Recording, UndecodedRow};

/// What is compared of an event, in an order: two events with the same are the same.
type Key = (u8, u32, u32, u64);

/// An event: its index, and what is compared of it.
struct Item {
    event: u64,
    key: Key,
}

/// Accesses that were not decoded: by space, place and what is known of them.
pub(super) fn undecoded(a: &Recording, b: &Recording, progress: &Progress) -> Result<OtherDiff, Cancelled> {
    let items = |r: &Recording| -> Vec<Item> {
        of(r, EventKind::Undecoded)
            .filter_map(|at| {
                let row = r.events.undecoded(at)?;
                let space = r.events.space.get(at)?;
                Some(Item {
                    event: at as u64,
                    key: (space, row.offset, row.code, 0),
                })
            })
            .collect()
    };
    let words = |r: &Recording, key: &Key| {
        let (space, offset, code, _) = *key;
        let name = r.facts.spaces.get(usize::from(space));
        let name = name.map_or_else(|| format!("space {space}"), |s| s.name.clone());
        format!("{} at {name}+{offset:#x}", UndecodedRow { offset, code }.describe())
    };
    diff((a, &items(a)), (b, &items(b)), words, progress)
}

/// Memory that was given to the device: how, and how much. Where it lies is the machine's choice of that run.
pub(super) fn dma_maps(a: &Recording, b: &Recording, progress: &Progress) -> Result<OtherDiff, Cancelled> {
    let items = |r: &Recording| -> Vec<Item> {
        of(r, EventKind::DmaMap)
            .filter_map(|at| {
                let row = r.events.dma_map(at)?;
                Some(Item {
                    event: at as u64,
                    key: (0, row.kind, 0, row.bytes),
                })
            })
            .collect()
    };
    let words = |_: &Recording, key: &Key| {
        let row = DmaMapRow {
            bus: 0,
            bytes: key.3,
            kind: key.1,
            reserved: 0,
        };
        let told = row.describe();
        told.split(" at ").next().unwrap_or_default().to_owned()
    };
    diff((a, &items(a)), (b, &items(b)), words, progress)
}

fn of(r: &Recording, kind: EventKind) -> impl Iterator<Item = usize> + '_ {
    let kinds = r.events.kind.iter().enumerate();
    kinds.filter(move |(_, k)| *k == kind as u8).map(|(at, _)| at)
}

fn diff(
    a: (&Recording, &[Item]),
    b: (&Recording, &[Item]),
    words: impl Fn(&Recording, &Key) -> String,
    progress: &Progress,
) -> Result<OtherDiff, Cancelled> {
    let mut out = OtherDiff::default();
    // Not every recorder sees such events, and a replay does none of them.
    if a.1.is_empty() || b.1.is_empty() {
        out.uncompared = (a.1.len() as u64, b.1.len() as u64);
        return Ok(out);
    }
    let found = symmetric(a.1, b.1, progress, |x, y| x.key == y.key, |x| x.key)?;
    out.cut_short = found.cut_short;
    let mut alone = Vec::new();
    for step in found.steps {
        match step {
            Step::Both(..) => out.same += 1,
            Step::A(i) => {
                out.only_a += 1;
                alone.extend(a.1.get(i).map(|x| (x.event, true, x.key)));
            }
            Step::B(j) => {
                out.only_b += 1;
                alone.extend(b.1.get(j).map(|y| (y.event, false, y.key)));
            }
        }
    }
    // The order of what either side has alone must not depend on which of them is the first.
    alone.sort_unstable_by_key(|(event, first, key)| (*event, *key, !first));
    out.list = alone
        .into_iter()
        .take(MOST)
        .map(|(event, first, key)| OtherDifference {
            a: first.then_some(event),
            b: (!first).then_some(event),
            what: words(if first { a.0 } else { b.0 }, &key),
        })
        .collect();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::diff::diff;
    use crate::recording::{DmaKind, DmaMapRow, EventsBuilder, Recording, UndecodedRow};

    fn recording(undecoded: &[u32], dma: &[(u64, u64)]) -> Recording {
        let mut b = EventsBuilder::new();
        for at in undecoded {
            b.undecoded(0, 0, 0, UndecodedRow::of_instruction(*at, 0x00f3_48a5));
        }
        for (bus, bytes) in dma {
            let kind = DmaKind::Mapped as u32;
            let row = DmaMapRow {
                bus: *bus,
                bytes: *bytes,
                kind,
                reserved: 0,
            };
            b.dma_map(0, 0, row);
        }
        Recording {
            events: b.finish(),
            ..Recording::default()
        }
    }

    #[test]
    fn accesses_without_a_value_are_compared_by_their_place() {
        let (a, b) = (recording(&[0, 8, 16], &[]), recording(&[0, 16, 24], &[]));
        let found = diff(&a, &b);
        let u = &found.undecoded;
        assert_eq!((u.same, u.only_a, u.only_b, u.uncompared), (2, 1, 1, (0, 0)));
        assert_eq!(
            u.list.iter().map(|d| (d.a, d.b, d.what.as_str())).collect::<Vec<_>>(),
            [
                (
                    Some(1),
                    None,
                    "undecoded access of 8 bytes by the instruction f3 48 a5 … at space 0+0x8"
                ),
                (
                    None,
                    Some(2),
                    "undecoded access of 8 bytes by the instruction f3 48 a5 … at space 0+0x18"
                ),
            ]
        );
        assert!(!found.is_empty() && diff(&a, &a).is_empty());
        assert_eq!(diff(&b, &a), found.swapped());
    }

    #[test]
    fn memory_of_the_device_is_compared_by_its_size_and_not_by_where_it_lies() {
        let a = recording(&[], &[(0x1000, 4096), (0x8000, 64)]);
        assert!(diff(&a, &recording(&[], &[(0x9000, 4096), (0x2000, 64)])).is_empty());
        let found = diff(&a, &recording(&[], &[(0x1000, 4096), (0x8000, 65)]));
        let d = &found.dma_maps;
        assert_eq!((d.same, d.only_a, d.only_b), (1, 1, 1));
        assert_eq!(d.list[0].what, "mapped 64 bytes");
        assert!(!found.is_empty());
    }

    #[test]
    fn what_one_recorder_did_not_see_at_all_is_counted_and_no_difference() {
        let (a, b) = (recording(&[0, 8], &[(0, 64)]), recording(&[], &[(0, 64)]));
        let found = diff(&a, &b);
        assert_eq!(found.undecoded.uncompared, (2, 0));
        assert_eq!(found.dma_maps.same, 1);
        assert!(found.is_empty());
        assert_eq!(diff(&b, &a), found.swapped());
    }
}
