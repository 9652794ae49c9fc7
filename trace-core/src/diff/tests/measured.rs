//! Tests of element comparison, moved mappings, and rules.

use super::*;
use crate::recording::{Buffer, BufferRole, ElementType};

/// Creates the recording of [`mapped`], with contents at page `n` of the address space.
fn with_pages(entries: &[u64], contents: &[(u64, Vec<u8>)]) -> Recording {
    let mut r = mapped(0x10_0000, entries);
    let mut m = MemoryBuilder::new();
    let old = r.memory.last();
    let mut frames = Vec::new();
    for run in old.runs() {
        for frame in run.first_frame..run.end_frame() {
            let page = *old.frame(frame).unwrap();
            frames.push((frame, m.add_page(&page), run.role));
        }
    }
    for (page, bytes) in contents {
        let mut image = [0u8; 4096];
        image[..bytes.len()].copy_from_slice(bytes);
        frames.push((0x104 + page, m.add_page(&image), FrameRole::Data));
    }
    m.add_snapshot(0, frames);
    r.memory = m.finish();
    r
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn buffer(name: &str, va: u64, bytes: u64, element: ElementType) -> Buffer {
    Buffer {
        name: name.into(),
        role: BufferRole::Output,
        address_space: 0,
        va: GpuVa::new(va),
        bytes,
        element,
    }
}

/// Creates two recordings whose buffer `out` differs in two of four floats, one slightly and one more.
fn outputs() -> (Recording, Recording) {
    let recording_of = |values: &[f32]| {
        let mut r = with_pages(&[RW, RW], &[(0, floats(values))]);
        r.metadata.buffers = vec![
            buffer("out", 0, 16, ElementType::F32),
            buffer("far", 0x9000, 64, ElementType::U8),
        ];
        r
    };
    (
        recording_of(&[1.0, 2.0, 3.0, 4.0]),
        recording_of(&[1.0, 2.0001, 3.5, 4.0]),
    )
}

fn with(a: &Recording, b: &Recording, rules: &str) -> Diff {
    let d = diff_with(a, b, &rules.parse().unwrap(), &Progress::new()).unwrap();
    let back = diff_with(b, a, &rules.parse().unwrap(), &Progress::new()).unwrap();
    assert_eq!(back, d.clone().swapped());
    d
}

#[test]
fn buffers_are_compared_by_element() {
    let (a, b) = outputs();
    let d = with(&a, &b, "");
    assert_eq!(
        d.buffers.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(),
        ["far", "out"]
    );
    let (far, out) = (&d.buffers[0], &d.buffers[1]);
    // Unmapped memory is not compared, and reported as unknown.
    assert_eq!((far.unknown, far.differs()), (64, false));
    let e = out.elements.as_ref().unwrap();
    assert_eq!((e.element, e.compared, e.equal, e.differ), (ElementType::F32, 4, 2, 2));
    assert_eq!(e.first.unwrap().index, 1);
    assert_eq!(e.errors.as_ref().unwrap().max_absolute, 0.5);
    assert_eq!((out.bytes_differ, d.pages.bytes_differ, d.pages.changed), (3, 3, 1));
}

#[test]
fn values_within_a_tolerance_do_not_differ() {
    let (a, b) = outputs();
    let d = with(&a, &b, "tolerance buffer o* absolute 0.6");
    assert!(d.is_empty(), "{d:?}");
    let out = &d.buffers[1];
    assert_eq!(out.elements.as_ref().unwrap().within, 2);
    assert_eq!((d.pages.ignored, d.pages.changed), (1, 0));
    // The last rule that matches a buffer applies; one element beyond the limit is reported as that element.
    let d = with(
        &a,
        &b,
        "tolerance buffer * absolute 0.6\ntolerance buffer out absolute 0.1",
    );
    assert!(!d.is_empty());
    assert_eq!(d.buffers[1].elements.as_ref().unwrap().first.unwrap().index, 2);
}

#[test]
fn ignored_memory_and_buffers_are_no_difference() {
    let (a, b) = outputs();
    for rules in ["ignore buffer out", "ignore memory 0x0..0x10\nignore buffer out"] {
        assert!(with(&a, &b, rules).is_empty(), "{rules}");
    }
    let d = with(&a, &b, "ignore buffer far");
    assert_eq!((d.buffers.len(), d.pages.changed), (1, 1));
    // The rule excludes another address space.
    assert!(!with(&a, &b, "ignore buffer far\nignore memory 4:0x0..0x1000").is_empty());
    assert!(!with(&a, &b, "ignore memory 0x0..0x8").is_empty());
}

#[test]
fn ignored_registers_and_fields_still_align_their_accesses() {
    let a = recording(&BASE, &[]);
    let mut changed = BASE;
    changed[6].2 = 0x0002_0000;
    let b = recording(&changed, &[]);
    assert!(!with(&a, &b, "ignore register JOB_IRQ_RAW*").is_empty());
    let d = with(&a, &b, "ignore register JOB_IRQ_STATUS");
    assert!(d.is_empty(), "{d:?}");
    assert_eq!((d.events.equal, d.events.uncompared), (6, 1));
    let field = |n: usize| d_fields(&a, &b)[n].clone();
    let one = with(&a, &b, &format!("ignore register JOB_IRQ_STATUS field {}", field(0)));
    let remaining: Vec<_> = one.registers[0].fields.iter().map(|f| f.0.clone()).collect();
    assert_eq!(remaining, [field(1)]);
    let both = format!(
        "ignore register JOB_IRQ_STATUS field {}\nignore register JOB_IRQ_STATUS field {}",
        field(0),
        field(1)
    );
    assert!(with(&a, &b, &both).is_empty());
    // A missing access is a difference, whatever its value would be.
    let shorter = recording(&BASE[..6], &[]);
    assert_eq!(with(&a, &shorter, "ignore register JOB_IRQ_STATUS").events.deleted, 1);
    assert_eq!(with(&a, &shorter, "ignore events read").events.deleted, 0);
}

fn d_fields(a: &Recording, b: &Recording) -> Vec<String> {
    diff(a, b).registers[0].fields.iter().map(|f| f.0.clone()).collect()
}

#[test]
fn rules_ignore_unnamed_registers_by_offset() {
    let mut one = BASE;
    one[0].1 = 0x3ff0;
    let mut two = one;
    two[0].2 = 0x101;
    let (a, b) = (recording(&one, &[]), recording(&two, &[]));
    assert!(!diff(&a, &b).is_empty());
    assert!(with(&a, &b, "ignore register 0x3ff0").is_empty());
    // The same without a register map.
    let bare = |mut r: Recording| {
        r.metadata.identity.gpu_id = 0;
        r
    };
    let (a, b) = (bare(a), bare(b));
    assert!(!diff(&a, &b).is_empty());
    assert!(with(&a, &b, "ignore register 0x3ff0").is_empty());
}

#[test]
fn pages_with_the_same_contents_elsewhere_were_moved() {
    let text = |n: u8| vec![n; 64];
    let a = with_pages(&[RW, RW, RW, 0, 0, 0], &[(1, text(1)), (2, text(2))]);
    let b = with_pages(&[RW, 0, 0, 0, RW, RW], &[(4, text(1)), (5, text(2))]);
    let d = with(&a, &b, "");
    let m = &d.mappings;
    assert_eq!((m.same, m.changed, m.only_a, m.only_b, m.moved), (1, 0, 0, 0, 2));
    assert_eq!(m.list.len(), 1);
    assert_eq!(
        (m.list[0].va, m.list[0].pages, m.list[0].moved_to),
        (GpuVa::new(0x1000), 2, Some(GpuVa::new(0x4000)))
    );
    assert!(!d.is_empty());
    // The contents are compared at their own addresses.
    assert_eq!((d.pages.same, d.pages.only_a, d.pages.only_b), (2, 0, 0));
    // Pages with other contents do not match.
    let c = with_pages(&[RW, 0, 0, 0, RW, RW], &[(4, text(1)), (5, text(3))]);
    let m = with(&a, &c, "").mappings;
    assert_eq!((m.only_a, m.only_b, m.moved), (2, 2, 0));
    // Without contents, only a unique run of a size and kind is recognized.
    let empty = |entries: &[u64]| with_pages(entries, &[]);
    let m = with(&empty(&[RW, RWX, 0]), &empty(&[RW, 0, RWX]), "").mappings;
    assert_eq!((m.moved, m.only_a), (1, 0));
    let m = with(&empty(&[RWX, 0, RWX, 0, 0, 0]), &empty(&[0, 0, 0, RWX, 0, 0]), "").mappings;
    assert_eq!((m.moved, m.only_a, m.only_b), (0, 2, 1));
    assert!(with(&a, &b, "ignore mappings").mappings.list.is_empty());
}

/// Returns the steps that lead to a difference: links and events.
fn steps(c: &Cause) -> Vec<(Link, Option<u64>, Option<u64>)> {
    c.steps.iter().map(|s| (s.link, s.a, s.b)).collect()
}

fn causes_from_both_sides(a: &Recording, b: &Recording) -> Vec<Cause> {
    let (d, aligned) = compare(a, b, &Rules::default(), &Progress::new()).unwrap();
    let found = find_causes((a, b), (&d, &aligned), &Progress::new()).unwrap();
    // From the other side, the same events are the cause.
    let (d, aligned) = compare(b, a, &Rules::default(), &Progress::new()).unwrap();
    let back = find_causes((b, a), (&d, &aligned), &Progress::new()).unwrap();
    let swapped = |c: &Cause| steps(c).into_iter().map(|(l, x, y)| (l, y, x)).collect::<Vec<_>>();
    let forward: Vec<_> = found.iter().map(steps).collect();
    assert_eq!(back.iter().map(swapped).collect::<Vec<_>>(), forward);
    found
}

/// A job slot: configured, given a head, started, and its status read.
fn slot(feature: u64, affinity: u64, status: u64) -> Recording {
    let list = [
        (false, 0x8, feature),
        (true, 0x18c0, 0x40),
        (true, 0x18d0, affinity),
        (false, 0x18d0, affinity),
        (true, 0x18e0, 1),
        (false, 0x1824, status),
    ];
    recording(&list, &[])
}

#[test]
fn difference_is_traced_to_its_first_cause() {
    // The status of a job, the register that configured the job, and the driver's read before it.
    let (a, b) = (slot(0x10, 1, 1), slot(0x11, 3, 0x40));
    let all = causes_from_both_sides(&a, &b);
    let of_status = all
        .iter()
        .find(|c| c.effect == Effect::Event { a: Some(5), b: Some(5) });
    assert_eq!(
        of_status.map(steps).unwrap(),
        [
            (Link::Ran, Some(4), Some(4)),
            (Link::Configured, Some(2), Some(2)),
            (Link::MayDecide, Some(0), Some(0)),
        ]
    );
    // A register reads back the written value, which is certain.
    let of_read = all
        .iter()
        .find(|c| c.effect == Effect::Event { a: Some(3), b: Some(3) });
    let found = of_read.map_or_else(Vec::new, steps);
    if !found.is_empty() {
        assert_eq!(found[0], (Link::Set, Some(2), Some(2)));
    }
    // Nothing is before the first difference.
    let first = all
        .iter()
        .find(|c| c.effect == Effect::Event { a: Some(0), b: Some(0) })
        .unwrap();
    assert!(first.steps.is_empty());
}

#[test]
fn diverging_job_without_other_cause_is_the_cause() {
    let all = causes_from_both_sides(&slot(0x10, 1, 1), &slot(0x10, 1, 0x40));
    assert_eq!(all.len(), 1);
    assert_eq!(steps(&all[0]), [(Link::Ran, Some(4), Some(4))]);
}

#[test]
fn output_difference_is_traced_to_the_differing_input() {
    let recording_of = |input: f32, output: f32| {
        let mut r = with_pages(&[RW, RW], &[(0, floats(&[input])), (1, floats(&[output]))]);
        r.events = slot(0x10, 1, 1).events;
        r.metadata.buffers = vec![
            buffer("out", 0x1000, 4, ElementType::F32),
            Buffer {
                role: BufferRole::Input,
                ..buffer("in", 0, 4, ElementType::F32)
            },
        ];
        r
    };
    let all = causes_from_both_sides(&recording_of(1.0, 2.0), &recording_of(1.5, 3.0));
    assert_eq!(all.len(), 2, "{all:?}");
    // The input differs from the start.
    assert!(all[0].steps.is_empty());
    assert_eq!(
        steps(&all[1]),
        [(Link::Ran, Some(4), Some(4)), (Link::Held, None, None)]
    );
    assert_eq!(all[1].steps[1].buffer.as_deref(), Some("in"));
}
