//! Tests of the comparison of two API traces: contents of copies, memory of snapshots, arguments, fills and code.
//! Values that differ in every run are not differences.

use crate::calls::net::{Arguments, Build, PTX, WINDOW};
use trace_core::diff::{CallPart, Diff, Rules, TypeFrom, diff, diff_with};
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, CodeKind, CopyRow, ElementType, EventsBuilder, OrderKind, Recording};
use trace_core::{GpuVa, PAGE_SIZE};

/// Properties of one run of the program.
#[derive(Clone)]
struct Run {
    input: Vec<f32>,
    factor: f32,
    n: i32,
    filled: u32,
    /// Offset of every address.
    offset: u64,
    /// Whether the output is allocated before the input.
    other_order: bool,
    /// Whether the launch reads its output buffer.
    in_place: bool,
    code: Vec<u8>,
    digest: &'static str,
    grid: u32,
    with_content: bool,
    /// Error that is added to each element of the output.
    error: f32,
}

impl Run {
    fn new() -> Self {
        Self {
            input: (0..3000).map(|n| n as f32 * 0.5).collect(),
            factor: 2.0,
            n: 3000,
            filled: 0,
            offset: 0,
            other_order: false,
            in_place: false,
            code: PTX.as_bytes().to_vec(),
            digest: "aa",
            grid: 12,
            with_content: true,
            error: 0.0,
        }
    }

    fn recording(&self) -> Recording {
        let mut b = Build::new();
        let stream = b.stream("default stream", 0);
        let module = b.module(CodeKind::Ptx, &self.code);
        b.metadata.modules[module as usize].digest = self.digest.into();
        // Functions are compared by name, not by their order.
        let layout = [[0, 8], [8, 8], [16, 4], [20, 4]];
        let add = |b: &mut Build, name: &str| b.function(name, Some(module), &layout);
        let (scale, _) = if self.other_order {
            let other = add(&mut b, "_Z5otherPKfPfif");
            (add(&mut b, "_Z5scalePKfPfif"), other)
        } else {
            let scale = add(&mut b, "_Z5scalePKfPfif");
            (scale, add(&mut b, "_Z5otherPKfPfif"))
        };
        let bytes = self.input.len() as u64 * 4;
        let take = |b: &mut Build, at: u64| {
            let at = WINDOW + self.offset + at;
            b.take_at(at, bytes);
            at
        };
        // With the other order, both buffers have other offsets in their pages.
        let (from, to) = if self.other_order {
            let to = take(&mut b, 0);
            (take(&mut b, 0x3200), to)
        } else {
            let from = take(&mut b, 0);
            (from, take(&mut b, 0x3200))
        };
        b.snapshot("snapshot at the begin", &[(from.min(to), bytes), (from.max(to), bytes)]);
        let raw: Vec<u8> = self.input.iter().flat_map(|f| f.to_le_bytes()).collect();
        b.copy_in(from, &raw, (1, bytes), stream, self.with_content);
        b.fill(to, (bytes / 4, 4), self.filled, (1, bytes), stream);
        let input = if self.in_place { to } else { from };
        let arguments = Arguments::default().to(input).to(to).int(self.n).float(self.factor).0;
        b.launch(scale, [self.grid, 1, 1], [256, 1, 1], stream, &arguments);
        let result = |f: &f32| (f * self.factor + self.error).to_le_bytes();
        let output: Vec<u8> = self.input.iter().flat_map(result).collect();
        b.set(to, &output);
        b.order(OrderKind::StreamDone, stream, u32::MAX);
        b.copy_out(to, bytes, stream, true);
        // The recorder sorts snapshots by address.
        let (first, second) = (from.min(to), from.max(to));
        b.snapshot("snapshot at the end", &[(first, bytes), (second, bytes)]);
        b.finish()
    }
}

/// Compares two recordings in both directions.
fn both(a: &Recording, b: &Recording) -> Diff {
    let d = diff(a, b);
    assert_eq!(diff(b, a), d.clone().swapped());
    for r in [a, b] {
        assert!(diff(r, r).is_empty());
    }
    d
}

/// Returns the differing parts with the names of their buffers.
fn parts(d: &Diff) -> Vec<(CallPart, &str)> {
    d.calls.list.iter().map(|c| (c.part, c.names.0.as_str())).collect()
}

