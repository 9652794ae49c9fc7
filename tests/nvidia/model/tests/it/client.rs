//! A small client of NVIDIA's kernel driver: no CUDA, no unified memory. Its structs are those of branch 580.
//!
//! The test program of the package `nvidia-model-preload` has it too.
#![allow(dead_code, reason = "each of its users needs a part of it")]

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// How a client reaches the driver. Results are those of system calls, with errors as negative numbers.
pub trait Driver {
    fn open(&self, path: &str) -> i32;
    fn close(&self, fd: RawFd) -> i32;
    /// # Safety
    /// The argument and the pointers in it must be valid.
    unsafe fn ioctl(&self, fd: RawFd, request: u64, argument: *mut u8) -> i32;
    /// # Safety
    /// As `mmap`, at an address that the driver chooses.
    unsafe fn map(&self, fd: RawFd, bytes: usize) -> *mut u8;
    /// # Safety
    /// Nothing may use the range afterwards.
    unsafe fn unmap(&self, address: *mut u8, bytes: usize);
}

pub const RM_ALLOC_MEMORY: u8 = 0x27;
pub const RM_FREE: u8 = 0x29;
pub const RM_CONTROL: u8 = 0x2a;
pub const RM_ALLOC: u8 = 0x2b;
pub const RM_MAP_MEMORY: u8 = 0x4e;
pub const RM_MAP_MEMORY_DMA: u8 = 0x57;
pub const RM_UNMAP_MEMORY_DMA: u8 = 0x58;
pub const CARD_INFO: u8 = 0xc8;
pub const REGISTER_FD: u8 = 0xc9;

/// Subchannels of the compute and the copy engine.
pub const COMPUTE: u32 = 1;
pub const COPY: u32 = 4;
/// Value of entries after which a mark shows that they are complete.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A status of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u32);

pub fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

pub fn put32(bytes: &mut [u8], offset: usize, value: u32) {
    put(bytes, offset, &value.to_le_bytes());
}

pub fn put64(bytes: &mut [u8], offset: usize, value: u64) {
    put(bytes, offset, &value.to_le_bytes());
}

pub fn get32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap_or_default())
}

pub fn get64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap_or_default())
}

/// Memory of the device that the client maps.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    pub handle: u32,
    pub va: u64,
    pub bytes: u64,
    cpu: *mut u8,
}

impl Buffer {
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(
            offset + bytes.len() as u64 <= self.bytes,
            "a write ends within the buffer"
        );
        // SAFETY: the range is within the mapping, which the client removes last.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.cpu.add(offset as usize), bytes.len()) };
    }

    pub fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        assert!(offset + bytes as u64 <= self.bytes, "a read ends within the buffer");
        let mut out = vec![0; bytes];
        // SAFETY: the range is within the mapping.
        unsafe { std::ptr::copy_nonoverlapping(self.cpu.add(offset as usize), out.as_mut_ptr(), bytes) };
        out
    }

    pub fn word(&self, offset: u64) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset + 4 <= self.bytes,
            "a word is within the buffer"
        );
        // SAFETY: the word is aligned and within the mapping; the device accesses it as a word too.
        unsafe { AtomicU32::from_ptr(self.cpu.add(offset as usize).cast()) }
    }

    fn long(&self, offset: u64) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.bytes,
            "a long is within the buffer"
        );
        // SAFETY: as for words.
        unsafe { AtomicU64::from_ptr(self.cpu.add(offset as usize).cast()) }
    }
}

/// A channel of the client.
#[derive(Debug, Clone)]
pub struct Channel {
    pub handle: u32,
    pub token: u32,
    ring_offset: u64,
    put: RefCell<u32>,
}

/// A client with a device, an address space and a group of channels.
pub struct Client<D: Driver> {
    pub driver: D,
    pub control: RawFd,
    pub gpu: RawFd,
    pub root: u32,
    pub device: u32,
    pub subdevice: u32,
    pub space: u32,
    pub virtual_memory: u32,
    pub group: u32,
    pub share: u32,
    pub registers: Buffer,
    pub ring: Buffer,
    /// Push buffers.
    pub words: Buffer,
    /// Semaphores: the mark of the last entry is the first word.
    pub marks: Buffer,
    pub notifier: Buffer,
    pub buffers: RefCell<Vec<Buffer>>,
    next_ring: RefCell<u64>,
    next_words: RefCell<u64>,
    next_mark: RefCell<u32>,
    fds: RefCell<Vec<RawFd>>,
}

