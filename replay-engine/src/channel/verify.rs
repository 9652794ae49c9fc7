//! Rules of channel plans: methods that may be sent, addresses in the plan's memory, budgets.

use super::last_write::{LastWrite, PlanImages};
use super::methods::{MethodRule, MethodRules, copy_class, initial_bindings};
use super::ranges::{MAX_MAPPED_BYTES, MemoryRanges, RING_REACH, SMALL_PAGE};
use crate::device::DeviceInfo;
use crate::plan::{PLAN_VERSION, PageSource, PlannedSubmissions};
use crate::rules::{
    MAX_BUDGETS, MAX_IMAGES, MAX_OUTPUT_BYTES, MAX_OUTPUTS, Reason, Refusal, VerificationReport, Work, budget_exceeded,
    check_image_digests, refuse,
};
use nvidia_channel::command::{Command, Copy, Semaphore, SurfaceLayout, Upload};
use nvidia_channel::launch::Launch;
use nvidia_channel::memory::{MemoryReader, NoMemory, UploadedMemory};
use nvidia_channel::push_buffer::PushBuffer;
use nvidia_channel::{Bindings, CommandReader};
use nvidia_client::steps::{EngineKind, Step, Steps};
use nvidia_client::{Control, MAX_SCHEDULER_PAGES, Place};
use trace_core::{GpuVa, PAGE_SIZE};

/// Maximum number of ranges of memory.
const MAX_RANGES: usize = 4096;
/// Maximum number of words of a submission: 21 bits of a ring entry.
const MAX_WORDS: u32 = 1 << 21;
/// Maximum number of sentences about what cannot be proved.
const MAX_UNPROVED: usize = 16;

/// Proves that a channel plan may run on this device. Kernels are not checked: the GPU's page tables hold only the
/// plan's memory, and a time limit ends each submission.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn check_plan<'a>(
    planned: PlannedSubmissions<'a>,
    pages: &'a dyn PageSource,
    target: &DeviceInfo,
    work: &Work<'_>,
) -> Result<VerificationReport, Refusal> {
    check_envelope(planned, target)?;
    check_image_digests(&planned.envelope.images, pages, work)?;
    let mut checker = Checker::new(planned, pages);
    for step in Steps::new(&planned.channel.body) {
        work.spend(1).or_else(|e| refuse(4, "body", e))?;
        let step = match step {
            Ok(step) => step,
            Err(e) => return refuse(0, "body", Reason::Body { message: e.to_string() }),
        };
        checker.check(&step, work)?;
    }
    checker.finish()
}

/// The memory of a channel plan: it keeps the rules, whatever the plan does with it.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedMemory<'a> {
    steps: &'a [u8],
    control: GpuVa,
}

impl<'a> VerifiedMemory<'a> {
    /// Returns the encoded steps that map the memory: the first ones of the plan.
    #[must_use]
    pub fn steps(&self) -> &'a [u8] {
        self.steps
    }

    /// Returns the address of the player's own memory.
    #[must_use]
    pub fn control(&self) -> GpuVa {
        self.control
    }
}

/// Proves that the memory of a channel plan may be mapped on this device: the envelope, and the steps before the first one
/// that does something else. A target can map it while the rest of the plan is verified.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn check_memory<'a>(
    planned: PlannedSubmissions<'a>,
    pages: &'a dyn PageSource,
    target: &DeviceInfo,
    work: &Work<'_>,
) -> Result<VerifiedMemory<'a>, Refusal> {
    check_envelope(planned, target)?;
    let body = &planned.channel.body;
    let mut checker = Checker::new(planned, pages);
    let mut steps = Steps::new(body);
    let mut end = 0;
    while let Some(Ok(step @ (Step::Map { .. } | Step::MapScheduler { .. }))) = steps.next() {
        work.spend(1).or_else(|e| refuse(4, "body", e))?;
        checker.check(&step, work)?;
        end = steps.offset();
    }
    Ok(VerifiedMemory {
        steps: body.get(..end).unwrap_or_default(),
        control: planned.channel.control,
    })
}

