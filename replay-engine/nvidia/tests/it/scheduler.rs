//! The page of the compute scheduler on the model: a kernel's message starts a launch that waits, as graphs of CUDA do.

use crate::machine::{CODE, LONG, Machine, SYSTEM, VIDEO, numbers, room, set_up, submit};
use crate::work::ARRAYS;
use nvidia_client::steps::{Step, StepSink};
use nvidia_client::{ClientError, Kernel, MAX_SCHEDULER_PAGES, Operation, PlayError, Player};
use nvidia_model::Settings;
use replay_nvidia::{PlanImageSource, PlanRuns};
use std::time::Duration;

/// Address of the page.
const PAGE: u64 = 0x7f19_22e0_0000;
/// Address of the sums.
const SUMS: u64 = VIDEO + ARRAYS[2];

fn graph() -> [Vec<u32>; 4] {
    crate::work::graph(CODE, VIDEO, PAGE, [&numbers(1.0), &numbers(2.0)])
}

fn sums<K: Kernel>(player: &mut Player<'_, K>) -> Vec<u8> {
    let mut read = vec![0; 4000];
    player.read(SUMS, &mut read).unwrap();
    read
}

fn map_page<K: Kernel>(player: &mut Player<'_, K>, va: u64) -> Result<(), PlayError> {
    player.play(&Step::MapScheduler { va }, |_| None)
}

#[test]
fn a_message_of_a_kernel_starts_a_launch_that_waits() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    set_up(&mut player).unwrap();
    map_page(&mut player, PAGE).unwrap();
    let [set_up, inputs, waiting, sender] = graph();
    for words in [&set_up, &inputs, &waiting] {
        submit(&mut player, 1, words).unwrap();
    }
    assert_eq!(sums(&mut player), vec![0; 4000], "the launch waits");
    submit(&mut player, 2, &sender).unwrap();
    assert_eq!(sums(&mut player), numbers(3.0));

    // The page is no memory.
    let unmapped = player.read(PAGE, &mut [0; 4]).unwrap_err();
    assert!(matches!(unmapped, PlayError::Unmapped { va: PAGE, .. }), "{unmapped}");
    player.close().unwrap();
    machine.assert_empty("a graph");
}

#[test]
fn the_page_outlives_a_fault() {
    let machine = Machine::with_failures("launch:1:mmu");
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    set_up(&mut player).unwrap();
    map_page(&mut player, PAGE).unwrap();
    let [set_up, inputs, waiting, sender] = graph();
    submit(&mut player, 1, &set_up).unwrap();
    submit(&mut player, 2, &sender).unwrap_err();
    player.recover().unwrap();
    for words in [&set_up, &inputs, &waiting, &sender] {
        submit(&mut player, 3, words).unwrap();
    }
    assert_eq!(sums(&mut player), numbers(3.0));
    player.close().unwrap();
    machine.assert_empty("a fault");
}

/// Most programs never use the page, so that a driver that refuses it does not end their replay.
#[test]
fn a_fault_names_a_page_that_the_driver_refused() {
    let machine = Machine::with_failures("request:57:0x56@8");
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    set_up(&mut player).unwrap();
    map_page(&mut player, PAGE).unwrap();
    let [set_up, _, _, sender] = graph();
    submit(&mut player, 1, &set_up).unwrap();
    player.set_limit(Duration::from_secs(5).as_nanos() as u64);
    submit(&mut player, 2, &sender).unwrap_err();
    let fault = player.fault().unwrap();
    assert_eq!(fault.mmu_faults[0].map(|f| f.va), Some(PAGE));
    let refused = ClientError::Refused {
        operation: Operation::MapForGpu(PAGE),
        status: 0x56,
    };
    assert_eq!(fault.scheduler_refusal, Some(refused));
}

#[test]
fn a_player_has_few_pages() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    for n in 0..MAX_SCHEDULER_PAGES as u64 {
        map_page(&mut player, PAGE + n * 0x1000).unwrap();
    }
    map_page(&mut player, PAGE).unwrap();
    assert!(map_page(&mut player, PAGE - 0x1000).is_err());
    player.close().unwrap();
}

#[derive(Default)]
struct Body(Vec<u8>);

impl StepSink for Body {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl PlanImageSource for Body {
    fn image(&self, _: u32) -> Option<&[u8; 4096]> {
        None
    }
}

#[test]
fn each_run_of_a_plan_schedules_its_launch() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let mut body = Body::default();
    for (place, va) in crate::machine::RANGES {
        let bytes = crate::machine::BYTES;
        Step::Map { place, va, bytes }.encode(&mut body);
    }
    Step::MapScheduler { va: PAGE }.encode(&mut body);
    let at = SYSTEM + 0x10_0000;
    for words in graph() {
        let data: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Step::Write { va: at, data: &data }.encode(&mut body);
        let submission = Step::Submit {
            event: 1,
            engine: nvidia_client::steps::EngineKind::Compute,
            va: at,
            words: words.len() as u32,
        };
        submission.encode(&mut body);
    }
    Step::Read {
        output: 0,
        va: SUMS,
        bytes: 4000,
    }
    .encode(&mut body);
    let images = Body::default();
    let mut runs = PlanRuns::new(&body.0, 0xcbc0, 3, &images);
    for run in 0..3 {
        let mut output = Vec::new();
        let played = runs.play_next(&mut player, |_, bytes| {
            output = bytes.to_vec();
            Ok(())
        });
        played.unwrap();
        assert_eq!(output, numbers(3.0), "run {run}");
    }
    player.close().unwrap();
}
