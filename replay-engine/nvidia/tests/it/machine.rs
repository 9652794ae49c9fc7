//! A machine in this process: the model of driver and GPU, and the system calls of a client on it.
#![allow(unsafe_code, reason = "a client's system calls have pointers")]

use crate::work::{CODE_BYTES, Work};
use nvidia_client::{
    Client, ClientError, Control, DriverBranch, Engine, File, Kernel, Mapping, Memory, Place, PlayError, Player,
    SystemError,
};
use nvidia_model::{Errno, Model, ModelUsage, Settings};
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

/// Address of the player's own memory.
pub const CONTROL: Control = Control { va: 0x10_0000_0000 };
/// Addresses of code, data of the GPU, and memory of the machine.
pub const CODE: u64 = 0x2_0000_0000;
pub const VIDEO: u64 = 0x2_0020_0000;
pub const SYSTEM: u64 = 0x3_0200_0000;
/// Bytes of each of them.
pub const BYTES: u64 = CODE_BYTES;
/// The memory of the tests: place and address.
pub const RANGES: [(Place, u64); 3] = [(Place::Video, CODE), (Place::Video, VIDEO), (Place::System, SYSTEM)];
/// Offset of push buffers in the memory of the machine.
const PUSH_BUFFERS: u64 = 0x10_0000;
/// Maximum time of a submission that ends.
pub const LONG: Duration = Duration::from_secs(60);

/// A model, and the number of mappings that clients have.
#[derive(Debug)]
pub struct Machine {
    pub model: Model,
    pub mappings: Cell<usize>,
}

impl Machine {
    pub fn new(settings: Settings) -> Self {
        Self {
            model: Model::new(settings).unwrap(),
            mappings: Cell::new(0),
        }
    }

    /// Returns a machine on which calls and launches fail: see the settings of the model.
    pub fn with_failures(failures: &str) -> Self {
        Self::new(Settings::default().with_failures(failures).unwrap())
    }

    pub fn open(&self, branch: DriverBranch) -> Result<Client<ModelKernel<'_>>, ClientError> {
        let kernel = ModelKernel {
            machine: self,
            start: Instant::now(),
        };
        Client::open(kernel, branch, 0)
    }

    /// Opens the GPU, and creates a player on it.
    pub fn player<'a>(
        &'a self,
        limit: Duration,
        memories: &'a mut [Option<Memory>],
    ) -> Result<Player<'a, ModelKernel<'a>>, ClientError> {
        let client = self.open(DriverBranch::R580)?;
        Player::new(client, CONTROL, limit.as_nanos() as u64, memories)
    }

    /// Asserts that no client has left anything.
    pub fn assert_empty(&self, why: &str) {
        let usage = self.model.usage();
        let empty = ModelUsage {
            polls: usage.polls,
            ..ModelUsage::default()
        };
        assert_eq!((usage, self.mappings.get()), (empty, 0), "{why}");
    }
}

/// Returns the room for ranges of memory.
pub fn room() -> Vec<Option<Memory>> {
    std::iter::repeat_with(|| None).take(16).collect()
}

/// The system calls of a client on the model.
#[derive(Debug)]
pub struct ModelKernel<'a> {
    machine: &'a Machine,
    start: Instant,
}

fn system_error(error: Errno) -> SystemError {
    SystemError(error.0)
}

impl Kernel for ModelKernel<'_> {
    fn open(&mut self, path: &CStr) -> Result<File, SystemError> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let opened = self.machine.model.open(path.to_bytes(), flags);
        opened.expect("the model has the file").map(File).map_err(system_error)
    }

    fn close(&mut self, file: File) {
        let closed = self.machine.model.close(file.0);
        closed.expect("the file is open").unwrap();
    }

    unsafe fn ioctl(&mut self, file: File, request: u32, argument: &mut [u8]) -> Result<(), SystemError> {
        let pointer = argument.as_mut_ptr().cast();
        // SAFETY: as the caller promises.
        let answer = unsafe { self.machine.model.ioctl(file.0, request.into(), pointer) };
        answer.expect("the file is open").map(|_| ()).map_err(system_error)
    }

    fn map(&mut self, file: File, bytes: usize) -> Result<Mapping, SystemError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let model = &self.machine.model;
        // SAFETY: the system chooses the address, so no memory of this process changes.
        let mapped = unsafe { model.mmap(file.0, null_mut(), bytes, protection, libc::MAP_SHARED, 0) };
        let start = mapped.expect("the file is open").map_err(system_error)?;
        self.machine.mappings.set(self.machine.mappings.get() + 1);
        let start = NonNull::new(start.cast()).unwrap();
        // SAFETY: these bytes are mapped at a page; `unmap` takes the value.
        Ok(unsafe { Mapping::from_raw(start, bytes) })
    }

    fn unmap(&mut self, mapping: Mapping) {
        // SAFETY: the mapping ends here, and nothing else refers to its memory.
        unsafe {
            self.machine
                .model
                .munmap(mapping.start().as_ptr().cast(), mapping.len())
        }
        .unwrap();
        self.machine.mappings.set(self.machine.mappings.get() - 1);
    }

    fn now_ns(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Submits words from the memory of the machine.
pub fn submit<K: Kernel>(player: &mut Player<'_, K>, event: u64, words: &[u32]) -> Result<(), PlayError> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    player.write(SYSTEM + PUSH_BUFFERS, &bytes)?;
    player.submit(event, Engine::Compute, SYSTEM + PUSH_BUFFERS, words.len() as u32)
}

/// Maps the memory of the tests, and sets up the compute channel.
pub fn set_up<K: Kernel>(player: &mut Player<'_, K>) -> Result<Work, PlayError> {
    for (place, va) in RANGES {
        player.map(place, va, BYTES)?;
    }
    prepare_channel(player)
}

/// Sets up the compute channel.
pub fn prepare_channel<K: Kernel>(player: &mut Player<'_, K>) -> Result<Work, PlayError> {
    let mut work = Work::new(CODE);
    let words = work.set_up();
    submit(player, 0, &words)?;
    Ok(work)
}

/// Returns 1,000 numbers as bytes: multiples of a step.
pub fn numbers(step: f32) -> Vec<u8> {
    (0..1000u16).flat_map(|n| (f32::from(n) * step).to_le_bytes()).collect()
}

/// Adds numbers on the GPU: copies them from the machine's memory, launches, and reads the sums.
pub fn add_numbers<K: Kernel>(player: &mut Player<'_, K>, work: &mut Work) -> Result<(), PlayError> {
    let [a, b, sums] = [VIDEO, VIDEO + 0x1_0000, VIDEO + 0x2_0000];
    player.write(SYSTEM, &numbers(1.0))?;
    let copy = work.copy(SYSTEM, a, 4000);
    submit(player, 1, &copy)?;
    let upload = work.upload(b, &numbers(2.0));
    submit(player, 2, &upload)?;
    let launch = work.add([a, b, sums], 1000);
    submit(player, 3, &launch)?;
    let mut read = vec![0; 4000];
    player.read(sums, &mut read)?;
    assert_eq!(read, numbers(3.0), "the sums are right");
    Ok(())
}