/// Checks the envelope of a plan, besides its page images.
fn check_envelope(planned: PlannedSubmissions<'_>, target: &DeviceInfo) -> Result<(), Refusal> {
    let (plan, channel) = (planned.envelope, planned.channel);
    if plan.version != PLAN_VERSION {
        return refuse(0, "envelope", Reason::Version { found: plan.version });
    }
    if !target.takes_submissions() {
        let why = format!(
            "it is a plan of submissions to channels, and {} runs {}",
            target.name,
            target.taken_plans()
        );
        return refuse(0, "envelope", Reason::Calls { why });
    }
    if copy_class(channel.compute_class).is_none() {
        let why = format!("its compute class {:#x} is unknown", channel.compute_class);
        return refuse(0, "envelope", Reason::Calls { why });
    }
    let output_bytes = plan.outputs.iter().fold(0u64, |sum, o| sum.saturating_add(o.bytes));
    let limits = [
        ("nanoseconds", plan.budgets.time_ns, MAX_BUDGETS.time_ns),
        (
            "nanoseconds of one submission",
            plan.budgets.interrupt_ns,
            MAX_BUDGETS.interrupt_ns,
        ),
        ("actions", plan.budgets.actions, MAX_BUDGETS.actions),
        ("actions of the plan", plan.actions, plan.budgets.actions),
        ("outputs", plan.outputs.len() as u64, MAX_OUTPUTS),
        ("bytes of outputs", output_bytes, MAX_OUTPUT_BYTES),
        ("images", plan.images.len() as u64, MAX_IMAGES),
    ];
    for (what, needed, max) in limits {
        if needed > max {
            return refuse(4, "budgets", budget_exceeded(what, needed, max));
        }
    }
    let control = channel.control.get();
    if !control.is_multiple_of(Place::Video.granule()) || control > RING_REACH - Control::BYTES {
        let why = format!("the player's memory at {control:#x} is not aligned, or beyond the reach of ring entries");
        return refuse(3, "envelope", Reason::Calls { why });
    }
    Ok(())
}

/// The state of an engine's channel.
struct EngineState {
    bindings: Bindings,
    reader: CommandReader,
}

impl EngineState {
    fn new(compute: u16) -> Self {
        Self {
            bindings: initial_bindings(compute),
            reader: CommandReader::new(),
        }
    }
}

/// Short writes of the plan: they may hold descriptors of launches.
#[derive(Default)]
struct WrittenMemory {
    memory: UploadedMemory,
}

impl MemoryReader for WrittenMemory {
    fn read(&self, address: nvidia_channel::GpuVa, out: &mut [u8]) -> bool {
        let read = self.memory.read(address, out.len(), &NoMemory);
        match read.get(0..out.len()) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

struct Checker<'a> {
    planned: PlannedSubmissions<'a>,
    images: PlanImages<'a>,
    ranges: MemoryRanges,
    range_count: usize,
    /// Addresses of pages of the compute scheduler.
    scheduler_pages: Vec<u64>,
    written: WrittenMemory,
    rules: MethodRules,
    last_write: Option<LastWrite<'a>>,
    /// Compute, copy.
    channels: [EngineState; 2],
    /// Which outputs are read.
    read: Vec<bool>,
    report: VerificationReport,
    submissions: u64,
    steps: u64,
}

impl<'a> Checker<'a> {
    fn new(planned: PlannedSubmissions<'a>, pages: &'a dyn PageSource) -> Self {
        let class = planned.channel.compute_class;
        Self {
            planned,
            images: PlanImages {
                digests: &planned.envelope.images,
                pages,
            },
            rules: MethodRules::new(class),
            ranges: MemoryRanges::default(),
            range_count: 0,
            scheduler_pages: Vec::new(),
            written: WrittenMemory::default(),
            last_write: None,
            channels: [EngineState::new(class), EngineState::new(class)],
            read: vec![false; planned.envelope.outputs.len()],
            report: VerificationReport::default(),
            submissions: 0,
            steps: 0,
        }
    }

    fn place(&self) -> String {
        format!("step {}", self.steps)
    }

    fn refuse<T>(&self, rule: u8, why: impl Into<String>) -> Result<T, Refusal> {
        refuse(rule, self.place(), Reason::Calls { why: why.into() })
    }

