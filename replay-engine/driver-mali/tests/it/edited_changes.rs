//! Tests of edits of buffers that the CPU rewrites during a recording, and of invalid memory changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::sample_table::record_changes;
use driver_mali::{ChainBuilder, Driver, JobSpec, Recorder, SpaceId};
use replay_core::{Action, Actions};
use replay_engine::device::RegisterTarget;
use replay_engine::plan::{self, BodyBuilder, CompileError, CompileOptions, Compiled, Edits, RewriteKind};
use replay_engine::run::{self, Verdict};
use replay_engine::verify::{self, Reason};
use trace_core::families::mali_jm::WriteKind;
use trace_core::mmu::{INVALID, Rights, encode_leaf, encode_table};
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType, FrameRole, MmuFormat};
use trace_core::{GpuVa, PhysAddr, Recording};

fn open_device() -> Box<dyn RegisterTarget> {
    device_mali::factory("mali-g71").unwrap()
}

fn put(to: GpuVa, value: u64) -> JobSpec {
    JobSpec::WriteValue {
        to,
        kind: WriteKind::Immediate { bytes: 8 },
        value,
    }
}

fn submit(d: &mut Driver<'_>, space: SpaceId, at: GpuVa, job: JobSpec) {
    d.write(space, at, &ChainBuilder::new().job(job).build(at)).unwrap();
    d.run_chain(space, 1, at).unwrap();
}

