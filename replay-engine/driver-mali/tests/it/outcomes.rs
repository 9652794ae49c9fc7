//! Whatever a CPU and jobs do to memory in turn: the outcome of a replay, and the outcome of that, replay as the
//! recording does and differ from it in nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use driver_mali::{ChainBuilder, Driver, JobSpec, Recorder};
use proptest::prelude::*;
use replay_engine::device::RegisterTarget;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::{self, Outcome, Verdict};
use replay_engine::verify;
use trace_core::diff::diff;
use trace_core::families::mali_jm::WriteKind;
use trace_core::mmu::Rights;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType, MmuFormat};
use trace_core::{GpuVa, Recording, container};

/// Bytes of the buffer that is always mapped: two pages.
const DATA: u64 = 0x2000;
/// Places where a page may be mapped and unmapped.
const PLACES: u64 = 3;

/// What the CPU or the GPU does next.
#[derive(Clone, Debug)]
enum Step {
    /// The CPU writes a word of the buffer.
    Word(u64, u64),
    /// The CPU fills part of the buffer.
    Fill(u64, u64, u8),
    /// The CPU maps a page at a place, or takes the one there away.
    Toggle(u64),
    /// The CPU writes into the page at a place, where there is one.
    Into(u64, u64, u64),
    /// The CPU writes a chain at a place of its own or over the last, and the GPU runs it: words of the buffer, or of
    /// the page at a place.
    Run {
        over: bool,
        writes: Vec<(Option<u64>, u64, u64)>,
    },
    /// The GPU runs the last chain again.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let words = DATA / 8;
    prop_oneof![
        (0..words, any::<u64>()).prop_map(|(at, v)| Step::Word(at, v)),
        (0..words, 1..200u64, any::<u8>()).prop_map(|(at, n, b)| Step::Fill(at, n, b)),
        (0..PLACES).prop_map(Step::Toggle),
        (0..PLACES, 0..512u64, any::<u64>()).prop_map(|(p, at, v)| Step::Into(p, at, v)),
        (
            any::<bool>(),
            prop::collection::vec((prop::option::of(0..PLACES), 0..512u64, any::<u64>()), 1..4)
        )
            .prop_map(|(over, writes)| Step::Run { over, writes }),
        Just(Step::Again),
    ]
}

fn open_device() -> Box<dyn RegisterTarget> {
    device_mali::factory("mali-g71").unwrap()
}

fn recorded(format: MmuFormat, steps: &[Step]) -> Recording {
    let mut b = open_device();
    let mut d = Driver::boot(&mut *b, Recorder::new("outcomes")).unwrap();
    let space = d.new_space(format).unwrap();
    let chains = d.alloc(space, 0x4000, Rights::RW).unwrap();
    let data = d.alloc(space, DATA, Rights::RW).unwrap();
    d.name_buffer("data", BufferRole::Output, space, data, DATA, ElementType::U64);
    d.name_buffer(
        "chains",
        BufferRole::Descriptor,
        space,
        chains,
        0x4000,
        ElementType::U32,
    );
    let place = |n: u64| GpuVa::new(0x55_0000_0000 + n * 0x4000_0000);
    let mut mapped = [false; PLACES as usize];
    // The last chain, and whether all that it writes is still there.
    let (mut next, mut last) = (chains, None::<(GpuVa, bool)>);
    for step in steps {
        match step {
            Step::Word(at, value) => d.write(space, data + at * 8, &value.to_le_bytes()).unwrap(),
            Step::Fill(at, words, byte) => {
                let bytes = (words * 8).min(DATA - at * 8) as usize;
                d.write(space, data + at * 8, &vec![*byte; bytes]).unwrap();
            }
            Step::Toggle(n) => {
                let there = &mut mapped[*n as usize];
                match *there {
                    true => d.unmap(space, place(*n), 0x1000).unwrap(),
                    false => d.map(space, place(*n), 0x1000, Rights::RW).unwrap(),
                }
                *there = !*there;
            }
            Step::Into(n, at, value) if mapped[*n as usize] => {
                d.write(space, GpuVa::new(place(*n).get() + at * 8), &value.to_le_bytes())
                    .unwrap();
            }
            Step::Into(..) => {}
            Step::Run { over, writes } => {
                let (mut chain, mut stays) = (ChainBuilder::new(), true);
                for (to, at, value) in writes {
                    let base = match to {
                        Some(n) if mapped[*n as usize] => place(*n),
                        _ => data,
                    };
                    stays &= base == data;
                    chain = chain.job(JobSpec::WriteValue {
                        to: base + at * 8,
                        kind: WriteKind::Immediate { bytes: 8 },
                        value: *value,
                    });
                }
                let at = last.filter(|_| *over).map_or(next, |l| l.0);
                d.write(space, at, &chain.build(at)).unwrap();
                next = GpuVa::new(next.get().max(at.get() + chain.bytes()).next_multiple_of(64));
                d.run_chain(space, 1, at).unwrap();
                last = Some((at, stays));
            }
            Step::Again => {
                if let Some((at, true)) = last {
                    d.run_chain(space, 1, at).unwrap();
                }
            }
        }
    }
    // At least one job, so that there is something to replay.
    let end = ChainBuilder::new().job(JobSpec::Null);
    d.write(space, next, &end.build(next)).unwrap();
    d.run_chain(space, 1, next).unwrap();
    d.finish().unwrap()
}

