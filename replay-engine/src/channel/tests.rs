//! Each rule of channel plans, with a plan that breaks it alone.

use super::{ChannelBody, build_recording, check_plan};
use crate::device::{Arena, Containment, DeviceInfo, DeviceInterface};
use crate::plan::{Budgets, ChannelPlan, PageImages, Plan, PlanBody, PlanBuffer};
use crate::rules::{MAX_STEPS, VerificationReport, Work};
use crate::run::{ApiOutcome, Outcome, OutcomeBody};
use nvidia_client::Place;
use nvidia_client::steps::EngineKind;
use trace_core::progress::Progress;
use trace_core::recording::{ElementType, EventKind};
use trace_core::{GpuVa, PhysAddr};

/// First address of the plans' memory, and of their push buffers.
const MEMORY: u64 = 0x2_0000_0000;
const PUSH_BUFFERS: u64 = 0x2_0020_0000;

fn device(interface: DeviceInterface) -> DeviceInfo {
    DeviceInfo {
        name: "nvidia0".to_owned(),
        description: String::new(),
        gpu_id: 0,
        gpu_name: String::new(),
        register_map: String::new(),
        containment: Containment::Driver,
        hardware: None,
        windows: Vec::new(),
        arena: Arena {
            base: PhysAddr::ZERO,
            pages: 0,
        },
        interface,
        virtual_time: false,
        computes: true,
    }
}

/// Returns the header of consecutive methods, and their values.
fn methods(subchannel: u32, method: u32, values: &[u32]) -> Vec<u32> {
    let mut words = vec![1 << 29 | (values.len() as u32) << 16 | subchannel << 13 | method >> 2];
    words.extend_from_slice(values);
    words
}

fn copy_words(from: u64, to: u64, bytes: u32, launch: u32) -> Vec<u32> {
    let mut words = methods(4, 0, &[0xc8b5]);
    let high = |va: u64| (va >> 32) as u32;
    words.extend(methods(4, 0x400, &[high(from), from as u32, high(to), to as u32]));
    words.extend(methods(4, 0x418, &[bytes, 1]));
    words.extend(methods(4, 0x300, &[launch]));
    words
}

/// A plan while it is made.
struct Sketch {
    body: ChannelBody,
    outputs: Vec<PlanBuffer>,
    control: u64,
    compute: u16,
}

impl Sketch {
    fn new() -> Self {
        let mut body = ChannelBody::default();
        body.map(Place::Video, GpuVa::new(MEMORY), 0x20_0000);
        body.map(Place::System, GpuVa::new(PUSH_BUFFERS), 0x20_0000);
        Self {
            body,
            outputs: Vec::new(),
            control: 0x10_0000_0000,
            compute: 0xcbc0,
        }
    }

    fn submit(&mut self, engine: EngineKind, words: &[u32]) -> &mut Self {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.body.write(GpuVa::new(PUSH_BUFFERS), &bytes);
        self.body
            .submit(1, engine, GpuVa::new(PUSH_BUFFERS), words.len() as u32);
        self
    }

    fn read(&mut self, va: u64, bytes: u64) -> &mut Self {
        let number = self.outputs.len() as u32;
        self.body.read(number, GpuVa::new(va), bytes);
        self.outputs.push(PlanBuffer {
            name: format!("out{number}"),
            va: GpuVa::new(va),
            bytes,
            element: ElementType::U8,
            space: 0,
        });
        self
    }

    fn plan(self) -> (Plan, PageImages) {
        let (submissions, actions) = (self.body.submissions, self.body.count);
        let (steps, images, pages) = self.body.into_steps().unwrap();
        let body = PlanBody::Channel(ChannelPlan {
            compute_class: self.compute,
            control: GpuVa::new(self.control),
            body: steps.into(),
            submissions,
            ..ChannelPlan::default()
        });
        let plan = Plan {
            outputs: self.outputs,
            actions,
            images,
            budgets: Budgets::default(),
            ..Plan::new(body)
        };
        (plan, pages)
    }

    fn check(self) -> Result<VerificationReport, String> {
        let (plan, pages) = self.plan();
        check(&plan, &pages)
    }
}

fn check(plan: &Plan, pages: &PageImages) -> Result<VerificationReport, String> {
    let planned = plan.planned_submissions().unwrap();
    let progress = Progress::new();
    let work = Work::new(MAX_STEPS, &progress);
    check_plan(planned, pages, &device(DeviceInterface::Channel), &work).map_err(|e| e.to_string())
}

fn refused(sketch: Sketch, expected: &str) {
    let error = sketch.check().unwrap_err();
    assert!(error.contains(expected), "{error:?} does not contain {expected:?}");
}

