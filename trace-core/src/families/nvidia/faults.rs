//! Faults that a driver trace shows: answers about errors of the GPU, and error notifiers of channels in saved memory.

use super::requests::{Control, StoredRequest, for_each_request, read_u32, read_u64};
use crate::GpuVa;
use crate::driver_trace::{DriverFault, DriverTrace};
use crate::recording::{EventKind, ObjectKind, Recording};
use std::collections::{HashMap, HashSet};

/// Class of the object that reads errors of the GPU.
const DEBUGGER_CLASS: u32 = 0x83de;
/// Command that returns the token of a channel: bits 15:0 are its number.
const GET_WORK_SUBMIT_TOKEN: u32 = 0xc36f_0108;
/// Command that returns the last faults of the memory management unit.
const READ_MMU_FAULT_INFO: u32 = 0x83de_0328;
/// Command that returns the errors of all multiprocessors.
const READ_ALL_SM_ERROR_STATES: u32 = 0x83de_030c;
/// Maximum number of faults that the answer of the former has, and the size of each, bytes.
const MAX_MMU_FAULTS: usize = 4;
const MMU_FAULT_BYTES: usize = 16;
/// Maximum number of multiprocessors in the answer of the latter, and the size of each, bytes.
const MAX_SMS: usize = 100;
const SM_BYTES: usize = 48;
/// Size of an error notifier, bytes.
const NOTIFIER_BYTES: usize = 16;
/// Status of a notifier that reports an error.
const NOTIFIER_ERROR: u16 = 0xffff;
/// Maximum number of faults of a recording that are found.
const MAX_FAULTS: usize = 1000;

/// Returns the hardware number of each channel that its token states, by its index in the trace.
pub(super) fn find_channel_numbers(recording: &Recording, trace: &DriverTrace) -> HashMap<usize, u32> {
    let channels = channels_by_handle(trace);
    let mut numbers = HashMap::new();
    for_each_request(recording, |request| {
        let token = request
            .control()
            .filter(|c| c.command == GET_WORK_SUBMIT_TOKEN)
            .and_then(|c| Some((*channels.get(&(c.client, c.object))?, read_u32(c.parameters, 0)?)));
        if let Some((channel, token)) = token {
            numbers.insert(channel, token & 0xffff);
        }
    });
    numbers
}

/// Returns the channels by client and handle.
fn channels_by_handle(trace: &DriverTrace) -> HashMap<(u32, u32), usize> {
    let channels = trace.channels().iter().enumerate();
    let key = channels.filter_map(|(n, c)| {
        let object = trace.objects().get(c.object)?;
        Some(((object.client?, object.handle?), n))
    });
    key.collect()
}

/// Returns the faults in event order, at most [`MAX_FAULTS`].
pub(super) fn find_faults(recording: &Recording, trace: &DriverTrace) -> Vec<DriverFault> {
    let channels = channels_by_handle(trace);
    let mut search = FaultSearch {
        trace,
        channels: &channels,
        notifiers: HashMap::new(),
        debuggers: HashMap::new(),
        known: HashSet::new(),
        found: Vec::new(),
    };
    let version = recording.driver_trace().map_or("", |d| d.driver_version.as_str());
    for_each_request(recording, |request| search.take_request(request, version));
    search.find_notified(recording);
    search.found.sort_by_key(|f| f.event);
    search.found
}

struct FaultSearch<'a> {
    trace: &'a DriverTrace,
    channels: &'a HashMap<(u32, u32), usize>,
    /// Channels by client and handle of the memory of their error notifier.
    notifiers: HashMap<(u32, u32), Vec<usize>>,
    /// Channels by client and handle of a debugger of their engine.
    debuggers: HashMap<(u32, u32), usize>,
    /// Messages of faults so far: drivers ask repeatedly.
    known: HashSet<String>,
    found: Vec<DriverFault>,
}