fn word(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

/// Records four words that the CPU writes first or only later. Then the CPU writes each step of `then`, and a submit
/// follows each step.
fn record_steps(first: Option<[u64; 4]>, then: &[&[(u64, u64)]], job_writes: u64) -> Recording {
    let mut b = open_device();
    let mut d = Driver::boot(&mut *b, Recorder::new("edits")).unwrap();
    let space = d.new_space(MmuFormat::MaliLpae).unwrap();
    let chains = d.alloc(space, 0x1000, Rights::RW).unwrap();
    let input = d.alloc(space, 0x1000, Rights::RW).unwrap();
    // The buffer is inside one page and does not start at its begin.
    let input = input + 0x100;
    d.name_buffer("input", BufferRole::Output, space, input, 32, ElementType::U64);
    for (n, value) in first.into_iter().flatten().enumerate() {
        d.write(space, input + 8 * n as u64, &word(value)).unwrap();
    }
    submit(&mut d, space, chains, put(input + 8 * job_writes, 0xa0));
    for step in then {
        for (n, value) in *step {
            d.write(space, input + 8 * n, &word(*value)).unwrap();
        }
        submit(&mut d, space, chains, JobSpec::Null);
    }
    d.finish().unwrap()
}

/// Replays with other words in the buffer. Returns the final words and the reports about the edit.
fn replay_edited(r: &Recording, words: [u64; 4]) -> ([u64; 4], Vec<String>) {
    let mut edits = Edits::default();
    edits
        .inputs
        .insert("input".to_owned(), words.iter().flat_map(|w| word(*w)).collect());
    let mut device = open_device();
    let target = device.info();
    let c = replay_engine::compile::compile(r, &edits, &target, &CompileOptions::default(), &Progress::new()).unwrap();
    verify::verify(&c.plan, &c.pages, &target).unwrap();
    let o = run::run(&c.plan, &c.pages, &mut *device, &Progress::new());
    assert_eq!((o.verdict, o.failure), (Verdict::Match, None));
    let data = &o.outputs[0].data;
    let got: Vec<u64> = data
        .chunks(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
        .collect();
    let report = c.plan.rewrites.iter().filter(|r| r.kind == RewriteKind::Input);
    (
        got.try_into().unwrap(),
        report.skip(1).map(|r| r.detail.clone()).collect(),
    )
}

const EDIT: [u64; 4] = [0xe1, 0xe2, 0xe3, 0xe4];

#[test]
fn edit_is_reapplied_when_the_cpu_rewrites_the_same_bytes() {
    // The job has overwritten the second word. The CPU writes the first and the second word again.
    let r = record_steps(Some([1, 2, 3, 4]), &[&[(0, 1), (1, 2)]], 1);
    let (got, messages) = replay_edited(&r, EDIT);
    assert_eq!(got, EDIT);
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("writes the same bytes again"), "{messages:?}");
}

#[test]
fn cpu_write_of_other_contents_ends_an_edit() {
    let r = record_steps(Some([1, 2, 3, 4]), &[&[(0, 9)]], 1);
    let (got, messages) = replay_edited(&r, EDIT);
    // The job's result stays, and the other words are as recorded.
    assert_eq!(got, [9, 0xa0, 3, 4]);
    assert!(messages[0].contains("the edit ends"), "{messages:?}");
    // The edit applies again where the CPU rewrites the original bytes and no job has written.
    let r = record_steps(Some([1, 2, 3, 4]), &[&[(0, 9)], &[(3, 8)], &[(0, 1), (3, 4)]], 1);
    let (got, messages) = replay_edited(&r, EDIT);
    assert_eq!(got, [0xe1, 0xa0, 0xe3, 0xe4]);
    assert_eq!(messages.len(), 2);
    assert!(messages[1].contains("applies again"), "{messages:?}");
}

#[test]
fn edit_replaces_the_first_cpu_contents_of_a_buffer() {
    let r = record_steps(None, &[&[(0, 1), (1, 2), (2, 3), (3, 4)], &[(2, 3)]], 1);
    assert_eq!(replay_edited(&r, EDIT).0, EDIT);
    // The later write has other contents.
    let r = record_steps(None, &[&[(0, 1), (1, 2), (2, 3), (3, 4)], &[(2, 7)]], 1);
    assert_eq!(replay_edited(&r, EDIT).0, [1, 2, 7, 4]);
}

#[test]
fn edit_stays_except_where_jobs_write() {
    let r = record_steps(Some([1, 2, 3, 4]), &[&[]], 2);
    let (got, messages) = replay_edited(&r, EDIT);
    assert_eq!((got, messages.len()), ([0xe1, 0xe2, 0xa0, 0xe4], 0));
}

#[test]
fn edit_needs_a_buffer_that_is_mapped_at_some_time() {
    let r = record_changes(&mut *open_device(), MmuFormat::Aarch64_4k).unwrap();
    let late = r.buffer("late").unwrap();
    let mut edits = Edits::default();
    edits.inputs.insert("late".to_owned(), vec![0x33; late.bytes as usize]);
    let mut device = open_device();
    let target = device.info();
    let c = replay_engine::compile::compile(&r, &edits, &target, &CompileOptions::default(), &Progress::new()).unwrap();
    verify::verify(&c.plan, &c.pages, &target).unwrap();
    let o = run::run(&c.plan, &c.pages, &mut *device, &Progress::new());
    let out = &o.outputs.iter().find(|b| b.name == "late").unwrap().data;
    // A later CPU write to a part has other contents, so the edit ends. The job's result stays.
    assert_eq!(out[..8], [5; 8]);
    assert_eq!(out[8..16], word(4));
    assert_eq!(out[16..0x310], [6; 0x300]);
    assert_eq!(out[0x310..0x2400], [5; 0x2400 - 0x310]);
    let unmapped = plan::Patch {
        address_space: 0,
        va: GpuVa::new(0x66_0000_0000),
        bytes: vec![1],
    };
    let edits = Edits {
        patches: vec![unmapped],
        ..Edits::default()
    };
    let e =
        replay_engine::compile::compile(&r, &edits, &target, &CompileOptions::default(), &Progress::new()).unwrap_err();
    assert!(matches!(e, CompileError::NotMapped { .. }), "{e}");
}

/// Returns a valid plan with memory changes. The actions of `more` follow the first action for which `at` is true.
fn with(at: impl Fn(&Action) -> bool, more: impl Fn(u32) -> Vec<Action>) -> Compiled {
    let r = record_changes(&mut *open_device(), MmuFormat::MaliLpae).unwrap();
    let target = open_device().info();
    let mut c = replay_engine::compile::compile(
        &r,
        &Edits::default(),
        &target,
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    let mut body = BodyBuilder::new();
    let mut done = false;
    for action in Actions::new(&c.plan.accesses().unwrap().body).map(Result::unwrap) {
        body.push(&action).unwrap();
        if !done && at(&action) {
            done = true;
            more(action.event()).iter().for_each(|a| body.push(a).unwrap());
        }
    }
    assert!(done);
    (c.plan.accesses_mut().unwrap().body, c.plan.actions) = body.finish();
    c
}

fn refusal(c: &Compiled) -> (u8, Reason) {
    let r = verify::verify(&c.plan, &c.pages, &open_device().info()).unwrap_err();
    (r.rule, r.reason)
}

fn is_change(a: &Action) -> bool {
    matches!(a, Action::Put { .. } | Action::Copy { .. })
}

#[test]
fn memory_changes_that_could_break_containment_are_refused() {
    let c = with(is_change, |_| Vec::new());
    verify::verify(&c.plan, &c.pages, &open_device().info()).unwrap();
    let plan = c.plan;
    let accesses = plan.accesses().unwrap();
    let base = accesses.arena.base;
    let root = plan.spaces()[0].root;
    let frame = |n: u64| base + n * 4096;
    let tables: Vec<u64> = accesses
        .pages
        .iter()
        .filter(|p| p.role == FrameRole::Table)
        .map(|p| p.frame - base.frame())
        .collect();
    let data = accesses
        .pages
        .iter()
        .find(|p| p.role == FrameRole::Data)
        .map(|p| p.frame - base.frame())
        .unwrap();
    let word = |offset: u64, value: u64| {
        move |event| {
            vec![Action::Put {
                event,
                offset,
                width: 8,
                value,
            }]
        }
    };
    let refuse_put = |offset, value| refusal(&with(is_change, word(offset, value)));
    let lpae = MmuFormat::MaliLpae;
    // These changes are outside the memory or cross a page.
    let end = accesses.used_pages * 4096;
    assert!(matches!(refuse_put(end, 1), (2, Reason::ChangeOutside { .. })));
    assert!(matches!(refuse_put(u64::MAX - 7, 1), (2, Reason::ChangeOutside { .. })));
    let copy = |offset, bytes, image| {
        refusal(&with(is_change, move |event| {
            vec![Action::Copy {
                event,
                offset,
                bytes,
                image,
            }]
        }))
    };
    assert!(matches!(
        copy(data * 4096 + 8, 4096, 0),
        (2, Reason::ChangeOutside { .. })
    ));
    assert!(matches!(copy(data * 4096, 0, 0), (2, Reason::ChangeOutside { .. })));
    assert!(matches!(
        copy(data * 4096, 8, 999),
        (2, Reason::NoImage { image: 999, .. })
    ));
    // These table entries point to foreign memory, to a table as data, or to data as a table. One write changes half an
    // entry.
    let entry = |n: u64| (root - base) + 8 * n;
    // The start has four levels of tables.
    let leaf_table = tables[3];
    let leaf = |pa| encode_leaf(lpae, pa, Rights::RW, 0);
    let foreign = refuse_put(leaf_table * 4096, leaf(PhysAddr::new(0x1000)));
    assert!(matches!(foreign, (2, Reason::LeafOutside { .. })), "{foreign:?}");
    let table = refuse_put(leaf_table * 4096, leaf(root));
    assert!(matches!(table, (2, Reason::TableWritable { .. })), "{table:?}");
    let reached = refuse_put(entry(9), encode_table(lpae, frame(data)));
    assert!(matches!(reached, (2, Reason::TableReached { .. })), "{reached:?}");
    let outside = refuse_put(entry(9), encode_table(lpae, frame(accesses.used_pages)));
    assert!(matches!(outside, (2, Reason::TableOutside { .. })), "{outside:?}");
    let level = refuse_put(entry(9), encode_table(lpae, frame(leaf_table)));
    assert!(matches!(level, (2, Reason::TableKind { .. })), "{level:?}");
    assert!(matches!(refuse_put(entry(9), 1), (2, Reason::Tables { .. })));
    let half = |event| {
        vec![Action::Put {
            event,
            offset: entry(9),
            width: 4,
            value: 0,
        }]
    };
    assert!(matches!(refusal(&with(is_change, half)), (2, Reason::HalfEntry { .. })));
    // An invalid entry is allowed.
    let c = with(is_change, word(entry(9), INVALID));
    verify::verify(&c.plan, &c.pages, &open_device().info()).unwrap();
    // The check follows a chain with the CPU's changes, so it finds a loop that a change creates.
    let head = plan.jobs()[1].head_va;
    let memory = plan::PlanMemory::from_plan(accesses, &c.pages).unwrap();
    let at = memory.gpu(&plan.spaces()[0]).physical(head).unwrap() - base;
    let last_change = {
        let all: Vec<Action> = Actions::new(&accesses.body).map(Result::unwrap).collect();
        let submit = all
            .iter()
            .position(|a| a.event() == plan.jobs()[1].submit_event as u32)
            .unwrap();
        all[..submit].iter().rposition(is_change).map(|i| all[i]).unwrap()
    };
    let looped = with(
        |a| *a == last_change,
        |event| {
            vec![Action::Put {
                event,
                offset: at + 24,
                width: 8,
                value: head.get(),
            }]
        },
    );
    assert!(
        matches!(refusal(&looped), (3, Reason::ChainLoops { .. })),
        "{:?}",
        refusal(&looped)
    );
}

#[test]
fn memory_of_a_running_chain_is_never_changed() {
    let r = record_changes(&mut *open_device(), MmuFormat::MaliLpae).unwrap();
    let target = open_device().info();
    let c = replay_engine::compile::compile(
        &r,
        &Edits::default(),
        &target,
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    let memory = plan::PlanMemory::from_plan(c.plan.accesses().unwrap(), &c.pages).unwrap();
    let base = c.plan.accesses().unwrap().arena.base.get();
    let job = c.plan.jobs()[0];
    let at = memory.gpu(&c.plan.spaces()[0]).physical(job.head_va).unwrap().get() - base;
    let data = r.buffer("data").unwrap();
    let other = memory.gpu(&c.plan.spaces()[0]).physical(data.va).unwrap().get() - base;
    let is_submit = |a: &Action| a.event() == job.submit_event as u32 && matches!(a, Action::Write { space: 0, .. });
    let change = |offset| {
        with(is_submit, move |event| {
            vec![Action::Put {
                event,
                offset,
                width: 8,
                value: 0,
            }]
        })
    };
    for (offset, what) in [(at + 64, "a page with its headers"), (8 * 300, "a page table")] {
        match refusal(&change(offset)) {
            (
                3,
                Reason::ChangeAtWork {
                    slot: 1, what: message, ..
                },
            ) => assert_eq!(message, what),
            other => panic!("{other:?}"),
        }
    }
    // Other memory may change: a driver fills the next buffer while the GPU works on this one.
    let c = change(other);
    verify::verify(&c.plan, &c.pages, &target).unwrap();
}