fn replayed(r: &Recording) -> (Outcome, Recording) {
    let mut device = open_device();
    let target = device.info();
    let c = replay_engine::compile::compile(
        r,
        &Edits::default(),
        &target,
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    verify::verify(&c.plan, &c.pages, &target).unwrap();
    let o = run::run(&c.plan, &c.pages, &mut *device, &Progress::new());
    assert_eq!((o.verdict, &o.failure), (Verdict::Match, &None));
    let recording = container::from_bytes(o.recording.clone()).unwrap();
    (o, recording)
}

fn assert_same(a: &Recording, b: &Recording) {
    let d = diff(a, b);
    assert!(d.is_empty(), "{d:#?}");
    assert_eq!(
        (d.descriptors.count_differing(), d.descriptors.unknown),
        (0, 0),
        "{:#?}",
        d.descriptors
    );
    assert_eq!(a.metadata.buffers, b.metadata.buffers);
    assert_eq!(a.metadata.regions, b.metadata.regions);
}

/// Records the steps, and compares the recording, its outcome, and the outcome of that. Returns the recording and its
/// outcome.
fn assert_same_outcomes(format: MmuFormat, steps: &[Step]) -> (Recording, Recording) {
    let original = recorded(format, steps);
    let (first, outcome) = replayed(&original);
    let (second, again) = replayed(&outcome);
    let (third, _) = replayed(&again);
    assert_eq!(first.outputs, second.outputs);
    assert_eq!(second.outputs, third.outputs);
    assert_same(&original, &outcome);
    assert_same(&outcome, &again);
    assert_same(&original, &again);
    // Memory of the outcome at each submit is memory of the original there, byte by byte.
    let ends = |r: &Recording| -> Vec<u64> { r.chain_reports().iter().map(|c| c.submit_event).collect() };
    assert_eq!(ends(&outcome).len(), first.jobs().len());
    assert_eq!(ends(&outcome).len(), ends(&again).len());
    (original, outcome)
}

#[test]
fn page_mapped_written_and_unmapped_between_two_jobs_is_no_difference() {
    let run = || Step::Run {
        over: false,
        writes: vec![(Some(1), 3, 7)],
    };
    // The frame is free again after the first page, and the second page takes it.
    let reused = [
        Step::Toggle(0),
        Step::Into(0, 5, 0x1234),
        Step::Toggle(0),
        Step::Toggle(1),
        run(),
    ];
    let later = [
        run(),
        Step::Toggle(0),
        Step::Into(0, 5, 0x1234),
        Step::Toggle(0),
        run(),
        Step::Toggle(1),
        run(),
    ];
    let unused = [run(), Step::Toggle(0), Step::Into(0, 5, 0x1234), Step::Toggle(0), run()];
    for (name, steps) in [("reused", &reused[..]), ("later", &later), ("unused", &unused)] {
        for format in [MmuFormat::MaliLpae, MmuFormat::Aarch64_4k] {
            let (original, outcome) = assert_same_outcomes(format, steps);
            let d = diff(&original, &outcome).host_writes;
            if name != "reused" {
                assert!(d.unmapped >= 8, "{name}: {d:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn replaying_an_outcome_gives_the_same_outcome(
        lpae in any::<bool>(),
        steps in prop::collection::vec(step(), 1..14),
    ) {
        let format = if lpae { MmuFormat::MaliLpae } else { MmuFormat::Aarch64_4k };
        assert_same_outcomes(format, &steps);
    }
}