#[test]
fn plan_within_its_memory_is_accepted() {
    let mut sketch = Sketch::new();
    let long = vec![7u8; 100_000];
    sketch.body.write(GpuVa::new(MEMORY), &long);
    sketch.submit(EngineKind::Copy, &copy_words(MEMORY, MEMORY + 0x10_0000, 4096, 0x182));
    sketch.read(MEMORY + 0x10_0000, 4096);
    assert_eq!(sketch.check().unwrap(), VerificationReport::default());
}

#[test]
fn copies_and_uploads_outside_the_memory_are_refused() {
    let cases = [
        copy_words(MEMORY - 1, MEMORY, 16, 0x182),
        copy_words(MEMORY, MEMORY + 0x3f_fff8, 16, 0x182),
        copy_words(MEMORY, u64::from(u32::MAX) << 17, 16, 0x182),
    ];
    for words in cases {
        let mut sketch = Sketch::new();
        sketch.submit(EngineKind::Copy, &words);
        refused(sketch, "is not in the plan's memory");
    }
    let mut upload = methods(1, 0x180, &[64, 1]);
    upload.extend(methods(1, 0x188, &[0x7fff, 0]));
    upload.extend(methods(1, 0x1b0, &[0x41]));
    upload.push(3 << 29 | 16 << 16 | 1 << 13 | 0x1b4 >> 2);
    upload.extend([0; 16]);
    let mut sketch = Sketch::new();
    sketch.submit(EngineKind::Compute, &upload);
    refused(sketch, "an upload of 64 bytes");
    let mut sketch = Sketch::new();
    sketch.submit(EngineKind::Compute, &methods(0, 0x5c, &[0, 0x100, 1, 0, 1]));
    refused(sketch, "a semaphore");
}

#[test]
fn semaphores_at_the_end_of_copies_and_uploads_are_checked() {
    let mut copy = methods(4, 0x240, &[0x7fff, 0, 1]);
    copy.extend(copy_words(MEMORY, MEMORY + 0x1000, 16, 0x182 | 1 << 3));
    let mut upload = methods(1, 0x1dc, &[0x7fff, 0, 1]);
    upload.extend(methods(1, 0x180, &[4, 1]));
    upload.extend(methods(1, 0x188, &[(MEMORY >> 32) as u32, MEMORY as u32]));
    upload.extend(methods(1, 0x1b0, &[1 | 2 << 4 | 1 << 12]));
    upload.extend([3 << 29 | 1 << 16 | 1 << 13 | 0x1b4 >> 2, 7]);
    for (engine, words) in [(EngineKind::Copy, copy), (EngineKind::Compute, upload)] {
        let mut sketch = Sketch::new();
        sketch.submit(engine, &words);
        refused(sketch, "a semaphore of 4 bytes at 0x7fff00000000");
    }
    // The last four bytes of the memory hold a value of 32 bits, and not one of 64.
    let last = MEMORY + 0x40_0000 - 4;
    let release = |flags: u32| methods(0, 0x5c, &[last as u32, (last >> 32) as u32, 1, 0, 1 | flags]);
    let mut sketch = Sketch::new();
    sketch.submit(EngineKind::Compute, &release(0));
    sketch.check().unwrap();
    let mut sketch = Sketch::new();
    sketch.submit(EngineKind::Compute, &release(1 << 24));
    refused(sketch, "a semaphore of 8 bytes");
}

#[test]
fn ring_entries_name_what_was_checked() {
    let words = copy_words(MEMORY, MEMORY, 16, 0x182);
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let far = (1 << 40) + 0x20_0000;
    for va in [PUSH_BUFFERS + 2, far, (1 << 40) - 4] {
        let mut sketch = Sketch::new();
        sketch
            .body
            .map(Place::Video, GpuVa::new((1 << 40) - 0x20_0000), 0x60_0000);
        sketch.body.write(GpuVa::new(va), &bytes);
        sketch
            .body
            .submit(1, EngineKind::Copy, GpuVa::new(va), words.len() as u32);
        refused(sketch, "is not where a ring entry can name it");
    }
    for control in [0x10_0000_1000, (1 << 40) - 0x20_0000, u64::MAX / 0x20_0000 * 0x20_0000] {
        let mut sketch = Sketch::new();
        sketch.control = control;
        refused(sketch, "the player's memory");
    }
}

