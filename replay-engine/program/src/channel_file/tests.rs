//! Channel files have the steps of their plans, with the bytes of page images in them.

use super::*;
use nvidia_client::Place;
use nvidia_client::steps::EngineKind;
use replay_engine::channel::ChannelBody;
use replay_engine::plan::{ChannelPlan, Plan, PlanBody, RegisterPlan};
use std::collections::BTreeMap;
use trace_core::GpuVa;

/// First address of the plans' memory, and the window of their player.
const MEMORY: u64 = 0x2_0000_0000;
const CONTROL: u64 = 0xff_ff00_0000;

fn compile(body: ChannelBody) -> Compiled {
    let (submissions, actions) = (body.submissions, body.count);
    let (steps, images, pages) = body.into_steps().unwrap();
    let channel = ChannelPlan {
        compute_class: 0xcbc0,
        control: GpuVa::new(CONTROL),
        body: steps.into(),
        submissions,
        ..ChannelPlan::default()
    };
    let plan = Plan {
        actions,
        images,
        ..Plan::new(PlanBody::Channel(channel))
    };
    Compiled { plan, pages }
}

fn write_file(compiled: &Compiled) -> (Vec<u8>, ChannelFileSummary) {
    let mut bytes = Vec::new();
    let summary = write_channel_file(compiled, &mut bytes).unwrap();
    (bytes, summary)
}

/// Returns bytes whose pages all differ, with a page of zeros among them.
fn long_content(bytes: usize) -> Vec<u8> {
    let byte = |n: usize| match n / PAGE_SIZE {
        2 | 3 => 0,
        page => (page * 7 + n) as u8,
    };
    (0..bytes).map(byte).collect()
}

/// Returns memory as the steps leave it, and the other steps.
fn play<'s>(steps: &'s [u8], memory: &mut BTreeMap<u64, u8>) -> Vec<Step<'s>> {
    let mut others = Vec::new();
    for step in Steps::new(steps) {
        match step.unwrap() {
            Step::Write { va, data } => {
                assert!(data.len() <= MAX_WRITE_BYTES && !data.is_empty());
                memory.extend((va..).zip(data.iter().copied()));
            }
            Step::WritePages { .. } => panic!("a channel file has no page images"),
            other => others.push(other),
        }
    }
    others
}

#[test]
fn file_has_the_steps_of_its_plan() {
    let at = |offset: u64| GpuVa::new(MEMORY + offset);
    // It begins within a page, and is longer than two writes.
    let content = long_content(2 * MAX_WRITE_BYTES + 5000);
    let mut body = ChannelBody::default();
    body.map(Place::Video, at(0), 0x40_0000);
    body.map(Place::System, at(0x40_0000), 0x20_0000);
    body.write(at(0x234), &content);
    body.write(at(0x40_0000), &[5; 16]);
    body.submit(7, EngineKind::Copy, at(0x40_0000), 4);
    body.read(0, at(0x1000), 64);
    body.write(at(0x40_0000), &[6; 8]);
    body.submit(9, EngineKind::Compute, at(0x40_0000), 2);
    body.read(1, at(0x234), 12);
    let compiled = compile(body);
    assert!(!compiled.plan.images.is_empty(), "the long write has page images");
    let (bytes, summary) = write_file(&compiled);
    assert_eq!(summary.bytes, bytes.len() as u64);

    let file = ChannelFile::parse(&bytes).unwrap();
    assert_eq!(file.control, Control { va: CONTROL });
    assert_eq!(Steps::new(file.steps).count() as u64, summary.steps);
    let mut memory = BTreeMap::new();
    let others = play(file.steps, &mut memory);
    let expected: Vec<Step<'_>> = Steps::new(&compiled.plan.channel().unwrap().body)
        .map(Result::unwrap)
        .filter(|s| !matches!(s, Step::Write { .. } | Step::WritePages { .. }))
        .collect();
    assert_eq!(
        others, expected,
        "maps, submissions and reads are those of the plan, in order"
    );
    let written: Vec<u8> = memory
        .range(MEMORY + 0x234..)
        .take(content.len())
        .map(|(_, b)| *b)
        .collect();
    assert_eq!(written, content);
    assert_eq!(memory.len(), content.len() + 16, "no other byte is written");
    assert_eq!(memory.get(&(MEMORY + 0x40_0000)), Some(&6));
    assert_eq!(memory.get(&(MEMORY + 0x40_0008)), Some(&5));
}

#[test]
fn push_buffer_stays_the_step_before_its_submission() {
    let mut body = ChannelBody::default();
    body.map(Place::System, GpuVa::new(MEMORY), 0x20_0000);
    // A push buffer of more than 16 KiB is made of page images in the plan.
    let words = 10_000u32;
    body.write(GpuVa::new(MEMORY), &vec![3; words as usize * 4]);
    body.submit(1, EngineKind::Compute, GpuVa::new(MEMORY), words);
    let (bytes, _) = write_file(&compile(body));
    let file = ChannelFile::parse(&bytes).unwrap();
    let steps: Vec<Step<'_>> = Steps::new(file.steps).map(Result::unwrap).collect();
    match steps.as_slice() {
        [
            Step::Map { .. },
            Step::Write { va, data },
            Step::Submit { va: submitted, .. },
        ] => {
            assert_eq!(va, submitted);
            assert_eq!(data.len(), words as usize * 4);
        }
        other => panic!("{} steps", other.len()),
    }
}

#[test]
fn plan_that_does_not_fit_is_refused() {
    let other = Compiled {
        plan: Plan::new(PlanBody::Registers(RegisterPlan::default())),
        pages: BTreeMap::new(),
    };
    let refused = |compiled: &Compiled| write_channel_file(compiled, &mut Vec::new()).unwrap_err();
    assert!(matches!(refused(&other), ChannelFileError::OtherPlan));

    let mut body = ChannelBody::default();
    for n in 0..=MAX_FILE_RANGES as u64 {
        body.map(Place::Video, GpuVa::new(MEMORY + n * 0x40_0000), 0x20_0000);
    }
    let many = refused(&compile(body));
    assert!(
        matches!(many, ChannelFileError::TooManyRanges { ranges: 257 }),
        "{many}"
    );

    let mut body = ChannelBody::default();
    body.write(GpuVa::new(MEMORY), &[1; 100_000]);
    let mut incomplete = compile(body);
    incomplete.pages.clear();
    assert!(matches!(
        refused(&incomplete),
        ChannelFileError::MissingPage { image: 1 }
    ));

    struct FullDisk;
    impl Write for FullDisk {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let compiled = compile(ChannelBody::default());
    // An empty plan is written too: its head alone.
    assert_eq!(write_file(&compiled).1.steps, 0);
    let mut body = ChannelBody::default();
    body.map(Place::Video, GpuVa::new(MEMORY), 0x20_0000);
    let full = write_channel_file(&compile(body), &mut FullDisk).unwrap_err();
    assert!(matches!(full, ChannelFileError::File(_)), "{full}");
}