const ENTRIES: u32 = 64;

/// Header of methods that increment.
pub fn methods(subchannel: u32, method: u32, values: &[u32]) -> Vec<u32> {
    header(1, subchannel, method, values)
}

/// Header of a method that is repeated.
pub fn repeated(subchannel: u32, method: u32, values: &[u32]) -> Vec<u32> {
    header(3, subchannel, method, values)
}

fn header(operation: u32, subchannel: u32, method: u32, values: &[u32]) -> Vec<u32> {
    let mut words = vec![operation << 29 | (values.len() as u32) << 16 | subchannel << 13 | (method / 4)];
    words.extend(values);
    words
}

pub fn high_low(va: u64) -> [u32; 2] {
    [(va >> 32) as u32, va as u32]
}

impl<D: Driver> Client<D> {
    /// Opens the driver and brings a group of channels up, in the order that a Hopper needs.
    pub fn bring_up(driver: D) -> Result<Self, Refusal> {
        let control = driver.open("/dev/nvidiactl");
        assert!(control >= 0, "the control file opens");
        let empty = Buffer {
            handle: 0,
            va: 0,
            bytes: 0,
            cpu: std::ptr::null_mut(),
        };
        let mut client = Self {
            driver,
            control,
            gpu: -1,
            root: 0,
            device: 0,
            subdevice: 0,
            space: 0,
            virtual_memory: 0,
            group: 0,
            share: 0,
            registers: empty,
            ring: empty,
            words: empty,
            marks: empty,
            notifier: empty,
            buffers: RefCell::new(Vec::new()),
            next_ring: RefCell::new(0),
            next_words: RefCell::new(0),
            next_mark: RefCell::new(0x1000),
            fds: RefCell::new(Vec::new()),
        };
        client.root = client.allocate(0, 0x41, 0, &mut [])?;
        let mut cards = [0; 72 * 32];
        client.request(CARD_INFO, &mut cards);
        assert_eq!((cards[0], get32(&cards, 56)), (1, 0), "there is one GPU, number 0");
        client.gpu = client.open_gpu();
        let mut info = [0; 32];
        put32(&mut info, 0, get32(&cards, 16));
        client.command(client.root, 0x205, &mut info)?;
        let mut parameters = [0; 56];
        put32(&mut parameters, 0, get32(&info, 8));
        put32(&mut parameters, 4, client.root);
        client.device = client.allocate(client.root, 0x80, 0, &mut parameters)?;
        client.subdevice = client.allocate(client.device, 0x2080, 0, &mut [0; 4])?;
        client.map_registers()?;
        client.space = client.allocate(client.device, 0x90f1, 0, &mut [0; 56])?;
        let mut parameters = [0; 24];
        put32(&mut parameters, 16, client.space);
        client.virtual_memory = client.allocate(client.device, 0x70, 0, &mut parameters)?;
        client.ring = client.buffer(0x20_0000, 0x10_0000_0000, false)?;
        client.words = client.buffer(0x20_0000, 0x10_0040_0000, false)?;
        client.marks = client.buffer(0x1_0000, 0x10_0080_0000, true)?;
        client.notifier = client.buffer(0x1_0000, 0x10_00c0_0000, true)?;
        client.new_group()?;
        Ok(client)
    }

    /// Makes a group of channels and its context share.
    pub fn new_group(&mut self) -> Result<(), Refusal> {
        let mut parameters = [0; 20];
        put32(&mut parameters, 8, self.space);
        put32(&mut parameters, 12, 1);
        self.group = self.allocate(self.device, 0xa06c, 0, &mut parameters)?;
        let mut parameters = [0; 12];
        put32(&mut parameters, 0, self.space);
        put32(&mut parameters, 4, 1);
        self.share = self.allocate(self.group, 0x9067, 0, &mut parameters)?;
        Ok(())
    }

    fn map_registers(&mut self) -> Result<(), Refusal> {
        let handle = self.allocate(self.subdevice, 0xc661, 0, &mut [])?;
        let cpu = self.map(handle, 0x1_0000, false)?;
        self.registers = Buffer {
            handle,
            va: 0,
            bytes: 0x1_0000,
            cpu,
        };
        Ok(())
    }