#[test]
fn method_is_judged_in_each_form_of_header() {
    let firmware = 0x510 >> 2 | 1 << 13;
    let forms = [
        vec![1 << 29 | 1 << 16 | firmware, 1],
        vec![3 << 29 | 2 << 16 | firmware, 1, 2],
        vec![5 << 29 | 2 << 16 | firmware, 1, 2],
        vec![4 << 29 | 1 << 16 | firmware],
        // The last of several words, and a method behind an upload's data.
        vec![5 << 29 | 2 << 16 | (0x50c >> 2) | 1 << 13, 1, 2],
        vec![
            3 << 29 | 1 << 16 | 1 << 13 | 0x1b4 >> 2,
            0,
            1 << 29 | 1 << 16 | firmware,
            1,
        ],
    ];
    for words in forms {
        let mut sketch = Sketch::new();
        sketch.submit(EngineKind::Compute, &words);
        refused(sketch, "firmware");
    }
}

#[test]
fn recording_of_an_outcome_holds_long_push_buffers() {
    let mut words = copy_words(MEMORY, MEMORY + 0x10_0000, 4096, 0x182);
    words.resize(9000, 0);
    let mut sketch = Sketch::new();
    let data = vec![3u8; 50_000];
    sketch.body.write(GpuVa::new(MEMORY), &data);
    sketch.submit(EngineKind::Copy, &words);
    let (plan, pages) = sketch.plan();
    check(&plan, &pages).unwrap();
    let outcome = Outcome::unfinished("nvidia0".to_owned(), OutcomeBody::Api(ApiOutcome::default()));
    let info = device(DeviceInterface::Channel);
    let planned = plan.planned_submissions().unwrap();
    let recording = build_recording(&outcome, planned, &pages, &info).unwrap();
    let events = &recording.events;
    let of_kind = |kind| (0..events.len()).filter(move |e| events.kind(*e) == Some(kind));
    let content = |event: usize| recording.content(&events.stored_content(event).unwrap()).unwrap();
    let saved: Vec<usize> = of_kind(EventKind::SavedMemory).collect();
    assert_eq!(saved.len(), 1, "the push buffer is no saved memory");
    assert_eq!(content(saved[0]), data);
    let entries: Vec<usize> = of_kind(EventKind::RingEntry).collect();
    let expected: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(content(entries[0]), expected);
}

#[test]
fn methods_of_the_kernel_are_refused() {
    let cases = [
        (methods(1, 0x510, &[1]), "firmware"),
        (methods(0, 0x34, &[9 << 27]), "kernel driver"),
        (methods(2, 0, &[0x902d]), "binds class 0x902d"),
        (methods(3, 0x200, &[0]), "has no class"),
        (copy_words(MEMORY, MEMORY, 16, 1 << 12 | 0x182), "physical address"),
        (vec![6 << 29], "not the header"),
    ];
    for (words, expected) in cases {
        let mut sketch = Sketch::new();
        sketch.submit(EngineKind::Compute, &words);
        refused(sketch, expected);
    }
}

#[test]
fn push_buffer_must_be_the_write_before_its_submission() {
    let words = copy_words(MEMORY, MEMORY, 16, 0x182);
    let mut sketch = Sketch::new();
    sketch.submit(EngineKind::Copy, &words);
    sketch
        .body
        .submit(2, EngineKind::Copy, GpuVa::new(PUSH_BUFFERS), words.len() as u32);
    refused(sketch, "is not the write before it");
    let mut sketch = Sketch::new();
    sketch.body.write(GpuVa::new(PUSH_BUFFERS), &[0; 64]);
    sketch.body.write(GpuVa::new(PUSH_BUFFERS + 16), &[1; 4]);
    sketch.body.submit(1, EngineKind::Copy, GpuVa::new(PUSH_BUFFERS), 16);
    refused(sketch, "is not the write before it");
}

#[test]
fn push_buffer_must_be_in_reach_of_ring_entries() {
    for at in [1u64 << 40, PUSH_BUFFERS + 2] {
        let mut sketch = Sketch::new();
        if at >= 1 << 40 {
            sketch.body.map(Place::System, GpuVa::new(at), 0x20_0000);
        }
        sketch.body.write(GpuVa::new(at), &[0; 8]);
        sketch.body.submit(1, EngineKind::Copy, GpuVa::new(at), 2);
        refused(sketch, "is not where a ring entry can name it");
    }
}

