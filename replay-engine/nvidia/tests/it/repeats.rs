//! Repeated runs of a plan on one player: equal outputs, and only changed pages are restored.

use crate::machine::{BYTES, CODE, LONG, Machine, RANGES, SYSTEM, VIDEO, numbers, room};
use crate::work::Work;
use nvidia_client::steps::{EngineKind, Step, StepSink};
use nvidia_client::{Kernel, Place, PlayError, Player};
use nvidia_model::Settings;
use replay_nvidia::{PlanImageSource, PlanRun, PlanRuns, RunError};
use std::collections::BTreeMap;

const COMPUTE_CLASS: u16 = 0xcbc0;
/// Address of the push buffers.
const PUSH_BUFFER: u64 = SYSTEM + 0x10_0000;
const PAGE: u64 = 4096;
/// Number of pages of the three ranges of memory.
const ALL_PAGES: u64 = 3 * BYTES / PAGE;

/// The body of a plan, and its page images.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    images: Vec<[u8; PAGE as usize]>,
}

impl StepSink for Body {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

impl PlanImageSource for Body {
    fn image(&self, number: u32) -> Option<&[u8; PAGE as usize]> {
        self.images.get(usize::try_from(number).unwrap().checked_sub(1)?)
    }
}

impl Body {
    /// Returns a body that maps the memory of the tests and sets up the compute channel.
    fn new(work: &mut Work) -> Self {
        let mut body = Self::default();
        for (place, va) in RANGES {
            let bytes = BYTES;
            Step::Map { place, va, bytes }.encode(&mut body);
        }
        let words = work.set_up();
        body.submit(&words);
        body
    }

    fn write(&mut self, va: u64, data: &[u8]) {
        Step::Write { va, data }.encode(self);
    }

    fn submit(&mut self, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write(PUSH_BUFFER, &bytes);
        let submit = Step::Submit {
            event: 1,
            engine: EngineKind::Compute,
            va: PUSH_BUFFER,
            words: words.len() as u32,
        };
        submit.encode(self);
    }

    fn read(&mut self, output: u32, va: u64, bytes: u64) {
        Step::Read { output, va, bytes }.encode(self);
    }

    fn runs(&self, count: u32) -> PlanRuns<'_, Self> {
        PlanRuns::new(&self.bytes, COMPUTE_CLASS, count, self)
    }
}

/// Plays the next run, and returns its outputs by number.
fn play<K: Kernel>(
    runs: &mut PlanRuns<'_, Body>,
    player: &mut Player<'_, K>,
) -> Result<(PlanRun, BTreeMap<u32, Vec<u8>>), RunError> {
    let mut outputs = BTreeMap::new();
    let run = runs.play_next(player, |number, bytes| {
        outputs.insert(number, bytes.to_vec());
        Ok(())
    })?;
    Ok((run, outputs))
}

/// Returns a plan that adds numbers to its own input: 1, 2, … and 2, 4, … are 3, 6, …
fn accumulate() -> Body {
    let mut work = Work::new(CODE);
    let mut body = Body::new(&mut work);
    let [a, b] = [VIDEO, VIDEO + 0x1_0000];
    body.write(a, &numbers(1.0));
    body.write(b, &numbers(2.0));
    // Images that no work changes, from the middle of a page on: 64 pages of zeros, sevens and eights by turns.
    body.images = vec![[7; PAGE as usize], [8; PAGE as usize]];
    let pages: Vec<[u8; 4]> = (0..65u32).map(|n| (n % 3).to_le_bytes()).collect();
    let weights = Step::WritePages {
        va: VIDEO + 0x10_0800,
        bytes: 64 * PAGE,
        pages: &pages,
    };
    weights.encode(&mut body);
    let words = work.add([a, b, a], 1000);
    body.submit(&words);
    body.read(0, a, 4000);
    body.read(1, VIDEO + 0x10_0000, 65 * PAGE);
    body
}

