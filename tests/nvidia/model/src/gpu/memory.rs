//! Memory objects: video memory, system memory, memory of the program, registers, pages of the compute scheduler.

use super::address_space::PAGE_BYTES;
use crate::caller::Caller;
use crate::lock;
use crate::shared_memory::SharedMemory;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

/// What a memory object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    Video,
    System,
    /// Memory of the program that it registered.
    User,
    /// The user-mode page.
    Registers,
    /// The page of the compute scheduler: no memory, but messages.
    Scheduler,
}

/// Where the bytes are.
#[derive(Debug)]
enum Backing {
    File(Arc<SharedMemory>),
    Program { caller: Caller, address: u64 },
    Messages(Mutex<Vec<u64>>),
}

/// A memory object.
#[derive(Debug)]
pub struct Memory {
    pub kind: MemoryKind,
    pub bytes: u64,
    /// Address that programs see: in video memory or on the bus.
    pub address: u64,
    backing: Backing,
}

impl Memory {
    /// Returns memory in a file.
    pub fn new(kind: MemoryKind, address: u64, memory: Arc<SharedMemory>) -> Self {
        Self {
            kind,
            bytes: memory.bytes(),
            address,
            backing: Backing::File(memory),
        }
    }

    /// Returns memory that the program owns.
    pub fn from_program(caller: Caller, address: u64, bytes: u64) -> Self {
        Self {
            kind: MemoryKind::User,
            bytes,
            address,
            backing: Backing::Program { caller, address },
        }
    }

    /// Returns the page of the compute scheduler of an engine object.
    pub fn scheduler_page() -> Self {
        Self {
            kind: MemoryKind::Scheduler,
            bytes: PAGE_BYTES,
            address: 0,
            backing: Backing::Messages(Mutex::default()),
        }
    }

    /// Takes the messages that kernels sent to the compute scheduler, the oldest first.
    pub fn take_messages(&self) -> Vec<u64> {
        match &self.backing {
            Backing::Messages(messages) => std::mem::take(&mut *lock(messages)),
            _ => Vec::new(),
        }
    }

    /// Returns the file that programs map, or `None` for memory without one.
    pub fn fd(&self) -> Option<RawFd> {
        match &self.backing {
            Backing::File(memory) => Some(memory.fd()),
            Backing::Program { .. } | Backing::Messages(_) => None,
        }
    }

    /// Reads bytes. Returns `false` if they are not within the memory.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        match &self.backing {
            Backing::File(memory) => memory.read(offset, out),
            Backing::Program { caller, address } => self
                .program_address(*address, offset, out.len())
                .is_some_and(|at| caller.read(at, out).is_ok()),
            Backing::Messages(_) => false,
        }
    }

    /// Writes bytes. Returns `false` if they are not within the memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        match &self.backing {
            // A word is written at once: programs poll it.
            Backing::File(memory) => match bytes.try_into() {
                Ok(word) if offset.is_multiple_of(4) => memory.store(offset, u32::from_le_bytes(word)),
                _ => memory.write(offset, bytes),
            },
            Backing::Program { caller, address } => self
                .program_address(*address, offset, bytes.len())
                .is_some_and(|at| caller.write(at, bytes).is_ok()),
            Backing::Messages(_) => false,
        }
    }

    /// Adds a value to a number of 64 bits. For the compute scheduler, the value is a message. Returns `false` if the number
    /// is not within the memory.
    pub fn add(&self, offset: u64, value: u64) -> bool {
        if let Backing::Messages(messages) = &self.backing {
            lock(messages).push(value);
            return true;
        }
        let mut bytes = [0; 8];
        let sum = |bytes| u64::from_le_bytes(bytes).wrapping_add(value).to_le_bytes();
        self.read(offset, &mut bytes) && self.write(offset, &sum(bytes))
    }

    fn program_address(&self, address: u64, offset: u64, bytes: usize) -> Option<u64> {
        let end = offset.checked_add(bytes as u64)?;
        (end <= self.bytes).then(|| address.checked_add(offset)).flatten()
    }

    /// Reads a word, or returns `None` if it is not within the memory.
    pub fn read_word(&self, offset: u64) -> Option<u32> {
        let mut word = [0; 4];
        self.read(offset, &mut word).then(|| u32::from_le_bytes(word))
    }
}