#[test]
fn pages_of_the_scheduler_are_no_memory() {
    const PAGE: u64 = 0x3_0000_1000;
    let with_pages = |pages: &[u64]| {
        let mut sketch = Sketch::new();
        pages.iter().for_each(|va| sketch.body.map_scheduler(GpuVa::new(*va)));
        sketch
    };
    let (plan, pages) = with_pages(&[PAGE, PAGE + 0x1000]).plan();
    check(&plan, &pages).unwrap();
    refused(with_pages(&[PAGE + 8]), "is not aligned");
    refused(with_pages(&[PAGE, PAGE]), "mapped twice");
    refused(with_pages(&[MEMORY]), "mapped twice");
    refused(with_pages(&[0x10_0000_0000]), "overlaps that of the player");
    refused(
        with_pages(&[0, 1, 2, 3, 4].map(|n| PAGE + n * 0x1000)),
        "pages of the scheduler",
    );
    let mut sketch = with_pages(&[PAGE]);
    sketch.body.map(Place::Video, GpuVa::new(0x3_0000_0000), 0x20_0000);
    refused(sketch, "mapped twice");
    let mut sketch = with_pages(&[PAGE]);
    sketch.body.write(GpuVa::new(PAGE), &[1; 8]);
    refused(sketch, "is not in the plan's memory");
}

#[test]
fn memory_must_be_apart_and_aligned() {
    let with_map = |va: u64, bytes: u64| {
        let mut sketch = Sketch::new();
        sketch.body.map(Place::Video, GpuVa::new(va), bytes);
        sketch
    };
    refused(with_map(MEMORY, 0x20_0000), "mapped twice");
    refused(with_map(0x3_0000_1000, 0x20_0000), "are not whole pages");
    refused(with_map(0x3_0000_0000, 0), "are not whole pages");
    refused(with_map(u64::MAX - 0x1f_ffff, 0x20_0000), "are not whole pages");
    refused(with_map(0x10_0000_0000, 0x20_0000), "overlaps that of the player");
    let pages = Budgets::default().pages * 4096;
    refused(with_map(0x20_0000_0000, pages), "pages");
    refused(with_map(0x20_0000_0000, 1 << 62), "pages");
    let (mut plan, pages) = with_map(0x20_0000_0000, 1 << 42).plan();
    plan.budgets.pages = u64::MAX;
    assert!(check(&plan, &pages).unwrap_err().contains("pages"));
}

#[test]
fn outputs_must_be_those_of_the_envelope() {
    let mut sketch = Sketch::new();
    sketch.read(MEMORY - 4, 8);
    refused(sketch, "output `out0` is not in mapped memory");
    let mut sketch = Sketch::new();
    sketch.read(MEMORY, 8);
    sketch.body.read(0, GpuVa::new(MEMORY), 8);
    refused(sketch, "read twice");
    let mut sketch = Sketch::new();
    sketch.read(MEMORY, 8);
    sketch.outputs[0].bytes = 16;
    refused(sketch, "is not that of the envelope");
    let mut sketch = Sketch::new();
    sketch.read(MEMORY, 8);
    let extra = sketch.outputs[0].clone();
    sketch.outputs.push(extra);
    refused(sketch, "is never read");
}

#[test]
fn envelope_must_fit_the_body_and_the_device() {
    let sketch = || {
        let mut sketch = Sketch::new();
        sketch.submit(EngineKind::Copy, &copy_words(MEMORY, MEMORY, 16, 0x182));
        sketch
    };
    let mut other = sketch();
    other.compute = 0x1234;
    refused(other, "compute class 0x1234 is unknown");
    let (mut plan, pages) = sketch().plan();
    plan.actions += 1;
    assert!(check(&plan, &pages).unwrap_err().contains("steps"));
    let (mut plan, pages) = sketch().plan();
    if let PlanBody::Channel(channel) = &mut plan.body {
        channel.submissions += 1;
    }
    assert!(check(&plan, &pages).unwrap_err().contains("submissions"));
    let (plan, pages) = sketch().plan();
    let planned = plan.planned_submissions().unwrap();
    let progress = Progress::new();
    let work = Work::new(MAX_STEPS, &progress);
    let cuda = device(DeviceInterface::Api);
    let error = check_plan(planned, &pages, &cuda, &work).unwrap_err().to_string();
    assert!(error.contains("runs driver calls"), "{error}");
    let (mut plan, pages) = sketch().plan();
    plan.images.push([9; 32]);
    assert!(check(&plan, &pages).unwrap_err().contains("is missing"));
}

#[test]
fn damaged_body_is_refused_at_its_place() {
    let (plan, pages) = {
        let mut sketch = Sketch::new();
        sketch.submit(EngineKind::Copy, &copy_words(MEMORY, MEMORY, 16, 0x182));
        sketch.plan()
    };
    let body = plan.channel().unwrap().body.to_vec();
    for cut in 1..body.len() {
        let mut cut_plan = plan.clone();
        cut_plan.body.set_bytes(body[..cut].to_vec().into());
        assert!(check(&cut_plan, &pages).is_err(), "cut at {cut}");
    }
}
