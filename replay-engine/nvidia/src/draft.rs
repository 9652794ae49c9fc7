//! A channel plan while it is made: steps, memory, outputs and rewrites, whatever compiler makes them.

use nvidia_client::{Control, MAX_SCHEDULER_PAGES};
use replay_engine::channel::{ChannelBody, MemoryRanges, SMALL_PAGE, check_memory};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{
    Budgets, ChannelPlan, CompileError, Compiled, PageImages, Plan, PlanBody, PlanBuffer, PlannedLaunch, Rewrite,
    RewriteKind, plan_title,
};
use replay_engine::target::ReplayPreparation;
use replay_engine::verify::{MAX_OUTPUTS, MAX_STEPS, Work};
use trace_core::progress::Progress;
use trace_core::recording::{ElementType, Recording};
use trace_core::{GpuVa, PAGE_SIZE};

/// A plan while it is made.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub compute_class: u16,
    pub ranges: MemoryRanges,
    pub body: ChannelBody,
    pub rewrites: Vec<Rewrite>,
    pub launches: Vec<PlannedLaunch>,
    pub buffers: Vec<PlanBuffer>,
    outputs: Vec<PlanBuffer>,
    /// Names of the outputs to read; all if empty.
    wanted: Vec<String>,
    /// Names of all outputs.
    found: Vec<String>,
}

impl Draft {
    /// Returns an empty draft that reads the outputs of these names; all if empty.
    pub fn new(compute_class: u16, ranges: MemoryRanges, wanted: &[String]) -> Self {
        let mut draft = Self {
            compute_class,
            ranges,
            wanted: wanted.to_vec(),
            ..Self::default()
        };
        let Self { ranges, body, .. } = &mut draft;
        for (place, va, bytes) in ranges.ranges() {
            body.map(place, va, bytes);
        }
        draft
    }

    /// Maps pages of the compute scheduler. A page that memory of the plan already has is left out.
    pub fn map_scheduler_pages(&mut self, pages: &[GpuVa]) {
        let (free, taken): (Vec<GpuVa>, Vec<GpuVa>) =
            pages.iter().partition(|va| !self.ranges.overlap(**va, SMALL_PAGE));
        let mapped = free.len().min(MAX_SCHEDULER_PAGES);
        let (mapped, rest) = free.split_at(mapped);
        for va in mapped {
            self.body.map_scheduler(*va);
        }
        for va in taken.iter().chain(rest) {
            let why = format!(
                "the page of the compute scheduler at {va} is not mapped: launches that kernels start may not run"
            );
            self.note_left_out(None, why);
        }
    }

    /// Starts to map the memory, which all steps so far map, if it keeps the rules.
    pub fn map_early(
        &self,
        preparation: &dyn ReplayPreparation,
        target: &DeviceInfo,
        budgets: Budgets,
        progress: &Progress,
    ) {
        let Some(control) = self.ranges.find_control(&[]) else {
            return;
        };
        let plan = Plan {
            budgets: Budgets {
                pages: self.ranges.bytes() / PAGE_SIZE as u64,
                ..budgets
            },
            ..Plan::new(PlanBody::Channel(ChannelPlan {
                compute_class: self.compute_class,
                control: GpuVa::new(control.va),
                body: self.body.steps().to_vec().into(),
                ..ChannelPlan::default()
            }))
        };
        let work = Work::new(MAX_STEPS, progress);
        if let Some(planned) = plan.planned_submissions()
            && let Ok(memory) = check_memory(planned, &PageImages::new(), target, &work)
        {
            preparation.map_memory(memory);
        }
    }

    /// Whether an output is read.
    pub fn is_wanted(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|w| w == name)
    }

    /// Reads an output here, if it is wanted and mapped.
    pub fn read(&mut self, name: String, va: GpuVa, bytes: u64) {
        let is_wanted = self.is_wanted(&name);
        self.found.push(name.clone());
        if !is_wanted || self.outputs.len() as u64 >= MAX_OUTPUTS {
            return;
        }
        let number = u32::try_from(self.outputs.len()).unwrap_or(u32::MAX);
        self.body.read(number, va, bytes);
        self.outputs.push(PlanBuffer {
            name,
            va,
            bytes,
            element: ElementType::U8,
            space: 0,
        });
    }

    /// Notes that the user replaced an input.
    pub fn note_input(&mut self, event: u64, name: &str, bytes: usize) {
        self.rewrites.push(Rewrite {
            kind: RewriteKind::Input,
            event: Some(event),
            detail: format!("{name}: {bytes} bytes are replaced by the user"),
        });
    }

    /// Notes what a replay leaves out.
    pub fn note_left_out(&mut self, event: Option<u64>, detail: String) {
        self.rewrites.push(Rewrite {
            kind: RewriteKind::LeftOut,
            event,
            detail,
        });
    }

    /// Completes the plan. `control` is the memory of the player.
    pub fn finish(
        mut self,
        recording: &Recording,
        budgets: Budgets,
        control: Control,
    ) -> Result<Compiled, CompileError> {
        if let Some(name) = self.wanted.iter().find(|w| !self.found.contains(w)) {
            let known = match self.found.as_slice() {
                [] => "none".to_owned(),
                [one] => one.clone(),
                [first, .., last] => format!("{first} to {last}"),
            };
            return Err(CompileError::NoOutput {
                name: name.clone(),
                known,
            });
        }
        if self.found.len() > self.outputs.len() && self.wanted.is_empty() {
            let left = self.found.len() - self.outputs.len();
            self.note_left_out(
                None,
                format!("{left} outputs beyond the first {MAX_OUTPUTS} are not read back"),
            );
        }
        self.rewrites.extend(self.outputs.iter().map(|o| Rewrite {
            kind: RewriteKind::Output,
            event: None,
            detail: format!("{}: {} bytes at {} are read back", o.name, o.bytes, o.va),
        }));
        self.rewrites.sort_by_key(|r| (r.event.is_some(), r.event, r.kind));
        self.launches.sort_by_key(|l| l.event);
        let mapped = self.ranges.bytes() / PAGE_SIZE as u64;
        let (submissions, actions) = (self.body.submissions, self.body.count);
        let (steps, images, pages) = self.body.into_steps()?;
        let driver_version = recording
            .driver_trace()
            .map_or_else(String::new, |d| d.driver_version.clone());
        let plan = Plan {
            title: plan_title(&recording.metadata.identity),
            outputs: self.outputs,
            rewrites: self.rewrites,
            actions,
            budgets: Budgets {
                pages: mapped.max(1),
                ..budgets
            },
            images,
            ..Plan::new(PlanBody::Channel(ChannelPlan {
                driver_version,
                compute_class: self.compute_class,
                control: GpuVa::new(control.va),
                body: steps.into(),
                submissions,
                launches: self.launches,
                buffers: self.buffers,
            }))
        };
        Ok(Compiled { plan, pages })
    }
}