#[test]
fn runs_of_a_kernel_that_accumulates_are_equal() {
    const RUNS: u32 = 6;
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let body = accumulate();
    let mut runs = body.runs(RUNS);
    let (first, expected) = play(&mut runs, &mut player).unwrap();
    assert_eq!((first.mapped, first.restored), (3 * BYTES, None));
    assert_eq!(expected[&0], numbers(3.0));
    let weights = &expected[&1];
    assert!(weights[..0x800].iter().all(|b| *b == 0));
    assert_eq!(weights[PAGE as usize..][..3], [7; 3], "the second page is image 1");
    for n in 1..RUNS {
        let (run, outputs) = play(&mut runs, &mut player).unwrap();
        assert_eq!(outputs, expected, "run {n}");
        let restored = run.restored.unwrap();
        // The input, the code, a bank, a descriptor, and the push buffers.
        assert!((1..64).contains(&restored.pages), "run {n}: {restored:?}");
        let is_compared = n == 1 || n == RUNS - 1;
        assert_eq!(
            restored.compared_pages,
            if is_compared { ALL_PAGES } else { 0 },
            "run {n}"
        );
        assert_eq!((restored.late_pages, run.mapped), (0, 0), "run {n}");
    }
    player.close().unwrap();
    machine.assert_empty("runs that accumulate");
}

#[test]
fn runs_go_around_the_ring() {
    // A ring has 1,024 entries. A run has two submissions of two entries.
    const RUNS: u32 = 260;
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let body = accumulate();
    let mut runs = body.runs(RUNS);
    for n in 0..RUNS {
        let (_, outputs) = play(&mut runs, &mut player).unwrap();
        assert_eq!(outputs[&0], numbers(3.0), "run {n}");
    }
    player.close().unwrap();
    machine.assert_empty("many runs");
}

/// Words of a semaphore of the channel: an acquire, or a release.
fn semaphore(va: u64, value: u32, execute: u32) -> [u32; 6] {
    let header = 5 << 16 | 1 << 29 | 0x5c >> 2;
    [header, va as u32, (va >> 32) as u32, value, 0, execute]
}

#[test]
fn pages_of_each_kind_of_writer_are_restored() {
    const RELEASE: u32 = 1 | 1 << 20;
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let mut work = Work::new(CODE);
    let mut body = Body::new(&mut work);
    // Each range, and the number of bytes that change in it.
    let [copied, filled, uploaded, stored, signalled] =
        [0x2_0000, 0x8_0000, 0x3_0000, 0x4_0000, 0x5_0000].map(|n| VIDEO + n);
    let changed = [
        (copied, 0x100),
        (filled, 0x4_0000),
        (uploaded, 8),
        (stored, 16),
        (signalled, 4),
        (SYSTEM + 0x4000, 0x200),
    ];
    for (n, (va, bytes)) in (0u32..).zip(changed) {
        body.read(n, va, bytes);
    }
    body.write(SYSTEM, &[9; 0x2000]);
    body.write(SYSTEM + 0x8000, &7u32.to_le_bytes());
    // The semaphore has its first value again in each run.
    body.submit(&semaphore(SYSTEM + 0x8000, 7, 0));
    body.submit(&semaphore(SYSTEM + 0x8000, 8, RELEASE));
    let copy = work.copy(SYSTEM, copied, 0x100);
    body.submit(&copy);
    for n in 0..0x4_0000 / 0x2000u64 {
        let copy = work.copy(SYSTEM, filled + n * 0x2000, 0x2000);
        body.submit(&copy);
    }
    let copy = work.copy(SYSTEM, SYSTEM + 0x4000, 0x200);
    body.submit(&copy);
    let upload = work.upload(uploaded, &[5; 8]);
    body.submit(&upload);
    let launch = work.launch("fault", 1, 4, &stored.to_le_bytes());
    body.submit(&launch);
    body.submit(&semaphore(signalled, 41, RELEASE));
    for (n, (va, bytes)) in (10u32..).zip(changed) {
        body.read(n, va, bytes);
    }
    let mut runs = body.runs(4);
    for n in 0..4 {
        let (run, outputs) = play(&mut runs, &mut player).unwrap();
        for (output, (va, _)) in (0u32..).zip(changed) {
            let [before, after] = [&outputs[&output], &outputs[&(output + 10)]];
            assert!(before.iter().all(|b| *b == 0), "run {n}: {va:#x} is zero at first");
            assert!(after.iter().any(|b| *b != 0), "run {n}: {va:#x} is written");
        }
        // 64 pages are filled, and a page of each other writer changes.
        let pages = run.restored.map_or(70, |r| r.pages);
        assert!((70..110).contains(&pages), "run {n}: {:?}", run.restored);
    }
    player.close().unwrap();
    machine.assert_empty("writers");
}

