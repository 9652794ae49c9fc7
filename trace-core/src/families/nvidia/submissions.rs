//! Decoding of push buffers: methods with their names, launches, copies, uploads and semaphores.

use crate::GpuVa;
use crate::driver_trace::{
    AddressWord, DecodedMethod, DecodedSubmission, DriverTrace, GpuWork, Submission, SubmissionDecoder, SubmittedBank,
    SubmittedLaunch, SubmittedParameter, SubmittedRelease,
};
use crate::recording::{EventKind, NO_CONTENT, Recording, StoredContent};
use nvidia_channel::command::{Command, Semaphore};
use nvidia_channel::launch::Launch;
use nvidia_channel::memory::MemoryReader;
use nvidia_channel::push_buffer::{Method, PushBuffer, PushBufferError};
use nvidia_channel::qmd::{ConstantBank, QmdKind, Release};
use nvidia_channel::{Bindings, CommandReader};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of methods of a submission that are kept. The work of all of them is found.
const MAX_METHODS: usize = 1 << 20;
/// Maximum size of the commands of a submission that are decoded, bytes. A ring entry has at most 2^21 words.
const MAX_COMMAND_BYTES: u64 = 8 << 20;

/// The decoder, with the state of each channel.
pub(super) struct Decoder<'a> {
    recording: &'a Recording,
    trace: &'a DriverTrace,
    /// State by channel.
    channels: HashMap<usize, ChannelState>,
    memory: SavedMemory<'a>,
}

struct ChannelState {
    bindings: Bindings,
    reader: CommandReader,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(recording: &'a Recording, trace: &'a DriverTrace) -> Self {
        Self {
            recording,
            trace,
            channels: HashMap::new(),
            memory: SavedMemory {
                recording,
                next_event: 0,
                saved: BTreeMap::new(),
            },
        }
    }
}

impl SubmissionDecoder for Decoder<'_> {
    fn decode(&mut self, submission: &Submission) -> DecodedSubmission {
        self.read(submission, MAX_METHODS)
    }

    fn decode_work(&mut self, submission: &Submission) -> DecodedSubmission {
        self.read(submission, 0)
    }
}

impl Decoder<'_> {
    /// Decodes a submission, and keeps at most `max_methods` methods.
    fn read(&mut self, submission: &Submission, max_methods: usize) -> DecodedSubmission {
        self.memory.advance_to(submission.event);
        let error = |text: &str| DecodedSubmission {
            error: Some(text.to_owned()),
            ..DecodedSubmission::default()
        };
        let event = usize::try_from(submission.event).unwrap_or(usize::MAX);
        let stored = self.recording.events.stored_content(event);
        let Some(stored) = stored.filter(|s| s.pages_at != NO_CONTENT) else {
            return error("the recording does not hold the commands");
        };
        if stored.bytes > MAX_COMMAND_BYTES {
            return error("the ring entry names more commands than a push buffer can have");
        }
        let Some(bytes) = self.recording.content(&stored) else {
            return error("the recording does not hold all of the commands");
        };
        let trace = self.trace;
        let new_state = || ChannelState {
            bindings: bind_engines(trace, submission.channel),
            reader: CommandReader::new(),
        };
        let state = self.channels.entry(submission.channel).or_insert_with(new_state);
        let mut out = DecodedSubmission::default();
        let mut before: Option<Method> = None;
        let buffer = PushBuffer::new(&bytes);
        let mut methods = buffer.methods(&mut state.bindings);
        loop {
            // Words of data that are not listed are read together.
            let next = match out.methods.len() < max_methods {
                true => methods.next().map(|method| {
                    let method = method?;
                    Ok((method, state.reader.read(&method, &self.memory)))
                }),
                false => state.reader.read_next(&mut methods, &self.memory),
            };
            match next {
                Some(Ok((method, command))) => {
                    out.address_words
                        .extend(before.and_then(|upper| read_address_word(&upper, &method)));
                    before = Some(method);
                    if let Some(command) = command {
                        add_work(command, self.trace, submission.event, &mut out.work);
                    }
                    if out.methods.len() < max_methods {
                        out.methods.push(to_method(&method));
                    }
                }
                Some(Err(e)) => out.error = Some(PushBufferError::to_string(&e)),
                None => return out,
            }
        }
    }
}

/// Returns the bindings of a channel when its recording begins, which may be after the methods that bind the engines.
fn bind_engines(trace: &DriverTrace, channel: usize) -> Bindings {
    let object = trace.channels().get(channel).map(|c| c.object);
    let class = |n: usize| trace.objects().get(n)?.class.and_then(|c| u16::try_from(c).ok());
    let mut bindings = Bindings::new(object.and_then(class).unwrap_or(0));
    for engine in object
        .into_iter()
        .flat_map(|o| trace.children(Some(o)))
        .filter_map(class)
    {
        bindings.bind_engine(engine);
    }
    bindings
}

fn to_method(method: &Method) -> DecodedMethod {
    let named = method.named();
    let fields = named.into_iter().flat_map(|n| n.fields(method.value)).map(|f| {
        let name = match f.element {
            Some(element) => format!("{}({element})", f.name),
            None => f.name.to_owned(),
        };
        (name, f.text.map_or_else(|| format!("{:#x}", f.value), str::to_owned))
    });
    DecodedMethod {
        word: to_word(method.word),
        subchannel: method.subchannel,
        class: method.class,
        method: method.method,
        name: named.map(|n| n.to_string()),
        value: method.value,
        fields: fields.collect(),
    }
}