#[test]
fn equal_calls_at_other_addresses_are_no_difference() {
    let a = Run::new();
    for b in [
        a.clone(),
        Run {
            offset: 1 << 33,
            ..a.clone()
        },
        Run {
            offset: 0x600,
            ..a.clone()
        },
    ] {
        let d = both(&a.recording(), &b.recording());
        assert!(d.is_empty(), "{:?} {:?}", d.events, d.calls);
        assert_eq!(
            d.calls.compared, 8,
            "two copies, a fill, a launch, four pieces of snapshots"
        );
    }
    let other = Run {
        other_order: true,
        offset: 0x200,
        ..a.clone()
    };
    let d = both(&a.recording(), &other.recording());
    // The snapshots contain the same buffers, because the names of buffers follow from the copies.
    assert!(
        d.calls.list.iter().all(|c| c.part == CallPart::Snapshot),
        "{:?}",
        d.calls.list
    );
    assert_eq!((d.calls.launches, d.calls.copies, d.calls.fills), (0, 0, 0));
}

#[test]
fn input_differences_are_listed_by_copy_and_snapshot() {
    let a = Run::new();
    let mut b = a.clone();
    b.input[1030] += 0.25;
    let (a, b) = (a.recording(), b.recording());
    let d = both(&a, &b);
    assert!(!d.is_empty());
    assert_eq!(
        (d.calls.copies, d.calls.snapshots, d.calls.fills, d.calls.launches),
        (2, 2, 0, 0)
    );
    assert_eq!(
        parts(&d),
        [
            (CallPart::Copy, "in0"),
            (CallPart::Copy, "out0"),
            (CallPart::Snapshot, "in0"),
            (CallPart::Snapshot, "out0"),
        ]
    );
    let input = &d.calls.list[0];
    assert_eq!(input.way, "host to device");
    let c = input.content.as_ref().unwrap();
    assert_eq!((c.bytes, c.first_byte / 4, c.elements.differ), (12_000, 1030, 1));
    assert_eq!(
        (c.elements.element, c.type_from),
        (ElementType::F32, TypeFrom::Signature)
    );
    assert_eq!((c.elements.compared, c.elements.equal), (3000, 2999));
    assert_eq!(c.elements.errors.as_ref().unwrap().max_absolute, 0.25);
    assert_eq!(input.place().unwrap().0 - GpuVa::new(WINDOW), c.first_byte);
    // Call differences are also counted as changed events.
    assert_eq!(d.events.changed, 4);
    let is_copy = |e: u64| matches!(a.events.call(e as usize), Some(CallEvent::Copy(_)));
    assert!(d.events.list.iter().all(|e| e.a.is_some_and(is_copy)));
    let found = d.calls.find(d.events.list[1].a, d.events.list[1].b).unwrap();
    assert_eq!(found.names.0, "out0");
}

#[test]
fn call_differences_name_the_changed_fields() {
    let a = Run::new();
    let describe = |b: Run| {
        let d = both(&a.recording(), &b.recording());
        let list = d.calls.list.into_iter();
        list.flat_map(|c| c.fields)
            .map(|(name, a, b)| format!("{name}: {a} -> {b}"))
            .collect::<Vec<_>>()
    };
    let changed = Run {
        n: 2999,
        factor: 0.5,
        grid: 13,
        ..a.clone()
    };
    assert_eq!(
        describe(changed),
        [
            "grid: 12×1×1 -> 13×1×1",
            "argument 2 (int): 3000 -> 2999",
            "argument 3 (float): 2 -> 0.5"
        ]
    );
    assert_eq!(describe(Run { filled: 7, ..a.clone() })[..1], ["value: 0x0 -> 0x7"]);
    assert_eq!(
        describe(Run {
            in_place: true,
            ..a.clone()
        }),
        ["argument 0 (float const*): in0 -> out0"]
    );
}

#[test]
fn code_difference_lists_launched_functions() {
    let a = Run::new();
    let mut b = a.clone();
    b.code.extend_from_slice(b"// later\n");
    b.digest = "bb";
    let d = both(&a.recording(), &b.recording());
    assert!(!d.is_empty());
    let code = &d.calls.code[..];
    assert_eq!(code.len(), 1, "functions that were not launched are not listed");
    assert_eq!(
        (code[0].function.as_str(), code[0].launches),
        ("scale(float const*, float*, int, float)", 1)
    );
    assert_eq!(code[0].digests, ("aa".to_owned(), "bb".to_owned()));
    assert_eq!((code[0].own, d.calls.list.len()), (None, 0));
}

