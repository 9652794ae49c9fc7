//! The recording of a channel replay: a driver trace of what the plan mapped, wrote and submitted, with its outputs.

use super::last_write::{LastWrite, PlanImages};
use crate::device::DeviceInfo;
use crate::plan::{PageSource, PlannedSubmissions};
use crate::run::Outcome;
use nvidia_client::Place;
use nvidia_client::steps::{EngineKind, Step, Steps};
use trace_core::recording::{
    Clock, DriverTraceMetadata, EventsBuilder, Identity, MemoryBuilder, Metadata, NO_CONTENT, ObjectKind, ObjectRow,
    Page, Recording, RingEntryRow, SaveReason, SavedMemoryRow, TraceKind, ZERO_PAGE,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Handles of the objects: the player has its own, which no recording needs.
const CLIENT: u32 = 1;
const ADDRESS_SPACE: u32 = 2;
const FIRST_CHANNEL: u32 = 3;
const FIRST_BUFFER: u32 = 16;

/// Builds the recording of a channel replay.
///
/// # Errors
/// Why the plan cannot be decoded, for the user.
pub fn build_recording<'a>(
    outcome: &Outcome,
    plan: PlannedSubmissions<'a>,
    pages: &'a dyn PageSource,
    info: &DeviceInfo,
) -> Result<Recording, String> {
    let mut writer = Writer {
        events: EventsBuilder::new(),
        memory: MemoryBuilder::new(),
        entries: [0; 2],
        buffers: 0,
        images: PlanImages {
            digests: &plan.envelope.images,
            pages,
        },
        last_write: None,
    };
    writer.create_objects(plan.channel.compute_class);
    let last = outcome.api().and_then(|a| a.stopped.as_ref()).and_then(|s| s.event);
    for step in Steps::new(&plan.channel.body) {
        let step = step.map_err(|e| e.to_string())?;
        if let (Some(last), Step::Submit { event, .. }) = (last, &step)
            && *event > last
        {
            break;
        }
        writer.add(&step, outcome, plan)?;
    }
    // The outputs are saved memory. Named buffers are in address spaces with page tables, which a driver trace lacks.
    Ok(Recording {
        metadata: Metadata {
            identity: Identity {
                gpu_name: outcome.device.clone(),
                driver: "kinescope replay".to_owned(),
                board: info.name.clone(),
                tool: concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned(),
                source: "outcome".to_owned(),
                clock: Clock::Virtual,
                ..Identity::default()
            },
            kind: TraceKind::Driver(DriverTraceMetadata {
                driver_version: plan.channel.driver_version.clone(),
                has_arguments: true,
                ..DriverTraceMetadata::default()
            }),
            ..Metadata::default()
        },
        events: writer.events.finish(),
        memory: writer.memory.finish(),
        ..Recording::default()
    })
}

struct Writer<'a> {
    events: EventsBuilder,
    memory: MemoryBuilder,
    /// Number of entries by channel.
    entries: [u32; 2],
    buffers: u32,
    images: PlanImages<'a>,
    last_write: Option<LastWrite<'a>>,
}

impl<'a> Writer<'a> {
    fn time(&self) -> u64 {
        self.events.len() as u64
    }

    fn object(&mut self, row: ObjectRow) {
        self.events.object(self.time(), 0, row);
    }

    fn create_objects(&mut self, compute: u16) {
        let create = |kind, handle, parent, class| ObjectRow::create(CLIENT, kind, handle, parent, class);
        self.object(create(ObjectKind::Client, CLIENT, 0, 0x41));
        self.object(create(ObjectKind::AddressSpace, ADDRESS_SPACE, CLIENT, 0x90f1));
        let copy = super::copy_class(compute).unwrap_or(0);
        let engines = [compute, copy];
        for (n, engine) in (0u32..).zip(engines) {
            let channel = FIRST_CHANNEL + 2 * n;
            self.object(create(ObjectKind::Channel, channel, CLIENT, 0));
            self.object(create(ObjectKind::Engine, channel + 1, channel, u32::from(engine)));
        }
    }

