//! A made-up driver trace: submissions in the mix of a small network of PyTorch, launches as CUDA's driver makes them, and
//! copies of saved memory.

use trace_core::recording::{
    Clock, DriverTraceMetadata, EventsBuilder, Identity, MemoryBuilder, Metadata, ObjectKind, ObjectRow, Page,
    Recording, RingEntryRow, SaveReason, SavedMemoryRow, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

const CLIENT: u32 = 1;
const SPACE: u32 = 2;
const CHANNEL: u32 = 3;
const ENGINE: u32 = 4;
const COPIES: u32 = 5;
const BUFFERS: u32 = 6;
const PUSH_BUFFERS: u64 = 0x2_0080_0000;
const DATA: u64 = 0x2_0100_0000;
const DATA_BYTES: u64 = 64 << 20;
const SAVED: u64 = 0x2_1000_0000;
/// One submission in this many copies data in; its source is saved.
const COPY_INTERVAL: u64 = 8;
/// Size of a copied source.
const COPY_BYTES: usize = 256 << 10;

/// Adds a header with consecutive methods.
fn methods(words: &mut Vec<u32>, subchannel: u32, method: u32, values: &[u32]) {
    words.push(1 << 29 | (values.len() as u32) << 16 | subchannel << 13 | method >> 2);
    words.extend_from_slice(values);
}

/// Adds an upload, as CUDA's driver makes it: four headers, then the bytes.
fn upload(words: &mut Vec<u32>, va: u64, data: &[u32]) {
    methods(words, 1, 0x188, &[(va >> 32) as u32, va as u32]);
    methods(words, 1, 0x180, &[data.len() as u32 * 4, 1]);
    methods(words, 1, 0x1b0, &[0x41]);
    words.push(3 << 29 | (data.len() as u32) << 16 | 1 << 13 | 0x1b4 >> 2);
    words.extend_from_slice(data);
}

/// Starts a launch by the address of its descriptor.
fn start(words: &mut Vec<u32>, descriptor: u64, starts: bool) {
    if starts {
        methods(words, 1, 0x2b4, &[(descriptor >> 8) as u32]);
        methods(words, 1, 0x2c0, &[0xa]);
    }
}

/// Returns the words of a launch: constant bank, parameters, the descriptors of bookkeeping and of the grid, semaphore.
fn launch(number: u64, starts: bool) -> Vec<u32> {
    let bank = DATA + (number % 64) * 0x1000;
    let (order, grid, count) = (bank + 0x400, bank + 0x600, bank + 0x800);
    let mut words = Vec::new();
    upload(&mut words, bank, &[number as u32; 0x210 / 4]);
    upload(&mut words, bank + 0x210, &[0x1000; 7]);
    let mut descriptor = [0u32; 96];
    descriptor[0] = 1 << 23;
    descriptor[18] = 4 << 4;
    upload(&mut words, order, &descriptor);
    start(&mut words, order, starts);
    descriptor[0] = 2 << 23;
    descriptor[32..35].fill(4);
    descriptor[36] = 256 | 1 << 16;
    descriptor[37] = 1 | 16 << 16;
    descriptor[38] = DATA as u32;
    descriptor[39] = (DATA >> 32) as u32;
    upload(&mut words, grid, &descriptor);
    upload(&mut words, count, &[5]);
    start(&mut words, grid, starts);
    methods(
        &mut words,
        1,
        0x1b00,
        &[(count >> 32) as u32, count as u32, number as u32, 4],
    );
    words
}

/// Returns the words of a copy of saved memory.
fn copy(number: u64) -> Vec<u32> {
    let mut words = Vec::new();
    let (from, to) = (source(number), DATA + DATA_BYTES / 2);
    methods(
        &mut words,
        4,
        0x400,
        &[(from >> 32) as u32, from as u32, (to >> 32) as u32, to as u32],
    );
    methods(&mut words, 4, 0x418, &[COPY_BYTES as u32, 1]);
    methods(&mut words, 4, 0x300, &[0x182]);
    words
}

fn source(number: u64) -> u64 {
    DATA + DATA_BYTES / 4 + number / COPY_INTERVAL % 16 * COPY_BYTES as u64
}

/// A recording to make up.
#[derive(Clone, Copy, Debug)]
pub struct Synthesis {
    /// Number of submissions.
    pub submissions: u64,
    /// Bytes of memory that is saved before the first submission, like the weights of a network. A multiple of 2 MiB.
    pub saved_bytes: u64,
    /// Whether launches start. Otherwise their submissions only upload, so that no kernel is needed.
    pub has_launches: bool,
}

/// Saves a range of memory whose pages all differ.
fn save(events: &mut EventsBuilder, memory: &mut MemoryBuilder, va: u64, bytes: u64, seed: u64) {
    let ids: Vec<u32> = (0..bytes / PAGE_SIZE as u64)
        .map(|page| {
            let mut image: Page = [seed as u8; PAGE_SIZE];
            image[..8].copy_from_slice(&(seed << 32 | page).to_le_bytes());
            memory.add_page(&image).0
        })
        .collect();
    let saved = SavedMemoryRow {
        va: GpuVa::new(va),
        bytes,
        pages_at: events.call_pages(&ids),
        reason: SaveReason::CopySource as u32,
        ..SavedMemoryRow::default()
    };
    events.saved_memory(events.len() as u64, 0, saved);
}

/// Returns a recording with as many bytes of saved memory for each eighth submission as a copy has.
pub fn synthesize(synthesis: Synthesis) -> Recording {
    let Synthesis {
        submissions,
        saved_bytes,
        has_launches,
    } = synthesis;
    let mut events = EventsBuilder::new();
    let mut memory = MemoryBuilder::new();
    let row = |kind, handle, parent, class| ObjectRow::create(CLIENT, kind, handle, parent, class);
    let mut rows = vec![
        row(ObjectKind::Client, CLIENT, 0, 0x41),
        row(ObjectKind::AddressSpace, SPACE, CLIENT, 0x90f1),
        row(ObjectKind::Channel, CHANNEL, CLIENT, 0xc86f),
        row(ObjectKind::Engine, ENGINE, CHANNEL, 0xcbc0),
        row(ObjectKind::Engine, COPIES, CHANNEL, 0xc8b5),
    ];
    for (n, (va, bytes)) in (0..).zip([(PUSH_BUFFERS, 4 << 20), (DATA, DATA_BYTES), (SAVED, saved_bytes)]) {
        if bytes == 0 {
            continue;
        }
        let buffer = ObjectRow {
            bytes,
            flags: ObjectRow::VIDEO_MEMORY,
            ..row(ObjectKind::Buffer, BUFFERS + n, CLIENT, 0)
        };
        rows.push(buffer);
        rows.push(buffer.mapped_at(GpuVa::new(va), SPACE));
    }
    for row in rows {
        events.object(events.len() as u64, 0, row);
    }
    if saved_bytes > 0 {
        save(&mut events, &mut memory, SAVED, saved_bytes, u64::from(u32::MAX));
    }
    for number in 0..submissions {
        let is_copy = number % COPY_INTERVAL == 0;
        if is_copy {
            save(&mut events, &mut memory, source(number), COPY_BYTES as u64, number);
        }
        let mut words = Vec::new();
        if number == 0 {
            // The classes of the two subchannels.
            methods(&mut words, 1, 0, &[0xcbc0]);
            methods(&mut words, 4, 0, &[0xc8b5]);
        }
        words.extend(if is_copy {
            copy(number)
        } else {
            launch(number, has_launches)
        });
        let mut page: Page = [0; PAGE_SIZE];
        for (to, word) in page.as_chunks_mut::<4>().0.iter_mut().zip(&words) {
            *to = word.to_le_bytes();
        }
        let id = memory.add_page(&page).0;
        let entry = RingEntryRow {
            va: GpuVa::new(PUSH_BUFFERS + number % 1024 * PAGE_SIZE as u64),
            bytes: words.len() as u64 * 4,
            pages_at: events.call_pages(&[id]),
            client: CLIENT,
            channel: CHANNEL,
            index: number as u32,
            ..RingEntryRow::default()
        };
        events.ring_entry(events.len() as u64, 0, entry);
    }
    Recording {
        metadata: Metadata {
            identity: Identity {
                clock: Clock::Virtual,
                ..Identity::default()
            },
            kind: TraceKind::Driver(DriverTraceMetadata {
                driver_version: "580.159.04".to_owned(),
                has_arguments: true,
                ..DriverTraceMetadata::default()
            }),
            ..Metadata::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    }
}