#[test]
fn comparison_rules_apply_to_copy_contents() {
    let a = Run::new();
    let b = Run {
        error: 0.001,
        ..a.clone()
    };
    let (a, b) = (a.recording(), b.recording());
    let with = |rules: &str| diff_with(&a, &b, &rules.parse::<Rules>().unwrap(), &Progress::new()).unwrap();
    let d = with("");
    assert_eq!((d.calls.copies, d.calls.snapshots), (1, 1));
    let close = with("tolerance buffer out0 absolute 0.01");
    assert!(close.is_empty(), "{:?}", close.calls);
    assert_eq!((close.calls.within, close.calls.list.len()), (2, 2));
    assert!(close.calls.list.iter().all(|c| !c.differs));
    assert_eq!(close.events.changed, 0);
    assert!(!with("tolerance buffer out0 absolute 0.0001").is_empty());
    assert!(with("ignore buffer out*").is_empty());
    assert!(with("ignore events copy").is_empty());
    let to = WINDOW + 0x3200;
    assert!(with(&format!("ignore memory {to:#x}..{:#x}", to + 12_000)).is_empty());
    let part = with(&format!("ignore memory {to:#x}..{:#x}", to + 8_000));
    let c = part.calls.list[0].content.as_ref().unwrap();
    assert!(
        !part.is_empty() && c.first_byte >= 8_000 && c.elements.differ <= 1000,
        "{c:?}"
    );
}

#[test]
fn copy_on_one_side_does_not_shift_other_copies() {
    let page = |n: u8| vec![n; PAGE_SIZE];
    let copies = |all: &[u8]| {
        let mut b = Build::new();
        let stream = b.stream("default stream", 0);
        let at = b.take(PAGE_SIZE as u64);
        for n in all {
            b.copy_in(at, &page(*n), (1, PAGE_SIZE as u64), stream, true);
        }
        b.finish()
    };
    let d = both(&copies(&[1, 2, 3, 4, 5]), &copies(&[2, 3, 4, 5]));
    assert_eq!((d.events.deleted, d.events.changed, d.calls.copies), (1, 0, 0));
    let d = both(&copies(&[1, 2, 3, 4, 5]), &copies(&[1, 2, 9, 4, 5]));
    assert_eq!((d.events.deleted, d.events.changed, d.calls.copies), (0, 1, 1));
}

#[test]
fn missing_content_is_not_compared() {
    let a = Run::new();
    let b = Run {
        with_content: false,
        ..a.clone()
    };
    let d = both(&a.recording(), &b.recording());
    assert!(d.is_empty());
    assert_eq!(d.calls.unknown, 1);
}

/// Returns a recording of one copy with invalid content pages, as in a damaged file.
fn with_copy(row: CopyRow, pages: &[u32]) -> Recording {
    let mut b = Build::new();
    b.stream("default stream", 0);
    let mut r = b.finish();
    let mut events = EventsBuilder::new();
    events.call_pages(pages);
    events.copy(1, 1, row);
    r.events = events.finish();
    r
}

#[test]
fn missing_pages_and_overflowing_counts_are_not_compared() {
    let row = CopyRow {
        to: WINDOW,
        bytes: 4096,
        rows: 1,
        kind: 1,
        ..CopyRow::default()
    };
    let rows = [
        (row, vec![1]),
        (row, vec![]),
        (row, vec![u32::MAX]),
        (
            CopyRow {
                bytes: u64::MAX,
                rows: u64::MAX,
                ..row
            },
            vec![0],
        ),
        (CopyRow { bytes: 1 << 40, ..row }, vec![0, 0, 0]),
        (
            CopyRow {
                pages_at: u64::MAX - 1,
                ..row
            },
            vec![0],
        ),
        (
            CopyRow {
                to: u64::MAX,
                bytes: 8192,
                ..row
            },
            vec![0, 0, 0],
        ),
        (CopyRow { bytes: 0, ..row }, vec![]),
    ];
    let all: Vec<Recording> = rows.iter().map(|(r, p)| with_copy(*r, p)).collect();
    for a in &all {
        for b in &all {
            let d = both(a, b);
            assert!(d.calls.list.iter().all(|c| c.content.is_none()), "{d:?}");
        }
    }
}

#[test]
fn extra_snapshot_memory_causes_no_other_difference() {
    let with = |extra: bool| {
        let mut b = Build::new();
        let stream = b.stream("default stream", 0);
        let (other, x, y) = (b.take(4096), b.take(4096), b.take(4096));
        b.copy_in(x, &[1; 4096], (1, 4096), stream, true);
        b.copy_in(other, &[2; 4096], (1, 4096), stream, true);
        b.copy_in(y, &[3; 4096], (1, 4096), stream, true);
        let all = [(other, 4096), (x, 4096), (y, 4096)];
        b.snapshot("snapshot at the end", &all[usize::from(!extra)..]);
        b.finish()
    };
    let d = both(&with(true), &with(false));
    assert_eq!(d.events.deleted, 1);
    assert!(d.calls.list.iter().all(|c| c.content.is_none()), "{:?}", d.calls.list);
}