    /// Stores bytes in pages, and returns the position of their first page.
    fn store(&mut self, va: u64, bytes: &[u8]) -> u64 {
        let mut ids = Vec::new();
        let mut skip = (va % PAGE_SIZE as u64) as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, behind) = rest.split_at(rest.len().min(PAGE_SIZE - skip));
            let mut page: Page = ZERO_PAGE;
            if let Some(to) = page.get_mut(skip..skip + now.len()) {
                to.copy_from_slice(now);
            }
            ids.push(self.memory.add_page(&page).0);
            (rest, skip) = (behind, 0);
        }
        self.events.call_pages(&ids)
    }

    /// Stores the bytes of a write, and returns the position of their first page.
    fn store_write(&mut self, write: LastWrite<'a>) -> Result<u64, String> {
        let numbers = match write {
            LastWrite::Bytes { va, data } => return Ok(self.store(va, data)),
            LastWrite::Pages { numbers, .. } => numbers,
        };
        let mut ids = Vec::with_capacity(numbers.len());
        for number in numbers {
            let missing = || format!("page image {} is missing", u32::from_le_bytes(*number));
            let digest = self.images.digest(*number).ok_or_else(missing)?;
            let page = self.images.pages.shared_page(&digest).ok_or_else(missing)?;
            ids.push(self.memory.add_shared_page(digest, || page).0);
        }
        Ok(self.events.call_pages(&ids))
    }

    fn save(&mut self, va: u64, bytes: u64, pages_at: u64, reason: SaveReason) {
        let row = SavedMemoryRow {
            va: GpuVa::new(va),
            bytes,
            pages_at,
            reason: reason as u32,
            ..SavedMemoryRow::default()
        };
        self.events.saved_memory(self.time(), 0, row);
    }

    /// Saves the last write, which was no push buffer.
    fn save_last(&mut self) -> Result<(), String> {
        if let Some(write) = self.last_write.take() {
            let (va, bytes) = write.range();
            let pages_at = self.store_write(write)?;
            self.save(va, bytes, pages_at, SaveReason::CopySource);
        }
        Ok(())
    }

    fn add(&mut self, step: &Step<'a>, outcome: &Outcome, plan: PlannedSubmissions<'_>) -> Result<(), String> {
        match *step {
            Step::Map { place, va, bytes } => self.map(place, va, bytes),
            // The recording shows no requests, and the page is no memory.
            Step::MapScheduler { .. } => {}
            Step::Write { va, data } => {
                self.save_last()?;
                self.last_write = Some(LastWrite::Bytes { va, data });
            }
            Step::WritePages { va, bytes, pages } => {
                self.save_last()?;
                self.last_write = Some(LastWrite::Pages {
                    va,
                    bytes,
                    numbers: pages,
                });
            }
            Step::Submit { engine, va, words, .. } => self.submit(engine, va, words)?,
            Step::Read { output, va, .. } => {
                self.save_last()?;
                let named = plan.envelope.outputs.get(output as usize);
                let found = named.and_then(|n| outcome.outputs.iter().find(|o| o.name == n.name));
                if let Some(found) = found {
                    let pages_at = self.store(va, &found.data);
                    self.save(va, found.data.len() as u64, pages_at, SaveReason::Result);
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, place: Place, va: u64, bytes: u64) {
        let handle = FIRST_BUFFER + self.buffers;
        self.buffers += 1;
        let row = ObjectRow {
            bytes,
            flags: match place {
                Place::Video => ObjectRow::VIDEO_MEMORY,
                Place::System => ObjectRow::HOST_MEMORY,
            },
            ..ObjectRow::create(CLIENT, ObjectKind::Buffer, handle, CLIENT, 0)
        };
        self.object(row);
        self.object(row.mapped_at(GpuVa::new(va), ADDRESS_SPACE));
    }

    fn submit(&mut self, engine: EngineKind, va: u64, words: u32) -> Result<(), String> {
        let bytes = u64::from(words) * 4;
        let number = usize::from(engine == EngineKind::Copy);
        let index = self.entries.get_mut(number).map_or(0, |n| {
            *n += 1;
            *n - 1
        });
        let pages_at = match self.last_write.filter(|write| write.range() == (va, bytes)) {
            Some(write) => {
                self.last_write = None;
                self.store_write(write)?
            }
            None => {
                self.save_last()?;
                NO_CONTENT
            }
        };
        let row = RingEntryRow {
            va: GpuVa::new(va),
            bytes,
            pages_at,
            client: CLIENT,
            channel: FIRST_CHANNEL + 2 * number as u32,
            index,
            ..RingEntryRow::default()
        };
        self.events.ring_entry(self.time(), 0, row);
        Ok(())
    }
}