    fn check(&mut self, step: &Step<'a>, work: &Work<'_>) -> Result<(), Refusal> {
        match *step {
            Step::Map { place, va, bytes } => self.map(place, va, bytes)?,
            Step::MapScheduler { va } => self.map_scheduler(va)?,
            Step::Write { va, data } => {
                self.require(va, data.len() as u64, "a write")?;
                self.written.memory.write(nvidia_channel::GpuVa(va), data);
                self.last_write = Some(LastWrite::Bytes { va, data });
            }
            Step::WritePages { va, bytes, pages } => self.write_pages(va, bytes, pages)?,
            Step::Submit {
                engine,
                va,
                words,
                event,
            } => {
                self.submissions += 1;
                work.spend(u64::from(words)).or_else(|e| refuse(4, self.place(), e))?;
                self.submit(event, engine, va, words)?;
            }
            Step::Read { output, va, bytes } => self.read(output, va, bytes)?,
        }
        self.steps += 1;
        Ok(())
    }

    fn map(&mut self, place: Place, va: u64, bytes: u64) -> Result<(), Refusal> {
        let granule = place.granule();
        let end = va.checked_add(bytes);
        if bytes == 0 || !va.is_multiple_of(granule) || !bytes.is_multiple_of(granule) || end.is_none() {
            return self.refuse(
                3,
                format!("{bytes} bytes at {va:#x} are not whole pages of {granule} bytes"),
            );
        }
        self.require_free(va, bytes)?;
        // The budget comes first, so that no plan makes the ranges large.
        let needed = self.ranges.bytes().saturating_add(bytes) / PAGE_SIZE as u64;
        let budget = self.planned.envelope.budgets.pages;
        for max in [budget, MAX_MAPPED_BYTES / PAGE_SIZE as u64] {
            if needed > max {
                return refuse(4, self.place(), budget_exceeded("pages", needed, max));
            }
        }
        self.range_count += 1;
        if self.range_count > MAX_RANGES {
            let count = self.range_count as u64;
            return refuse(
                4,
                self.place(),
                budget_exceeded("ranges of memory", count, MAX_RANGES as u64),
            );
        }
        self.ranges.add(GpuVa::new(va), bytes, place);
        Ok(())
    }

    /// Refuses addresses that the player, memory of the plan or a page of the compute scheduler has.
    fn require_free(&self, va: u64, bytes: u64) -> Result<(), Refusal> {
        let end = va.saturating_add(bytes);
        let control = self.planned.channel.control.get();
        if va < control.saturating_add(Control::BYTES) && end > control {
            return self.refuse(
                3,
                format!("the memory at {va:#x} overlaps that of the player at {control:#x}"),
            );
        }
        let has_page = |page: &u64| *page < end && page.saturating_add(SMALL_PAGE) > va;
        if self.ranges.overlap(GpuVa::new(va), bytes) || self.scheduler_pages.iter().any(has_page) {
            return self.refuse(3, format!("the memory at {va:#x} is mapped twice"));
        }
        Ok(())
    }

    /// Checks a page of the compute scheduler. It is no memory of the plan: no command may name its address, and what
    /// kernels send there starts only launches whose descriptors are in the plan's memory.
    fn map_scheduler(&mut self, va: u64) -> Result<(), Refusal> {
        if !va.is_multiple_of(SMALL_PAGE) || va.checked_add(SMALL_PAGE).is_none() {
            return self.refuse(3, format!("the page of the scheduler at {va:#x} is not aligned"));
        }
        self.require_free(va, SMALL_PAGE)?;
        if self.scheduler_pages.len() >= MAX_SCHEDULER_PAGES {
            let (needed, max) = (MAX_SCHEDULER_PAGES as u64 + 1, MAX_SCHEDULER_PAGES as u64);
            let exceeded = budget_exceeded("pages of the scheduler", needed, max);
            return refuse(4, self.place(), exceeded);
        }
        self.scheduler_pages.push(va);
        Ok(())
    }

