//! A small driver of virtio graphics devices that draws a picture, and a recorder around it. The recorder records
//! accesses, interrupts and the CPU's writes to memory.

use replay_core::WaitResult;
use replay_engine::device::RegisterTarget;
use std::collections::BTreeMap;
use trace_core::recording::{
    Access, EventsBuilder, FrameRole, HostWriteRow, InterruptRow, MemoryBuilder, Page, PageId, Space, ZERO_PAGE,
};
use trace_core::screen::Picture;
use trace_core::{PAGE_SIZE, PhysAddr, Recording, RegOffset};

const PAGE: u64 = PAGE_SIZE as u64;
const SECOND: u64 = 1_000_000_000;

pub const WIDTH: u32 = 64;
pub const HEIGHT: u32 = 48;

// Register offsets of Virtio 1.2 (4.1.4.3), in QEMU's layout of the capabilities.
const DRIVER_FEATURE_SELECT: u32 = 0x08;
const DRIVER_FEATURE: u32 = 0x0c;
const STATUS: u32 = 0x14;
const QUEUE_SELECT: u32 = 0x16;
const QUEUE_SIZE: u32 = 0x18;
const QUEUE_ENABLE: u32 = 0x1c;
const QUEUE_DESC: u32 = 0x20;
const QUEUE_DRIVER: u32 = 0x28;
const QUEUE_DEVICE: u32 = 0x30;
const ISR: u32 = 0x1000;
const NOTIFY_0: u32 = 0x3000;

/// Number of entries of the queue.
pub const ENTRIES: u64 = 16;

/// Offsets of the parts in pages from the start of the driver's memory. No part is next to another, so a wrong address
/// is detected.
const TABLE: u64 = 3;
const RING: u64 = 5;
const DONE: u64 = 6;
const COMMAND: u64 = 8;
/// The picture has two pieces, and the second is before the first.
const LATER_PIXELS: u64 = 10;
const FIRST_PIXELS: u64 = 13;

/// Offset of an answer in its page.
const ANSWER: u64 = 0x800;

pub struct Driver<'b> {
    device: &'b mut dyn RegisterTarget,
    base: u64,
    memory: BTreeMap<u64, Box<Page>>,
    pages: MemoryBuilder,
    events: EventsBuilder,
    time: u64,
    next: u16,
}

/// Returns a pixel of the picture.
pub fn pixel(x: u32, y: u32) -> [u8; 3] {
    let (dx, dy) = (x as i32 - 32, y as i32 - 24);
    match dx * dx + dy * dy < 400 {
        true => [
            (x * 4) as u8,
            (y * 5) as u8,
            if (x / 4 + y / 4).is_multiple_of(2) { 200 } else { 40 },
        ],
        false => [0x20, 0x20, 0x30],
    }
}

pub fn picture() -> Picture {
    let mut ppm = format!("P6\n{WIDTH} {HEIGHT}\n255\n").into_bytes();
    for y in 0..HEIGHT {
        ppm.extend((0..WIDTH).flat_map(|x| pixel(x, y)));
    }
    Picture::from_ppm(&ppm).unwrap()
}

impl<'b> Driver<'b> {
    /// Creates a driver whose memory begins `pages` pages after the start of the device's arena.
    fn new(device: &'b mut dyn RegisterTarget, pages: u64) -> Self {
        let base = device.info().arena.base.get() + pages * PAGE;
        let mut new = Self {
            device,
            base,
            memory: BTreeMap::new(),
            pages: MemoryBuilder::new(),
            events: EventsBuilder::new(),
            time: 0,
            next: 0,
        };
        let mut frames: Vec<u64> = [TABLE, RING, DONE, COMMAND].into();
        frames.extend([FIRST_PIXELS, FIRST_PIXELS + 1, LATER_PIXELS]);
        for n in frames {
            new.memory.insert(new.at(n) / PAGE, Box::new(ZERO_PAGE));
        }
        let zero = new.memory.keys().map(|f| (*f, PageId::ZERO, FrameRole::Data));
        new.pages.add_snapshot(0, zero.collect::<Vec<_>>());
        new
    }

    fn at(&self, page: u64) -> u64 {
        self.base + page * PAGE
    }

    fn tick(&mut self) -> u64 {
        self.time += 1_000;
        self.time
    }

    fn write(&mut self, offset: u32, width: u8, value: u64) {
        self.device.write(0, offset.into(), width, value).unwrap();
        let time = self.tick();
        self.events.access(time, 0, access(true, offset, width, value));
    }

    fn read(&mut self, offset: u32, width: u8) -> u64 {
        let value = self.device.read(0, offset.into(), width).unwrap();
        let time = self.tick();
        self.events.access(time, 0, access(false, offset, width, value));
        value
    }

