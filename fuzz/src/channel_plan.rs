//! Fuzz target for plans of channels: their steps, the file form for small programs, and the rules.

use nvidia_client::steps::{ChannelFile, Step, StepSink, Steps};
use replay_engine::channel::check_plan;
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface};
use replay_engine::plan::{Budgets, ChannelPlan, PageImages, Plan, PlanBody, PlanBuffer};
use replay_engine::verify::Work;
use trace_core::progress::Progress;
use trace_core::recording::{ElementType, ZERO_PAGE};
use trace_core::{GpuVa, PhysAddr};

/// Class of the compute engine of the plans.
pub(crate) const COMPUTE_CLASS: u16 = 0xcbc0;
/// Address of the player's own memory.
pub(crate) const CONTROL: u64 = 0x10_0000_0000;
/// Maximum number of outputs of an envelope that the target makes.
const MAX_OUTPUTS: usize = 16;
/// Maximum number of bytes of such an output.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// Maximum work of a check.
const MAX_WORK: u64 = 1 << 20;

struct Bytes(Vec<u8>);

impl StepSink for Bytes {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Fuzzes the body of a channel plan: sound steps encode to the same bytes, and the plan is accepted or refused. Input that
/// begins like a file for small programs is that file. The input is accepted if the plan is.
pub fn channel_plan(data: &[u8]) -> bool {
    let (control, body) = match ChannelFile::parse(data) {
        Some(file) => (file.control.va, file.steps),
        None => (CONTROL, data),
    };
    let steps: Result<Vec<Step<'_>>, _> = Steps::new(body).collect();
    match &steps {
        Ok(steps) => {
            let mut encoded = Bytes(Vec::new());
            steps.iter().for_each(|step| step.encode(&mut encoded));
            assert_eq!(encoded.0, body, "the steps have another encoding");
        }
        Err(error) => assert!(error.at < body.len() && !error.to_string().is_empty()),
    }
    let steps = steps.unwrap_or_default();
    let (plan, pages) = plan(control, body, &steps);
    let Some(planned) = plan.planned_submissions() else {
        panic!("a channel plan has submissions");
    };
    let progress = Progress::new();
    let checked = check_plan(planned, &pages, &device(), &Work::new(MAX_WORK, &progress));
    match checked {
        Ok(report) => report.jobs < MAX_WORK,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            false
        }
    }
}

/// Returns a plan with this body, an envelope that fits its outputs, and one page image.
fn plan(control: u64, body: &[u8], steps: &[Step<'_>]) -> (Plan, PageImages) {
    let mut image = ZERO_PAGE;
    image.fill(0x20);
    let digest = *blake3::hash(&image).as_bytes();
    let outputs = steps.iter().filter_map(|step| match *step {
        Step::Read { va, bytes, .. } if bytes <= MAX_OUTPUT_BYTES => Some((va, bytes)),
        _ => None,
    });
    let outputs = outputs
        .take(MAX_OUTPUTS)
        .enumerate()
        .map(|(n, (va, bytes))| PlanBuffer {
            name: format!("out{n}"),
            va: GpuVa::new(va),
            bytes,
            element: ElementType::U8,
            space: 0,
        });
    let submissions = steps.iter().filter(|step| matches!(step, Step::Submit { .. }));
    let channel = ChannelPlan {
        compute_class: COMPUTE_CLASS,
        control: GpuVa::new(control),
        body: body.to_vec().into(),
        submissions: submissions.count() as u64,
        ..ChannelPlan::default()
    };
    let plan = Plan {
        outputs: outputs.collect(),
        actions: steps.len() as u64,
        images: vec![digest],
        budgets: Budgets::default(),
        ..Plan::new(PlanBody::Channel(channel))
    };
    (plan, PageImages::from([(digest, image.into())]))
}

/// Returns the device that the plans are for.
fn device() -> DeviceInfo {
    DeviceInfo {
        name: "fuzz".into(),
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
        interface: DeviceInterface::Channel,
        virtual_time: false,
        computes: true,
    }
}