    /// Makes an ioctl of the control file. Returns the result of the system call.
    pub fn request(&self, number: u8, argument: &mut [u8]) -> i32 {
        self.request_of(self.control, number, argument)
    }

    fn request_of(&self, fd: RawFd, number: u8, argument: &mut [u8]) -> i32 {
        let request = 3 << 30 | (argument.len() as u64) << 16 | 0x46 << 8 | u64::from(number);
        // SAFETY: the argument has the size of the request, and its pointers are alive in the callers.
        unsafe { self.driver.ioctl(fd, request, argument.as_mut_ptr()) }
    }

    pub fn open_gpu(&self) -> RawFd {
        let fd = self.driver.open("/dev/nvidia0");
        assert!(fd >= 0, "the GPU's file opens");
        let mut argument = self.control.to_le_bytes();
        assert_eq!(
            self.request_of(fd, REGISTER_FD, &mut argument),
            0,
            "the file is registered"
        );
        self.fds.borrow_mut().push(fd);
        fd
    }

    /// Allocates an object. `handle` 0 lets the driver choose.
    pub fn allocate(&self, parent: u32, class: u32, handle: u32, parameters: &mut [u8]) -> Result<u32, Refusal> {
        let mut argument = [0; 32];
        for (offset, value) in [(0, self.root), (4, parent), (8, handle), (12, class)] {
            put32(&mut argument, offset, value);
        }
        if !parameters.is_empty() {
            let address = parameters.as_mut_ptr().expose_provenance() as u64;
            put64(&mut argument, 16, address);
            put32(&mut argument, 24, parameters.len() as u32);
        }
        assert_eq!(self.request(RM_ALLOC, &mut argument), 0, "the ioctl itself succeeds");
        match get32(&argument, 28) {
            0 => Ok(get32(&argument, 8)),
            status => Err(Refusal(status)),
        }
    }

    /// Sends a control command.
    pub fn command(&self, object: u32, command: u32, parameters: &mut [u8]) -> Result<(), Refusal> {
        let mut argument = [0; 32];
        for (offset, value) in [(0, self.root), (4, object), (8, command)] {
            put32(&mut argument, offset, value);
        }
        if !parameters.is_empty() {
            let address = parameters.as_mut_ptr().expose_provenance() as u64;
            put64(&mut argument, 16, address);
            put32(&mut argument, 24, parameters.len() as u32);
        }
        assert_eq!(self.request(RM_CONTROL, &mut argument), 0, "the ioctl itself succeeds");
        match get32(&argument, 28) {
            0 => Ok(()),
            status => Err(Refusal(status)),
        }
    }

    pub fn free(&self, handle: u32) -> Result<(), Refusal> {
        let mut argument = [0; 16];
        put32(&mut argument, 0, self.root);
        put32(&mut argument, 8, handle);
        assert_eq!(self.request(RM_FREE, &mut argument), 0, "the ioctl itself succeeds");
        match get32(&argument, 12) {
            0 => Ok(()),
            status => Err(Refusal(status)),
        }
    }

    /// Maps memory for the program.
    fn map(&self, handle: u32, bytes: u64, system: bool) -> Result<*mut u8, Refusal> {
        let fd = match system {
            true => {
                let fd = self.driver.open("/dev/nvidiactl");
                self.fds.borrow_mut().push(fd);
                fd
            }
            false => self.open_gpu(),
        };
        let mut argument = [0; 56];
        for (offset, value) in [(0, self.root), (4, self.device), (8, handle)] {
            put32(&mut argument, offset, value);
        }
        put64(&mut argument, 24, bytes);
        put(&mut argument, 48, &fd.to_le_bytes());
        assert_eq!(
            self.request(RM_MAP_MEMORY, &mut argument),
            0,
            "the ioctl itself succeeds"
        );
        match get32(&argument, 40) {
            // SAFETY: the driver chooses the address.
            0 => Ok(unsafe { self.driver.map(fd, bytes as usize) }),
            status => Err(Refusal(status)),
        }
    }

    /// Gives memory an address of the GPU.
    pub fn map_dma(&self, memory: u32, va: u64, bytes: u64, fixed: bool) -> Result<u64, Refusal> {
        let mut argument = [0; 64];
        for (offset, value) in [(0, self.root), (4, self.device), (8, self.virtual_memory), (12, memory)] {
            put32(&mut argument, offset, value);
        }
        put64(&mut argument, 24, bytes);
        put32(&mut argument, 32, u32::from(fixed) << 15);
        put64(&mut argument, 48, va);
        assert_eq!(
            self.request(RM_MAP_MEMORY_DMA, &mut argument),
            0,
            "the ioctl itself succeeds"
        );
        match get32(&argument, 56) {
            0 => Ok(get64(&argument, 48)),
            status => Err(Refusal(status)),
        }
    }