    /// Writes bytes of one page as the CPU. The recorder records the write.
    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.device.store_bytes(PhysAddr::new(at), bytes).unwrap();
        let page = self.memory.get_mut(&(at / PAGE)).unwrap();
        let from = (at % PAGE) as usize;
        page[from..from + bytes.len()].copy_from_slice(bytes);
        let row = HostWriteRow {
            at: PhysAddr::new(at),
            bytes: bytes.len() as u32,
            page: self.pages.add_page(page).0,
        };
        let time = self.tick();
        self.events.host_write(time, 0, row);
    }

    fn address(&mut self, register: u32, at: u64) {
        self.write(register, 4, at & 0xffff_ffff);
        self.write(register + 4, 4, at >> 32);
    }

    fn start(&mut self) {
        self.write(STATUS, 1, 0);
        assert_eq!(self.read(STATUS, 1), 0);
        self.write(STATUS, 1, 1);
        self.write(STATUS, 1, 3);
        // The driver accepts version 1 and no other feature.
        for (word, features) in [(0, 0), (1, 1)] {
            self.write(DRIVER_FEATURE_SELECT, 4, word);
            self.write(DRIVER_FEATURE, 4, features);
        }
        self.write(STATUS, 1, 0xb);
        assert_eq!(self.read(STATUS, 1), 0xb);
        self.write(QUEUE_SELECT, 2, 0);
        self.write(QUEUE_SIZE, 2, ENTRIES);
        for (register, page) in [(QUEUE_DESC, TABLE), (QUEUE_DRIVER, RING), (QUEUE_DEVICE, DONE)] {
            let at = self.at(page);
            self.address(register, at);
        }
        self.write(QUEUE_ENABLE, 2, 1);
        self.write(STATUS, 1, 0xf);
    }

    /// Sends a command to the device and waits for its interrupt.
    fn command(&mut self, words: &[u32], answer_bytes: u32) -> u32 {
        let command: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let at = self.at(COMMAND);
        // Both descriptors, the command and the ring change between two accesses, as a page-based recorder sees them.
        let slot = u64::from(self.next) % ENTRIES;
        let head = (2 * slot) % ENTRIES;
        let mut table = descriptor(at, command.len() as u32, 1, head as u16 + 1);
        table.extend(descriptor(at + ANSWER, answer_bytes, 2, 0));
        self.store(self.at(TABLE) + 16 * head, &table);
        self.next = self.next.wrapping_add(1);
        // The ring and its index are one write, before the memory that the ring refers to.
        let mut ring = self.memory[&(self.at(RING) / PAGE)][..4 + 2 * ENTRIES as usize].to_vec();
        ring[2..4].copy_from_slice(&self.next.to_le_bytes());
        let entry = 4 + 2 * slot as usize;
        ring[entry..entry + 2].copy_from_slice(&(head as u16).to_le_bytes());
        self.store(self.at(RING), &ring);
        self.store(at, &command);
        self.write(NOTIFY_0, 2, 0);
        let waited = self.device.wait_interrupt(1, 20 * SECOND).unwrap();
        assert!(matches!(waited, WaitResult::Raised { .. }));
        let time = self.tick();
        self.events.interrupt(time, InterruptRow { line: 0, status: 0 });
        assert_eq!(self.read(ISR, 1) & 1, 1);
        let mut page = ZERO_PAGE;
        self.device.load_page(at / PAGE, &mut page).unwrap();
        let from = ANSWER as usize;
        u32::from_le_bytes(page[from..from + 4].try_into().unwrap())
    }

    fn draw(&mut self) {
        const OK: u32 = 0x1100;
        let header = |kind: u32| vec![kind, 0, 0, 0, 0, 0];
        let with = |kind: u32, rest: &[u32]| [header(kind), rest.to_vec()].concat();
        let bytes: Vec<u8> = (0..WIDTH * HEIGHT)
            .flat_map(|i| {
                let [r, g, b] = pixel(i % WIDTH, i / WIDTH);
                [b, g, r, 0]
            })
            .collect();
        let (first, later) = (self.at(FIRST_PIXELS), self.at(LATER_PIXELS));
        for (n, part) in bytes.chunks(PAGE_SIZE).enumerate() {
            self.store([first, first + PAGE, later][n], part);
        }
        assert_eq!(self.command(&header(0x100), 24 + 16 * 24), 0x1101);
        assert_eq!(self.command(&with(0x101, &[1, 2, WIDTH, HEIGHT]), 24), OK);
        let entry = |at: u64, bytes: u32| vec![at as u32, (at >> 32) as u32, bytes, 0];
        let entries = [vec![1, 2], entry(first, 2 * PAGE as u32), entry(later, PAGE as u32)].concat();
        assert_eq!(self.command(&with(0x106, &entries), 24), OK);
        let all = [0, 0, WIDTH, HEIGHT];
        assert_eq!(self.command(&with(0x103, &[&all[..], &[0, 1]].concat()), 24), OK);
        assert_eq!(self.command(&with(0x105, &[&all[..], &[0, 0, 1, 0]].concat()), 24), OK);
        assert_eq!(self.command(&with(0x104, &[&all[..], &[1, 0]].concat()), 24), OK);
    }
}

fn access(write: bool, offset: u32, width: u8, value: u64) -> Access {
    Access {
        space: 0,
        write,
        offset: RegOffset::new(offset),
        width,
        value,
    }
}

fn descriptor(at: u64, bytes: u32, flags: u16, next: u16) -> Vec<u8> {
    let mut d = at.to_le_bytes().to_vec();
    d.extend(bytes.to_le_bytes());
    d.extend(flags.to_le_bytes());
    d.extend(next.to_le_bytes());
    d
}

/// Draws on a device. Returns the recording with the picture that the device showed.
pub fn record(device: &mut dyn RegisterTarget) -> Recording {
    device.reset().unwrap();
    device.set_bus_mastering(true).unwrap();
    let info = device.info();
    let mut driver = Driver::new(device, 256);
    driver.start();
    driver.draw();
    let (events, memory) = (driver.events, driver.pages);
    let shown = device.screen().unwrap().unwrap();
    let mut recording = Recording {
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    };
    recording.metadata.identity.gpu_name = "virtio-gpu".into();
    recording.metadata.identity.driver = "a small driver that draws one picture".into();
    recording.metadata.identity.board = info.description.clone();
    recording.metadata.identity.tool = "replay-engine/tests/dma/driver.rs".into();
    recording.metadata.spaces = info
        .windows
        .iter()
        .map(|w| Space {
            name: w.name.clone(),
            kind: w.kind,
            bytes: w.bytes,
        })
        .collect();
    recording.set_hardware(info.hardware.as_ref().unwrap());
    recording.set_expected_screen(&shown);
    recording
}
