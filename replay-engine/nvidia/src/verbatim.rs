//! Compiler from a driver trace and its edits to a plan: the recorded push buffers, word for word, on channels of our own.

use crate::awaited_semaphores::SemaphoreValues;
use crate::draft::Draft;
use crate::options::{ChannelOptions, refuse};
use crate::transfers::Transfers;
use nvidia_channel::command::{Command, Copy};
use nvidia_channel::header::{Advance, Header, HeaderForm};
use nvidia_channel::launch::Launch;
use nvidia_channel::memory::NoMemory;
use nvidia_channel::methods::compute::{SET_SHADER_LOCAL_MEMORY_WINDOW_A, SET_SHADER_SHARED_MEMORY_WINDOW_A};
use nvidia_channel::push_buffer::{Method, PushBuffer, Run};
use nvidia_channel::qmd::QmdKind;
use nvidia_channel::{Bindings, CommandReader};
use nvidia_client::Place;
use nvidia_client::steps::EngineKind;
use replay_engine::channel::{
    CHANNEL_CLASS, MAX_MAPPED_BYTES, MemoryRanges, MethodRule, MethodRules, NO_OPERATION, SMALL_PAGE, copy_class,
};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileError, Compiled, Edits, PlanBuffer, PlannedLaunch};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace_core::GpuVa;
use trace_core::driver_trace::{DriverTrace, Submission};
use trace_core::families::{find_driver_ranges, find_scheduler_pages};
use trace_core::progress::Progress;
use trace_core::recording::{ElementType, EventKind, ObjectKind, ObjectRow, Recording, SaveReason};

/// Maximum size of a range that the driver itself backs. Larger ones only reserve addresses.
const MAX_DRIVER_RANGE_BYTES: u64 = 64 << 20;
/// Bytes of the window of shared memory, and of local memory, in the address space.
const WINDOW_BYTES: u64 = 1 << 32;

/// Compiles what a driver submitted into a plan for `target`.
///
/// Memory is mapped at its recorded addresses. Before each submission, the plan writes what the recorder saved and the
/// push buffer. Methods that write the firmware's registers are replaced.
///
/// # Errors
/// If the recording has no submissions that can be replayed, or an edit does not fit.
pub(crate) fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    options: &ChannelOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    let refuse = |why: String| refuse(target, why);
    let trace = DriverTrace::from_recording(recording, progress)?;
    let trace = trace.ok_or_else(|| refuse("it has no requests to a kernel driver".to_owned()))?;
    let compute_class = compute_class(&trace).ok_or_else(|| {
        refuse("it names no compute engine: its source has no classes, or the program did no compute work".to_owned())
    })?;
    if copy_class(compute_class).is_none() {
        return Err(refuse(format!("its compute class {compute_class:#x} is unknown")));
    }
    let scheduler_pages = scheduler_pages(recording, &trace);
    let ranges = memory_ranges(recording, &trace, &scheduler_pages);
    if ranges.bytes() > MAX_MAPPED_BYTES {
        return Err(refuse(format!(
            "it maps {} bytes, at most {MAX_MAPPED_BYTES} are possible",
            ranges.bytes()
        )));
    }
    let transfers = Transfers::new(recording, edits)?;
    let mut draft = Draft::new(compute_class, ranges, &options.outputs);
    draft.map_scheduler_pages(&scheduler_pages);
    if let Some(preparation) = &options.preparation {
        draft.map_early(&**preparation, target, options.budgets, progress);
    }
    let mut compiler = Compiler {
        recording,
        trace: &trace,
        draft,
        rules: MethodRules::new(compute_class),
        transfers: &transfers,
        states: HashMap::new(),
        replaced: BTreeMap::new(),
        windows: scheduler_pages.iter().map(|page| (page.get(), SMALL_PAGE)).collect(),
        leaving: None,
        semaphores: SemaphoreValues::default(),
    };
    progress.set_total(recording.events.len() as u64 + 1);
    let mut submissions = trace.submissions().iter().peekable();
    for event in 0..recording.events.len() {
        if event % 256 == 0 {
            progress.advance(256)?;
        }
        match recording.events.kind(event) {
            Some(EventKind::SavedMemory) => compiler.save(event).map_err(&refuse)?,
            Some(EventKind::RingEntry) => {
                if let Some(submission) = submissions.next_if(|s| s.event == event as u64) {
                    compiler.submit(submission).map_err(&refuse)?;
                }
            }
            Some(EventKind::Copy) => compiler.transfer(event as u64).map_err(&refuse)?,
            _ => {}
        }
    }
    compiler.finish(options, &refuse)
}

/// Returns the class of compute engines that most channels have.
fn compute_class(trace: &DriverTrace) -> Option<u16> {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    let engines = trace.objects().iter().filter(|o| o.kind == Some(ObjectKind::Engine));
    for class in engines
        .filter_map(|o| u16::try_from(o.class?).ok())
        .filter(|c| is_compute(*c))
    {
        *counts.entry(class).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(class, _)| class)
}