    pub fn unmap_dma(&self, memory: u32, va: u64) -> Result<(), Refusal> {
        let mut argument = [0; 48];
        for (offset, value) in [(0, self.root), (4, self.device), (8, self.virtual_memory), (12, memory)] {
            put32(&mut argument, offset, value);
        }
        put64(&mut argument, 24, va);
        assert_eq!(
            self.request(RM_UNMAP_MEMORY_DMA, &mut argument),
            0,
            "the ioctl itself succeeds"
        );
        match get32(&argument, 40) {
            0 => Ok(()),
            status => Err(Refusal(status)),
        }
    }

    /// Allocates video or system memory.
    pub fn memory(&self, bytes: u64, system: bool) -> Result<u32, Refusal> {
        let mut parameters = [0; 128];
        put32(&mut parameters, 0, self.root);
        put32(&mut parameters, 4, if system { 13 } else { 0 });
        put32(&mut parameters, 8, if system { 0xc101 } else { 0x1c101 });
        put32(&mut parameters, 24, if system { 0x2a00_0000 } else { 0x1980_0000 });
        put32(&mut parameters, 28, if system { 9 } else { 0x10_0005 });
        put64(&mut parameters, 64, bytes);
        put64(&mut parameters, 72, if system { 0x1000 } else { 0x20_0000 });
        self.allocate(self.device, if system { 0x3e } else { 0x40 }, 0, &mut parameters)
    }

    /// Allocates memory at an address of the GPU, and maps it for the program.
    pub fn buffer(&self, bytes: u64, va: u64, system: bool) -> Result<Buffer, Refusal> {
        let handle = self.memory(bytes, system)?;
        let cpu = self.map(handle, bytes, system)?;
        assert_eq!(self.map_dma(handle, va, bytes, true)?, va, "the address is granted");
        let buffer = Buffer { handle, va, bytes, cpu };
        self.buffers.borrow_mut().push(buffer);
        Ok(buffer)
    }

    /// Allocates a buffer for each 2 MiB of a range that has none.
    pub fn cover(&self, va: u64, bytes: u64) {
        let granule = 0x20_0000;
        let mut at = va / granule * granule;
        while at < va + bytes {
            let known = self.buffers.borrow().iter().any(|b| b.va <= at && at < b.va + b.bytes);
            if !known {
                self.buffer(granule, at, false)
                    .unwrap_or_else(|e| panic!("{at:#x}: {e:?}"));
            }
            at += granule;
        }
    }

    fn buffer_at(&self, va: u64) -> (Buffer, u64) {
        let buffers = self.buffers.borrow();
        let buffer = buffers.iter().find(|b| b.va <= va && va < b.va + b.bytes);
        let buffer = *buffer.unwrap_or_else(|| panic!("{va:#x} has a buffer"));
        (buffer, va - buffer.va)
    }

    pub fn write_at(&self, va: u64, bytes: &[u8]) {
        let (buffer, offset) = self.buffer_at(va);
        buffer.write(offset, bytes);
    }

    pub fn read_at(&self, va: u64, bytes: usize) -> Vec<u8> {
        let (buffer, offset) = self.buffer_at(va);
        buffer.read(offset, bytes)
    }

    pub fn write_words(&self, va: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write_at(va, &bytes);
    }

    pub fn read_words(&self, va: u64, count: usize) -> Vec<u32> {
        let bytes = self.read_at(va, count * 4);
        bytes.chunks_exact(4).map(|word| get32(word, 0)).collect()
    }

