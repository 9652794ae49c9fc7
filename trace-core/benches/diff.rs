//! What it costs to compare two recordings of ten million events: against a copy of the same columns in memory.

use divan::{Bencher, black_box};
use trace_core::RegOffset;
use trace_core::diff;
use trace_core::recording::{Access, Events, EventsBuilder, Metadata, Recording, Space, SpaceKind};

fn main() {
    divan::main();
}

/// Events of each recording.
const EVENTS: usize = 10_000_000;

fn recording(events: Events) -> Recording {
    Recording {
        metadata: Metadata {
            spaces: vec![Space {
                name: "bar0".into(),
                kind: SpaceKind::Registers,
                bytes: 1 << 20,
            }],
            ..Metadata::default()
        },
        events,
        ..Recording::default()
    }
}

/// A driver's accesses: 200 registers, of which few are used most, with values that count, repeat or vary.
fn accesses(seed: u64) -> impl Iterator<Item = Access> {
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 31)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .rotate_left(32)
    };
    (0..EVENTS as u64).map(move |n| {
        let register = (next() % 200).min(next() % 200);
        let value = match register % 4 {
            0 => n,
            1 => 1,
            2 => next() % 16,
            _ => next() & 0xffff_ffff,
        };
        Access {
            space: 0,
            write: next() & 1 == 0,
            offset: RegOffset::new(register as u32 * 4),
            width: 4,
            value,
        }
    })
}

fn made(seed: u64, change: impl Fn(u64, &mut Access) -> bool) -> Recording {
    let mut b = EventsBuilder::new();
    for (n, mut a) in accesses(seed).enumerate() {
        if change(n as u64, &mut a) {
            b.access(n as u64 * 100, 1, a);
        }
    }
    recording(b.finish())
}

/// One event in a hundred differs: most in value, some are gone.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn one_in_a_hundred_differs(bencher: Bencher<'_, '_>) {
    let a = made(1, |_, _| true);
    let b = made(1, |n, a| {
        if n % 100 == 37 {
            a.value ^= 0x100;
        }
        n % 1000 != 537
    });
    bencher.bench(|| {
        let d = diff::diff(black_box(&a), black_box(&b));
        assert_eq!(d.events.changed + d.events.deleted, (EVENTS / 100) as u64);
        d
    });
}

/// Nothing but the registers is the same.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn nothing_in_common(bencher: Bencher<'_, '_>) {
    let (a, b) = (
        made(1, |_, _| true),
        made(2, |_, a| {
            a.value = a.value.wrapping_add(1 << 40);
            true
        }),
    );
    bencher.bench(|| diff::diff(black_box(&a), black_box(&b)));
}

/// The yardstick: the columns that are compared, copied.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn copy_of_the_columns(bencher: Bencher<'_, '_>) {
    let bytes = vec![1u8; EVENTS * (1 + 1 + 4 + 4 + 4 + 1 + 8) * 2];
    bencher.bench(|| black_box(&bytes).clone());
}