#[test]
fn a_run_after_a_fault_has_new_channels_and_restored_memory() {
    for failing in 1..=3u32 {
        let machine = Machine::with_failures(&format!("launch:{failing}:mmu"));
        let mut memories = room();
        let mut player = machine.player(LONG, &mut memories).unwrap();
        let body = accumulate();
        let mut runs = body.runs(6);
        for n in 1..=6u32 {
            match play(&mut runs, &mut player) {
                Ok((run, outputs)) => {
                    assert_ne!(n, failing, "the launch fails");
                    assert_eq!(outputs[&0], numbers(3.0), "run {n}, failure {failing}");
                    // The pages that a complete run changes are not known from a run that faulted.
                    let is_compared = run.restored.is_some_and(|r| r.compared_pages > 0);
                    let is_expected =
                        n == 6 || n == failing + 1 || n == 2 || n == 3 && failing == 1 || n == failing + 2;
                    assert_eq!(is_compared, is_expected, "run {n}, failure {failing}");
                }
                Err(RunError::Play(PlayError::Fault { code, .. })) => {
                    assert_eq!((n, code), (failing, Some(31)));
                    player.recover().unwrap();
                }
                Err(e) => panic!("run {n}: {e}"),
            }
        }
        player.close().unwrap();
        machine.assert_empty("a fault between runs");
    }
}

#[test]
fn pages_that_change_late_are_restored_before_the_last_run() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let body = accumulate();
    let mut runs = body.runs(4);
    let mut late = Vec::new();
    for n in 0..4 {
        let (run, outputs) = play(&mut runs, &mut player).unwrap();
        late.push(run.restored.map_or(0, |r| r.late_pages));
        if n == 3 {
            assert!(outputs[&1][..0x800].iter().all(|b| *b == 0));
        }
        if n == 1 {
            // As if this run's kernel had written other pages than that of the run before.
            player.write(VIDEO + 0x10_0000, &[1]).unwrap();
            player.write(SYSTEM + 0x1f_f000, &[1]).unwrap();
        }
    }
    assert_eq!(late, [0, 0, 0, 2]);
    player.close().unwrap();
}

#[test]
fn memory_that_the_cpu_cannot_map_is_restored() {
    let machine = Machine::with_failures("request:4e:0x51@7,request:4e:0x51@8");
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let body = accumulate();
    let mut runs = body.runs(4);
    for n in 0..4 {
        let (_, outputs) = play(&mut runs, &mut player).unwrap();
        assert_eq!(outputs[&0], numbers(3.0), "run {n}");
    }
    player.close().unwrap();
    machine.assert_empty("memory without mapping");
}

#[test]
fn parts_of_pages_are_not_cleared() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    player.map(Place::Video, VIDEO, BYTES).unwrap();
    player.write(VIDEO, &[1; 0x3_0000]).unwrap();
    for (va, bytes) in [(VIDEO + 8, PAGE), (VIDEO, 8)] {
        let error = player.clear_pages(va, bytes).unwrap_err();
        assert!(matches!(error, PlayError::Unaligned { .. }), "{error}");
        let error = player.visit_pages(va, bytes, |_, _| ()).unwrap_err();
        assert!(matches!(error, PlayError::Unaligned { .. }), "{error}");
    }
    // By the CPU, and by the copy engine.
    for (offset, bytes) in [(0x1000, 0x2000), (0x1_0000, 0x1_0000)] {
        player.clear_pages(VIDEO + offset, bytes).unwrap();
    }
    let mut pages = Vec::new();
    let is_one = |page: &[u8; PAGE as usize]| page.iter().all(|b| *b == 1);
    let visit = |va, page: &[u8; PAGE as usize]| pages.push((va, is_one(page), page.iter().all(|b| *b == 0)));
    player.visit_pages(VIDEO, 0x3_0000, visit).unwrap();
    for (n, (va, is_one, is_zero)) in (0u64..).zip(pages) {
        let is_cleared = matches!(n, 1..3 | 0x10..0x20);
        assert_eq!((va, is_one, is_zero), (VIDEO + n * PAGE, !is_cleared, is_cleared));
    }
    let outside = player.clear_pages(VIDEO + BYTES - PAGE, 2 * PAGE).unwrap_err();
    assert!(matches!(outside, PlayError::Unmapped { .. }), "{outside}");
    player.close().unwrap();
}

#[test]
fn steps_that_are_cut_short_end_the_run() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let mut body = accumulate();
    body.bytes.pop();
    let ended = play(&mut body.runs(1), &mut player);
    assert!(matches!(ended, Err(RunError::Steps(_))), "{:?}", ended.map(|_| ()));
    player.close().unwrap();
    machine.assert_empty("steps that are cut short");
}