    /// Makes a channel with engine objects of some classes.
    pub fn channel(&self, engines: &[u32]) -> Result<Channel, Refusal> {
        let ring_offset = *self.next_ring.borrow();
        *self.next_ring.borrow_mut() += 0x1_0000;
        let user_data = ring_offset + u64::from(ENTRIES) * 8;
        let mut parameters = [0; 368];
        put32(&mut parameters, 0, self.notifier.handle);
        put32(&mut parameters, 4, self.ring.handle);
        put64(&mut parameters, 8, self.ring.va + ring_offset);
        put32(&mut parameters, 16, ENTRIES);
        put32(&mut parameters, 24, self.share);
        put32(&mut parameters, 32, self.ring.handle);
        put64(&mut parameters, 64, user_data);
        let handle = self.allocate(self.group, 0xc86f, 0, &mut parameters)?;
        for class in engines {
            self.allocate(handle, *class, 0, &mut [])?;
        }
        let mut token = [0xff; 4];
        self.command(handle, 0xc36f_0108, &mut token)?;
        Ok(Channel {
            handle,
            token: get32(&token, 0),
            ring_offset,
            put: RefCell::new(0),
        })
    }

    /// Starts the fetch of the group's entries.
    pub fn schedule(&self) -> Result<(), Refusal> {
        self.command(self.group, 0xa06c_0101, &mut [1, 0, 0])
    }

    /// Submits words at an address of the GPU.
    pub fn submit_at(&self, channel: &Channel, va: u64, words: &[u32]) {
        self.write_words(va, words);
        let mut put = channel.put.borrow_mut();
        let entry = va & 0xff_ffff_fffc | (words.len() as u64) << 42 | 1 << 41;
        self.ring
            .long(channel.ring_offset + u64::from(*put) * 8)
            .store(entry, Ordering::SeqCst);
        *put = (*put + 1) % ENTRIES;
        let user_data = channel.ring_offset + u64::from(ENTRIES) * 8;
        fence(Ordering::SeqCst);
        self.ring.word(user_data + 0x8c).store(*put, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.registers.word(0x90).store(channel.token, Ordering::SeqCst);
    }

    pub fn submit(&self, channel: &Channel, words: &[u32]) {
        let mut next = self.next_words.borrow_mut();
        let bytes = (words.len() as u64 * 4).next_multiple_of(0x100);
        if *next + bytes > self.words.bytes {
            *next = 0;
        }
        let va = self.words.va + *next;
        *next += bytes;
        self.submit_at(channel, va, words);
    }

    /// Returns words that write the next mark, and the mark.
    pub fn mark(&self) -> (Vec<u32>, u32) {
        let mut next = self.next_mark.borrow_mut();
        *next += 1;
        let va = self.marks.va;
        let words = methods(0, 0x5c, &[va as u32, (va >> 32) as u32, *next, 0, 0x0210_0001]);
        (words, *next)
    }

    /// Submits words, and waits until they are complete. Returns whether they were in time.
    pub fn run(&self, channel: &Channel, words: &[u32]) -> bool {
        self.run_for(channel, words, TIMEOUT)
    }

    pub fn run_for(&self, channel: &Channel, words: &[u32], timeout: Duration) -> bool {
        let (end, mark) = self.mark();
        self.submit(channel, &[words, &end].concat());
        self.wait_for(|| self.marks.word(0).load(Ordering::SeqCst) == mark, timeout)
    }

    pub fn wait(&self, condition: impl Fn() -> bool) -> bool {
        self.wait_for(condition, TIMEOUT)
    }

    fn wait_for(&self, condition: impl Fn() -> bool, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while !condition() {
            if Instant::now() > end || self.notifier_code().is_some() {
                return condition();
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    /// Returns the code of the error that ended the group.
    pub fn notifier_code(&self) -> Option<u32> {
        let status = self.notifier.word(12).load(Ordering::SeqCst) >> 16;
        (status == 0xffff).then(|| self.notifier.word(8).load(Ordering::SeqCst))
    }

    /// Binds the classes of a channel with a compute and a copy object.
    pub fn bind_words(&self) -> Vec<u32> {
        [methods(COMPUTE, 0, &[0xcbc0]), methods(COPY, 0, &[0xc8b5])].concat()
    }

    /// Ends the client: its root, its mappings, its files.
    pub fn close(self) {
        self.free(self.root)
            .unwrap_or_else(|e| panic!("the root is freed: {e:?}"));
        let mut buffers = self.buffers.take();
        buffers.push(self.registers);
        for buffer in buffers {
            // SAFETY: nothing uses the buffers of a closed client.
            unsafe { self.driver.unmap(buffer.cpu, buffer.bytes as usize) };
        }
        for fd in self.fds.take().into_iter().chain([self.control]) {
            assert_eq!(self.driver.close(fd), 0, "each file closes");
        }
    }
}