/// Returns whether a class is one of compute engines: its last byte says so.
fn is_compute(class: u16) -> bool {
    class & 0xff == 0xc0
}

/// Returns the pages of compute schedulers: those that the driver made, and mappings of engine objects, which have no memory.
fn scheduler_pages(recording: &Recording, trace: &DriverTrace) -> Vec<GpuVa> {
    let mappings = trace.mappings().iter().filter(|m| is_engine(trace, m.object));
    let pages: BTreeSet<GpuVa> = mappings.map(|m| m.va).chain(find_scheduler_pages(recording)).collect();
    pages.into_iter().collect()
}

fn is_engine(trace: &DriverTrace, object: usize) -> bool {
    trace
        .objects()
        .get(object)
        .is_some_and(|o| o.kind == Some(ObjectKind::Engine))
}

/// Returns the memory that the recording ever mapped. Ranges that the driver itself backs are on the GPU's board, as far
/// as a replay needs them. Pages of the compute scheduler are no memory.
fn memory_ranges(recording: &Recording, trace: &DriverTrace, scheduler_pages: &[GpuVa]) -> MemoryRanges {
    let mut ranges = MemoryRanges::default();
    for range in find_driver_ranges(recording) {
        if let Some(bytes) = range
            .end
            .offset_from(range.start)
            .filter(|b| *b <= MAX_DRIVER_RANGE_BYTES)
        {
            ranges.add_large_pages(range.start, bytes, Place::Video);
        }
    }
    for page in scheduler_pages {
        ranges.remove_large_page(*page);
    }
    for mapping in trace.mappings().iter().filter(|m| !is_engine(trace, m.object)) {
        let in_host = trace
            .objects()
            .get(mapping.object)
            .is_some_and(|o| o.flags & ObjectRow::HOST_MEMORY != 0);
        let place = if in_host { Place::System } else { Place::Video };
        ranges.add_large_pages(mapping.va, mapping.bytes, place);
    }
    ranges
}

struct ChannelState {
    engine: EngineKind,
    bindings: Bindings,
    reader: CommandReader,
}

impl ChannelState {
    /// Returns the state of a channel when its recording begins.
    fn new(trace: &DriverTrace, channel: usize) -> Self {
        let object = trace.channels().get(channel).map(|c| c.object);
        let class = |n: usize| trace.objects().get(n)?.class.and_then(|c| u16::try_from(c).ok());
        let host = object.and_then(class).filter(|c| c & 0xff == 0x6f);
        let mut state = Self {
            engine: EngineKind::Copy,
            bindings: Bindings::new(host.unwrap_or(CHANNEL_CLASS)),
            reader: CommandReader::new(),
        };
        let children = object.into_iter().flat_map(|o| trace.children(Some(o)));
        for class in children.filter_map(class) {
            state.bindings.bind_engine(class);
            if is_compute(class) {
                state.engine = EngineKind::Compute;
            }
        }
        state
    }
}

struct Compiler<'a> {
    recording: &'a Recording,
    trace: &'a DriverTrace,
    draft: Draft,
    rules: MethodRules,
    transfers: &'a Transfers<'a>,
    /// State by recorded channel.
    states: HashMap<usize, ChannelState>,
    /// Number of replaced methods, and the first event, by reason.
    replaced: BTreeMap<&'static str, (u64, u64)>,
    /// Windows of shared and local memory, and pages of the compute scheduler: first address and bytes.
    windows: Vec<(u64, u64)>,
    /// Memory that copies bring to the host and that no step reads yet: first address and bytes. libcuda copies large
    /// memory in pieces, which together are one output.
    leaving: Option<(u64, u64)>,
    semaphores: SemaphoreValues,
}