fn to_word(word: usize) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}

/// Returns the address in two methods that follow each other, if the first one holds the upper part of an address.
fn read_address_word(upper: &Method, lower: &Method) -> Option<AddressWord> {
    const UPPER_PARTS: [&str; 4] = ["UPPER", "ADDRESS_UPPER", "OFFSET_UPPER", "BASE_ADDRESS_UPPER"];
    let is_next = upper.method.checked_add(4) == Some(lower.method) && upper.subchannel == lower.subchannel;
    let named = upper.named().filter(|_| is_next)?;
    let mut fields = named.fields(upper.value);
    let part = fields.find(|f| UPPER_PARTS.contains(&f.name))?;
    Some(AddressWord {
        word: to_word(upper.word),
        class: upper.class?,
        method: upper.method,
        name: named.info.name,
        va: GpuVa::new(part.value << 32 | u64::from(lower.value)),
    })
}

/// Adds the work of a command. A copy or upload may release a semaphore at its end.
fn add_work(command: Command, trace: &DriverTrace, event: u64, out: &mut Vec<GpuWork>) {
    let (work, semaphore) = match command {
        Command::Launch(launch) => match launch.kind {
            QmdKind::Grid | QmdKind::ClusterGrid => (GpuWork::Launch(Box::new(to_launch(&launch, trace, event))), None),
            kind => (
                GpuWork::Order {
                    word: to_word(launch.word),
                    descriptor: GpuVa::new(launch.descriptor_address.0),
                    kind: kind.to_string(),
                },
                None,
            ),
        },
        Command::UnreadableLaunch(e) => (
            GpuWork::Unreadable {
                word: to_word(e.word()),
                reason: e.to_string(),
            },
            None,
        ),
        Command::Copy(copy) => (
            GpuWork::Copy {
                word: to_word(copy.word),
                from: copy.fill_pattern().is_none().then(|| GpuVa::new(copy.source.address.0)),
                to: GpuVa::new(copy.destination.address.0),
                bytes: copy.bytes(),
                from_is_physical: copy.source.physical,
                to_is_physical: copy.destination.physical,
            },
            copy.semaphore,
        ),
        Command::Upload(upload) => (
            GpuWork::Upload {
                word: to_word(upload.word),
                to: GpuVa::new(upload.address.0),
                bytes: (upload.bytes.len() as u64).saturating_add(upload.missing_bytes),
            },
            upload.semaphore,
        ),
        Command::Semaphore(s) => (to_semaphore(&s), None),
    };
    out.push(work);
    out.extend(semaphore.as_ref().map(to_semaphore));
}

fn to_semaphore(s: &Semaphore) -> GpuWork {
    GpuWork::Semaphore {
        word: to_word(s.word),
        waits: s.is_acquire(),
        va: GpuVa::new(s.address.0),
        payload: s.payload,
        operation: s.operation.to_string(),
    }
}

fn to_launch(launch: &Launch, trace: &DriverTrace, event: u64) -> SubmittedLaunch {
    let parameters = launch.parameters.as_deref().unwrap_or_default();
    SubmittedLaunch {
        word: to_word(launch.word),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        shared: launch.shared_bytes,
        local: launch.local_bytes,
        registers: launch.registers,
        barriers: launch.barriers,
        program: GpuVa::new(launch.program_address.0),
        descriptor: GpuVa::new(launch.descriptor_address.0),
        parameters: SubmittedParameter::split(parameters, trace, event),
        banks: launch.constant_banks.iter().map(to_bank).collect(),
        releases: launch.releases.iter().map(to_release).collect(),
    }
}

fn to_bank(bank: &ConstantBank) -> SubmittedBank {
    SubmittedBank {
        index: bank.index,
        va: GpuVa::new(bank.address.0),
        bytes: bank.bytes,
    }
}

fn to_release(release: &Release) -> SubmittedRelease {
    SubmittedRelease {
        va: GpuVa::new(release.address.0),
        payload: release.payload,
        reduction: release.reduction,
    }
}

/// The memory that the recorder saved up to an event. Of bytes saved twice, the later ones count.
struct SavedMemory<'a> {
    recording: &'a Recording,
    next_event: u64,
    /// By first address.
    saved: BTreeMap<GpuVa, StoredContent>,
}

impl SavedMemory<'_> {
    fn advance_to(&mut self, event: u64) {
        let from = usize::try_from(self.next_event).unwrap_or(usize::MAX);
        let end = usize::try_from(event)
            .unwrap_or(usize::MAX)
            .min(self.recording.events.len());
        let events = &self.recording.events;
        for (n, kind) in (from..end).zip(events.kind.iter_range(from..end.max(from))) {
            if kind == EventKind::SavedMemory as u8
                && let Some(stored) = events.stored_content(n)
            {
                self.saved.insert(stored.va, stored);
            }
        }
        self.next_event = self.next_event.max(event);
    }
}

impl MemoryReader for SavedMemory<'_> {
    fn read(&self, address: nvidia_channel::GpuVa, out: &mut [u8]) -> bool {
        let va = GpuVa::new(address.0);
        let before = self.saved.range(..=va).next_back();
        before.is_some_and(|(first, stored)| {
            let offset = va.offset_from(*first);
            offset.is_some_and(|offset| self.recording.read_content(stored, offset, out))
        })
    }
}