    fn require(&self, va: u64, bytes: u64, what: &str) -> Result<(), Refusal> {
        match self.ranges.contain(GpuVa::new(va), bytes) {
            true => Ok(()),
            false => self.refuse(
                3,
                format!("{what} of {bytes} bytes at {va:#x} is not in the plan's memory"),
            ),
        }
    }

    fn write_pages(&mut self, va: u64, bytes: u64, numbers: &'a [[u8; 4]]) -> Result<(), Refusal> {
        self.require(va, bytes, "a write")?;
        // Each image of the plan was found before the steps.
        if let Some(number) = numbers.iter().find(|number| self.images.digest(**number).is_none()) {
            let number = u32::from_le_bytes(*number);
            return self.refuse(2, format!("page image {number} is not among the plan's"));
        }
        self.last_write = Some(LastWrite::Pages { va, bytes, numbers });
        Ok(())
    }

    fn submit(&mut self, event: u64, engine: EngineKind, va: u64, words: u32) -> Result<(), Refusal> {
        if words == 0 || words >= MAX_WORDS {
            return self.refuse(4, format!("the push buffer of event {event} has {words} words"));
        }
        let bytes = u64::from(words) * 4;
        self.require(va, bytes, "a push buffer")?;
        // A ring entry has fewer bits of the address: the GPU would execute other words than those that are checked.
        if !va.is_multiple_of(4) || va.saturating_add(bytes) > RING_REACH {
            return self.refuse(
                3,
                format!("the push buffer of event {event} at {va:#x} is not where a ring entry can name it"),
            );
        }
        // Work of the GPU between the write and the submission could change it, so that nothing may be between them.
        let last = self.last_write.take().filter(|write| write.range() == (va, bytes));
        let Some(content) = last.and_then(|write| write.content(self.images)) else {
            return self.refuse(
                3,
                format!("the push buffer of event {event} at {va:#x} is not the write before it"),
            );
        };
        let mut commands = Vec::new();
        if let Err(why) = self.read_push_buffer(engine, &content, &mut commands) {
            return self.refuse(1, format!("event {event}: {why}"));
        }
        commands.iter().try_for_each(|command| self.command(event, command))
    }

    /// Reads a push buffer into commands, up to the first method that may not be sent.
    fn read_push_buffer(
        &mut self,
        engine: EngineKind,
        content: &[u8],
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        let index = usize::from(engine == EngineKind::Copy);
        let state = self.channels.get_mut(index).ok_or("it has no channel")?;
        let buffer = PushBuffer::new(content);
        let mut methods = buffer.methods(&mut state.bindings);
        while let Some(next) = state.reader.read_next(&mut methods, &self.written) {
            let (method, command) = next.map_err(|e| format!("the push buffer: {e}"))?;
            match self.rules.judge(&method) {
                MethodRule::Send => commands.extend(command),
                MethodRule::Replace(why) => return Err(format!("word {}: {why}", method.word)),
                MethodRule::Refuse(why) => return Err(format!("word {}: {why}", method.word)),
            }
        }
        Ok(())
    }

    fn command(&mut self, event: u64, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::Upload(upload) => {
                self.upload(event, upload)?;
                upload.semaphore.iter().try_for_each(|s| self.semaphore(s))
            }
            Command::Copy(copy) => {
                self.copy(event, copy)?;
                copy.semaphore.iter().try_for_each(|s| self.semaphore(s))
            }
            Command::Semaphore(semaphore) => self.semaphore(semaphore),
            Command::Launch(launch) => self.launch(launch),
            Command::UnreadableLaunch(e) => {
                self.unproved(format!("event {event}: {e}"));
                Ok(())
            }
        }
    }

    fn upload(&mut self, event: u64, upload: &Upload) -> Result<(), Refusal> {
        if upload.layout == SurfaceLayout::BlockLinear && upload.lines > 1 {
            self.unproved(format!("event {event}: the extent of an upload to tiled memory"));
            return self.require(upload.address.0, 1, "an upload");
        }
        let lines = u64::from(upload.lines).saturating_sub(1);
        let extent = lines
            .saturating_mul(u64::from(upload.pitch))
            .saturating_add(u64::from(upload.line_bytes));
        self.require(upload.address.0, extent.max(1), "an upload")
    }