impl Compiler<'_> {
    /// Writes memory that the recorder saved before a copy read it.
    fn save(&mut self, event: usize) -> Result<(), String> {
        let row = self.recording.events.payload.get(event);
        let row = row.and_then(|r| self.recording.events.saved_memory.get(r as usize));
        let Some(row) = row.filter(|r| r.reason != SaveReason::Result as u32) else {
            return Ok(());
        };
        self.read_leaving();
        if !self.draft.ranges.contain(row.va, row.bytes) {
            return Err(format!("the saved memory of event {event} at {} is not mapped", row.va));
        }
        match self.transfers.saved_input(event as u64) {
            Some((name, bytes)) => {
                self.draft.body.write(row.va, bytes);
                self.draft.note_input(event as u64, name, bytes.len());
            }
            None if self.draft.body.write_stored(self.recording, &row.stored()) => {}
            None => return Err(format!("the saved memory of event {event} is not in the file")),
        }
        Ok(())
    }

    /// Replaces an input, or reads an output, where a copy of the program returned: its submissions come before it.
    fn transfer(&mut self, event: u64) -> Result<(), String> {
        if let Some((transfer, bytes)) = self.transfers.edited(event) {
            let to = GpuVa::new(transfer.row.to);
            if transfer.row.rows != 1 || !self.draft.ranges.contain(to, bytes.len() as u64) {
                return Err(format!("{} is not one range of the GPU's memory", transfer.name));
            }
            self.draft.body.write(to, bytes);
            self.draft.note_input(event, &transfer.name, bytes.len());
        }
        if let Some(transfer) = self.transfers.output(event) {
            let from = GpuVa::new(transfer.row.from);
            let bytes = transfer.row.total().unwrap_or(0);
            match transfer.row.rows == 1 && bytes > 0 && self.draft.ranges.contain(from, bytes) {
                true => self.draft.read(transfer.name.clone(), from, bytes),
                false => {
                    let why = format!(
                        "{} is not one range of the GPU's memory and is not read back",
                        transfer.name
                    );
                    self.draft.note_left_out(Some(event), why);
                }
            }
        }
        Ok(())
    }

    fn submit(&mut self, submission: &Submission) -> Result<(), String> {
        let event = submission.event;
        let stored = usize::try_from(event)
            .ok()
            .and_then(|e| self.recording.events.stored_content(e));
        let content = stored.and_then(|s| self.recording.content(&s));
        let Some(mut words) = content else {
            return Err(format!("the recording does not hold the push buffer of event {event}"));
        };
        if words.is_empty() {
            return Ok(());
        }
        if !self.draft.ranges.contain(submission.va, words.len() as u64) {
            return Err(format!(
                "the push buffer of event {event} at {} is not mapped",
                submission.va
            ));
        }
        let (engine, push_buffer) = self
            .read_push_buffer(submission.channel, &words)
            .map_err(|e| format!("event {event}, {e}"))?;
        push_buffer.replace_methods(&mut words)?;
        for why in &push_buffer.reasons {
            let entry = self.replaced.entry(why).or_insert((0, event));
            entry.0 += 1;
        }
        let RewrittenBuffer { commands, windows, .. } = push_buffer;
        for high in windows {
            self.windows.push((high, WINDOW_BYTES));
        }
        let count = u32::try_from(words.len() / 4).map_err(|_| format!("event {event} has too many words"))?;
        if !commands.iter().all(|c| self.leaves_memory_as_it_is(c)) {
            self.read_leaving();
        }
        self.semaphores.follow(event, &commands);
        self.draft.body.write(submission.va, &words);
        self.draft.body.submit(event, engine, submission.va, count);
        self.note_work(event, &commands);
        Ok(())
    }

    /// Reads a push buffer of a recorded channel. Returns the engine of the channel too.
    fn read_push_buffer(&mut self, channel: usize, words: &[u8]) -> Result<(EngineKind, RewrittenBuffer), String> {
        let trace = self.trace;
        let new_state = || ChannelState::new(trace, channel);
        let state = self.states.entry(channel).or_insert_with(new_state);
        let mut read = RewrittenBuffer::default();
        let buffer = PushBuffer::new(words);
        let mut methods = buffer.methods(&mut state.bindings);
        while let Some(next) = state.reader.read_next(&mut methods, &NoMemory) {
            let (method, command) = next.map_err(|e| e.to_string())?;
            read.windows.extend(window_start(&method));
            read.commands.extend(command);
            read.note_rule(&method, methods.run(), self.rules.judge(&method))?;
        }
        Ok((state.engine, read))
    }

    /// Keeps the launches and the outputs of a submission.
    fn note_work(&mut self, event: u64, commands: &[Command]) {
        let is_grid = |l: &Launch| matches!(l.kind, QmdKind::Grid | QmdKind::ClusterGrid);
        for command in commands {
            match command {
                Command::Launch(launch) if is_grid(launch) => self.draft.launches.push(PlannedLaunch {
                    event,
                    name: format!("the kernel at {:#x}", launch.program_address.0),
                }),
                Command::Copy(copy) if !self.transfers.has_calls() => {
                    let Some((from, bytes)) = self.leaving_range(copy) else {
                        continue;
                    };
                    match &mut self.leaving {
                        Some((first, total)) if first.checked_add(*total) == Some(from) => {
                            *total = total.saturating_add(bytes);
                        }
                        _ => {
                            self.read_leaving();
                            self.leaving = Some((from, bytes));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the memory that a copy brings from the GPU's board to the host: first address and bytes.
    fn leaving_range(&self, copy: &Copy) -> Option<(u64, u64)> {
        let (from, to) = (copy.source.address.0, copy.destination.address.0);
        let bytes = copy.bytes();
        let ranges = &self.draft.ranges;
        let leaves = copy.fill_pattern().is_none()
            && ranges.place(GpuVa::new(to)) == Some(Place::System)
            && ranges.place(GpuVa::new(from)) == Some(Place::Video)
            && copy.lines <= 1;
        (leaves && bytes > 0 && ranges.contain(GpuVa::new(from), bytes)).then_some((from, bytes))
    }

    /// Returns whether a command surely writes nothing that an output is read from: it brings memory to the host, or
    /// sets a semaphore.
    fn leaves_memory_as_it_is(&self, command: &Command) -> bool {
        match command {
            Command::Copy(copy) => self.leaving_range(copy).is_some(),
            Command::Semaphore(_) => true,
            Command::Upload(_) | Command::Launch(_) | Command::UnreadableLaunch(_) => false,
        }
    }

    /// Reads the memory that copies brought to the host as one output.
    fn read_leaving(&mut self) {
        if let Some((from, bytes)) = self.leaving.take() {
            let name = self.transfers.next_output_name();
            self.draft.read(name, GpuVa::new(from), bytes);
        }
    }

    fn finish(
        mut self,
        options: &ChannelOptions,
        refuse: &dyn Fn(String) -> CompileError,
    ) -> Result<Compiled, CompileError> {
        if self.draft.body.submissions == 0 {
            return Err(refuse("it has no submissions".to_owned()));
        }
        self.read_leaving();
        let control = self.draft.ranges.find_control(&self.windows);
        let control = control.ok_or_else(|| refuse("no addresses are free for the player's memory".to_owned()))?;
        if let Some(unknown) = self.semaphores.unknown() {
            self.draft.note_left_out(Some(unknown.event), unknown.to_string());
        }
        for (why, (count, first)) in &self.replaced {
            let detail = format!("{count} methods are replaced by one that does nothing: {why}");
            self.draft.note_left_out(Some(*first), detail);
        }
        let buffers = self.trace.mappings().iter().filter_map(|m| {
            let object = self.trace.objects().get(m.object)?;
            let handle = object.handle.map_or_else(String::new, |h| format!(" {h:#x}"));
            Some(PlanBuffer {
                name: format!("buffer{handle}"),
                va: m.va,
                bytes: m.bytes,
                element: ElementType::U8,
                space: 0,
            })
        });
        self.draft.buffers = buffers.collect();
        self.draft.finish(self.recording, options.budgets, control)
    }
}

/// Returns the first address of a window that a method sets: the high half; the low half only moves it within 4 GiB.
fn window_start(method: &Method) -> Option<u64> {
    let is_window = matches!(
        method.method,
        SET_SHADER_SHARED_MEMORY_WINDOW_A | SET_SHADER_LOCAL_MEMORY_WINDOW_A
    );
    (is_window && method.class.is_some_and(is_compute)).then(|| u64::from(method.value & 0x1_ffff) << 32)
}

/// What a push buffer does, and what a replay changes in it.
#[derive(Default)]
struct RewrittenBuffer {
    commands: Vec<Command>,
    /// First addresses of the windows of shared and local memory.
    windows: Vec<u64>,
    /// Headers whose methods are replaced: offset in words, header, number of their methods that are replaced.
    headers: Vec<(usize, Header, u16)>,
    /// Why, for each replaced method.
    reasons: Vec<&'static str>,
}

impl RewrittenBuffer {
    /// Notes what a replay does with a method of a run.
    fn note_rule(&mut self, method: &Method, run: Option<Run<'_>>, rule: MethodRule) -> Result<(), String> {
        let why = match rule {
            MethodRule::Send => return Ok(()),
            MethodRule::Replace(why) => why,
            MethodRule::Refuse(why) => return Err(format!("word {}: {why}", method.word)),
        };
        let run = run.ok_or("a method has no header")?;
        match self.headers.last_mut() {
            Some((word, _, count)) if *word == run.word => *count = count.saturating_add(1),
            _ => self.headers.push((run.word, run.header, 1)),
        }
        self.reasons.push(why);
        Ok(())
    }

    /// Makes the headers of replaced methods those of a method that does nothing.
    fn replace_methods(&self, words: &mut [u8]) -> Result<(), String> {
        for (word, header, replaced) in &self.headers {
            let (subchannel, count) = match *header {
                Header::Methods { subchannel, count, .. } if count == *replaced => (subchannel, count),
                _ => {
                    return Err(format!(
                        "word {word}: a header sets methods that are replaced, and others"
                    ));
                }
            };
            let header = Header::Methods {
                advance: Advance::Never,
                form: HeaderForm::New,
                subchannel,
                method: NO_OPERATION,
                count,
            };
            let encoded = header.encode().ok_or("a header cannot be encoded")?;
            if let Some(slot) = words.get_mut(word * 4..word * 4 + 4) {
                slot.copy_from_slice(&encoded.to_le_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