impl FaultSearch<'_> {
    fn take_request(&mut self, request: &StoredRequest, version: &str) {
        if let Some(control) = request.control() {
            match control.command {
                READ_MMU_FAULT_INFO => self.take_mmu_faults(request.event, &control),
                READ_ALL_SM_ERROR_STATES => self.take_sm_errors(request.event, &control),
                _ => {}
            }
            return;
        }
        let Some(allocation) = request.allocation(version) else {
            return;
        };
        let handle = |name: &str| {
            u32::try_from(allocation.parameters.number(name)?)
                .ok()
                .filter(|h| *h != 0)
        };
        let key = (allocation.client, allocation.handle);
        if let Some(channel) = self.channels.get(&key)
            && let Some(memory) = handle("hObjectError")
        {
            self.notifiers.entry((key.0, memory)).or_default().push(*channel);
        } else if allocation.class == DEBUGGER_CLASS
            && let Some(engine) = handle("hClass3dObject")
            && let Some(channel) = self.channel_of_engine(handle("hAppClient").unwrap_or(key.0), engine)
        {
            self.debuggers.insert(key, channel);
        }
    }

    /// Returns the channel of an engine object.
    fn channel_of_engine(&self, client: u32, engine: u32) -> Option<usize> {
        let mut objects = self.trace.objects().iter().rev();
        let object = objects.find(|o| o.client == Some(client) && o.handle == Some(engine))?;
        let parent = object.parent;
        self.trace.channels().iter().position(|c| Some(c.object) == parent)
    }

    /// Adds a fault, unless an earlier one is the same.
    fn add(&mut self, event: u64, channels: Vec<usize>, address: Option<GpuVa>, message: String) {
        let is_new = self.found.len() < MAX_FAULTS && self.known.insert(format!("{channels:?} {message}"));
        if is_new {
            self.found.push(DriverFault {
                event,
                channels,
                address,
                message,
            });
        }
    }

    fn take_mmu_faults(&mut self, event: u64, control: &Control<'_>) {
        let count = read_u32(control.parameters, MAX_MMU_FAULTS * MMU_FAULT_BYTES).unwrap_or(0) as usize;
        let channel = self.debuggers.get(&(control.client, control.object)).copied();
        for n in 0..count.min(MAX_MMU_FAULTS) {
            let at = n * MMU_FAULT_BYTES;
            let fields = (
                read_u64(control.parameters, at),
                read_u32(control.parameters, at + 8),
                read_u32(control.parameters, at + 12),
            );
            let (Some(address), Some(kind), Some(access)) = fields else {
                return;
            };
            let address = GpuVa::new(address);
            let access = match access {
                0 => "READ".to_owned(),
                1 => "WRITE".to_owned(),
                other => format!("access {other}"),
            };
            let reason = match kind {
                0 => "PDE".to_owned(),
                other => format!("type {other}"),
            };
            let message = format!("MMU fault: {access} at {address}, reason {reason}");
            self.add(event, channel.into_iter().collect(), Some(address), message);
        }
    }

    fn take_sm_errors(&mut self, event: u64, control: &Control<'_>) {
        let word = |at: usize| read_u32(control.parameters, at).unwrap_or(0);
        let target = self.channels.get(&(control.client, word(0))).copied();
        let channel = target.or_else(|| self.debuggers.get(&(control.client, control.object)).copied());
        let count = (word(4) as usize).min(MAX_SMS);
        let faulty = (0..count).filter(|n| word(8 + n * SM_BYTES) != 0 || word(12 + n * SM_BYTES) != 0);
        let faulty: Vec<usize> = faulty.collect();
        let Some(first) = faulty.first() else {
            return;
        };
        let at = 8 + first * SM_BYTES;
        let number = |at: usize| read_u64(control.parameters, at).unwrap_or(0);
        let (address, pc) = (number(at + 24), number(at + 32));
        let message = format!(
            "{} of {count} multiprocessors report an error, the first one is {first}: warp error {:#x}, global error \
             {:#x}, instruction at {pc:#x}, access at {address:#x}",
            faulty.len(),
            word(at + 4),
            word(at),
        );
        let address = Some(GpuVa::new(address)).filter(|_| address != 0);
        self.add(event, channel.into_iter().collect(), address, message);
    }

    /// Adds the errors that notifiers in saved memory report.
    fn find_notified(&mut self, recording: &Recording) {
        let mut notifiers: Vec<(GpuVa, Vec<usize>)> = Vec::new();
        for ((client, handle), channels) in &self.notifiers {
            let is_memory = |object: usize| {
                let object = self.trace.objects().get(object);
                object.is_some_and(|o| {
                    o.kind == Some(ObjectKind::Buffer) && (o.client, o.handle) == (Some(*client), Some(*handle))
                })
            };
            let mapped = self
                .trace
                .mappings()
                .iter()
                .filter(|m| m.offset == 0 && is_memory(m.object));
            notifiers.extend(mapped.map(|m| (m.va, channels.clone())));
        }
        if notifiers.is_empty() {
            return;
        }
        notifiers.sort_by_key(|(va, _)| *va);
        for (event, kind) in recording.events.kind.iter().enumerate() {
            if kind != EventKind::SavedMemory as u8 {
                continue;
            }
            let Some(stored) = recording.events.stored_content(event) else {
                continue;
            };
            for (va, channels) in &notifiers {
                let mut bytes = [0; NOTIFIER_BYTES];
                let offset = va.offset_from(stored.va).filter(|o| *o < stored.bytes);
                let is_read = offset.is_some_and(|o| recording.read_content(&stored, o, &mut bytes));
                if is_read && let Some(message) = describe_notifier(&bytes) {
                    self.add(event as u64, channels.clone(), None, message);
                }
            }
        }
    }
}

/// Describes the error in a notifier: `u64 time, u32 code, u16 engine, u16 status`. Returns `None` if it reports none.
fn describe_notifier(bytes: &[u8; NOTIFIER_BYTES]) -> Option<String> {
    let code = read_u32(bytes, 8)?;
    let last = read_u32(bytes, 12)?;
    let (engine, status) = (last & 0xffff, (last >> 16) as u16);
    if status != NOTIFIER_ERROR || code == 0 {
        return None;
    }
    let meaning = match code {
        13 => ", graphics exception",
        31 => ", MMU fault",
        32 => ", invalid or corrupted push buffer",
        43 => ", GPU stopped processing",
        45 => ", preemptive removal of the channel",
        69 => ", graphics class error",
        94 => ", contained memory error",
        95 => ", uncontained memory error",
        _ => "",
    };
    Some(format!("error notifier: code {code}{meaning}, engine {engine}"))
}
