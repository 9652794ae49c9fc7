//! Recordings that differ in known places, compared from both sides.

use super::*;
use crate::recording::{EventsBuilder, FrameRole, MemoryBuilder};

fn recording(accesses: &[(bool, u32, u64)], pages: &[(u64, u8)]) -> Recording {
    let mut b = EventsBuilder::new();
    for (i, (write, offset, value)) in accesses.iter().enumerate() {
        b.access(
            i as u64,
            0,
            Access {
                space: 0,
                write: *write,
                offset: *offset,
                width: 4,
                value: *value,
            },
        );
    }
    let mut m = MemoryBuilder::new();
    let frames: Vec<_> = pages
        .iter()
        .map(|(f, v)| (*f, m.add_page(&[*v; 4096]), FrameRole::Data))
        .collect();
    m.add_snapshot(0, frames);
    let mut r = Recording {
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.facts.identity.gpu_id = 0x60a0_0002;
    r
}

const BASE: [(bool, u32, u64); 7] = [
    (false, 0x2c, 0x100),
    (true, 0x18c0, 0x40),
    (true, 0x18e0, 1),
    (false, 0x100c, 2),
    (true, 0x18c0, 0x80),
    (true, 0x18e0, 1),
    (false, 0x100c, 2),
];

#[test]
fn a_recording_does_not_differ_from_itself() {
    let r = recording(&BASE, &[(1, 1), (2, 0)]);
    let d = diff(&r, &r.clone());
    assert!(d.is_empty(), "{d:?}");
    assert_eq!((d.events.same, d.pages.same, d.jobs), (7, 2, (2, 2)));
}

#[test]
fn a_changed_value_is_told_by_field() {
    let a = recording(&BASE, &[]);
    let mut changed = BASE;
    changed[6].2 = 0x0002_0000;
    let b = recording(&changed, &[]);
    let d = diff(&a, &b);
    assert_eq!(
        (d.events.same, d.events.changed, d.events.only_a, d.events.only_b),
        (6, 1, 0, 0)
    );
    let e = d.events.list[0];
    assert_eq!(
        (e.job, e.a, e.b, e.value_a, e.value_b),
        (2, Some(6), Some(6), Some(2), Some(0x2_0000))
    );
    assert_eq!(
        (d.registers[0].name.as_str(), d.registers[0].count),
        ("JOB_IRQ_STATUS", 1)
    );
    assert!(d.registers[0].fields.len() >= 2, "{:?}", d.registers[0].fields);
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn accesses_more_or_fewer_shift_nothing_behind_them() {
    let a = recording(&BASE, &[]);
    let mut more = BASE.to_vec();
    more.insert(4, (false, 0x1000, 0));
    more.insert(0, (false, 0, 0x60a0_0002));
    more.remove(4);
    let b = recording(&more, &[]);
    let d = diff(&a, &b);
    assert_eq!(
        (d.events.same, d.events.changed, d.events.only_a, d.events.only_b),
        (6, 0, 1, 2)
    );
    let places: Vec<_> = d.events.list.iter().map(|e| (e.job, e.a, e.b, e.offset)).collect();
    assert_eq!(
        places,
        [
            (0, None, Some(0), 0),
            (1, Some(3), None, 0x100c),
            (1, None, Some(4), 0x1000)
        ]
    );
    assert_eq!(diff(&b, &a), d.clone().swapped());
    assert!(!d.is_empty());
}

#[test]
fn a_missing_job_is_told() {
    let (a, b) = (recording(&BASE, &[]), recording(&BASE[..4], &[]));
    let d = diff(&a, &b);
    assert_eq!((d.jobs, d.events.only_a), ((2, 1), 3));
}

#[test]
fn pages_differ_by_contents_and_presence() {
    let a = recording(&[], &[(1, 1), (2, 2), (3, 3)]);
    let b = recording(&[], &[(2, 2), (3, 4), (9, 1)]);
    let d = diff(&a, &b);
    assert_eq!(
        (d.pages.same, d.pages.changed, d.pages.only_a, d.pages.only_b),
        (1, 1, 1, 1)
    );
    assert!(d.pages.physical);
    let changed = d.pages.list.iter().find(|p| p.in_a && p.in_b).unwrap();
    assert_eq!((changed.va, changed.first_byte), (GpuVa(0x3000), Some(0)));
    assert_eq!(diff(&b, &a), d.swapped());
}