    fn semaphore(&self, semaphore: &Semaphore) -> Result<(), Refusal> {
        let bytes = match (semaphore.timestamp, semaphore.wide) {
            (true, _) => 16,
            (false, true) => 8,
            (false, false) => 4,
        };
        self.require(semaphore.address.0, bytes, "a semaphore")
    }

    fn copy(&mut self, event: u64, copy: &Copy) -> Result<(), Refusal> {
        let pixel = |components: u32| {
            copy.remap
                .map_or(1, |r| u64::from(r.component_bytes) * u64::from(components))
        };
        let sides = [
            (
                copy.fill_pattern().is_none(),
                &copy.source,
                copy.remap.map_or(1, |r| r.source_components),
            ),
            (
                true,
                &copy.destination,
                copy.remap.map_or(1, |r| r.destination_components),
            ),
        ];
        for (is_used, surface, components) in sides {
            if !is_used {
                continue;
            }
            if surface.layout == SurfaceLayout::BlockLinear {
                self.unproved(format!("event {event}: the extent of a copy of tiled memory"));
                self.require(surface.address.0, 1, "a copy")?;
                continue;
            }
            let line = u64::from(copy.line_length).saturating_mul(pixel(components));
            let lines = u64::from(copy.lines).saturating_sub(1);
            let extent = lines.saturating_mul(u64::from(surface.pitch)).saturating_add(line);
            if extent > 0 {
                self.require(surface.address.0, extent, "a copy")?;
            }
        }
        Ok(())
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), Refusal> {
        self.report.jobs += 1;
        self.require(
            launch.descriptor_address.0,
            launch.descriptor.len() as u64,
            "a launch descriptor",
        )?;
        if !launch.grid.contains(&0) && launch.program_address.0 != 0 {
            self.require(launch.program_address.0, 16, "a program")?;
        }
        for bank in &launch.constant_banks {
            self.require(bank.address.0, bank.bytes, "a constant bank")?;
        }
        for release in &launch.releases {
            self.require(release.address.0, u64::from(release.words) * 4, "a semaphore")?;
        }
        for dependent in &launch.dependents {
            self.require(dependent.address.0, 256, "a launch descriptor")?;
        }
        Ok(())
    }

    fn unproved(&mut self, sentence: String) {
        if self.report.unproved.len() < MAX_UNPROVED {
            self.report.unproved.push(sentence);
        }
    }

    fn read(&mut self, output: u32, va: u64, bytes: u64) -> Result<(), Refusal> {
        let named = self.planned.envelope.outputs.get(output as usize);
        let Some(named) = named.filter(|o| o.va.get() == va && o.bytes == bytes) else {
            return self.refuse(0, format!("output {output} is not that of the envelope"));
        };
        if !self.ranges.contain(GpuVa::new(va), bytes) {
            let name = named.name.clone();
            let va = GpuVa::new(va);
            return refuse(3, self.place(), Reason::OutputUnmapped { name, va });
        }
        match self.read.get_mut(output as usize) {
            Some(read) if !*read => {
                *read = true;
                Ok(())
            }
            _ => self.refuse(0, format!("output {output} is read twice")),
        }
    }

    fn finish(mut self) -> Result<VerificationReport, Refusal> {
        let plan = self.planned.envelope;
        let counts = [
            ("steps", plan.actions, self.steps),
            ("submissions", self.planned.channel.submissions, self.submissions),
        ];
        for (what, said, found) in counts {
            if said != found {
                let what = what.to_owned();
                return refuse(4, "body", Reason::Unnamed { what, said, found });
            }
        }
        if let Some(missing) = self.read.iter().position(|read| !read) {
            return refuse(
                0,
                "body",
                Reason::Calls {
                    why: format!("output {missing} is never read"),
                },
            );
        }
        if self.report.jobs > 0 {
            let seconds = plan.budgets.interrupt_ns / 1_000_000_000;
            self.unproved(format!(
                "{} launches: the GPU's page tables confine kernels to the plan's memory, and each submission ends \
                 after {seconds} s",
                self.report.jobs
            ));
        }
        Ok(self.report)
    }
}
