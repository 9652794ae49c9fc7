//! Job slot with the registers of the running chain and of the queued chain, and its current work.

use crate::address_space::{half, set_half};
use crate::registers::exception;
use trace_core::GpuVa;

/// Virtual time of a chain, ns. The model has no timing, so every chain takes this long.
const CHAIN_NS: u64 = 40_000;
/// Virtual time until a stop takes effect, ns.
const STOP_NS: u64 = 5_000;

/// Bits of the configuration register.
mod config {
    pub(super) const ADDRESS_SPACE: u32 = 0xf;
    pub(super) const START_FLUSH: u32 = 3 << 8;
    pub(super) const CHAIN_FLAG: u32 = 1 << 11;
    pub(super) const END_FLUSH: u32 = 3 << 12;
    pub(super) const FLUSH_REDUCTION: u32 = 1 << 14;
    pub(super) const NO_WRITE_BACK: u32 = 1 << 15;
}

/// Setup of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    pub head: GpuVa,
    pub affinity: u64,
    pub config: u32,
    pub xaffinity: u32,
    pub flush_id: u32,
}

impl Setup {
    /// Returns the number of the chain's address space.
    pub(crate) fn address_space(&self) -> usize {
        (self.config & config::ADDRESS_SPACE) as usize
    }

    /// Returns whether status words are written back into the headers.
    pub(crate) fn write_back(&self) -> bool {
        self.config & config::NO_WRITE_BACK == 0
    }

    /// Returns whether the L2 is flushed before the chain. It is not flushed if flush reduction is on and the L2 was
    /// flushed after the driver read the flush id of the chain.
    pub(crate) fn flushes_at_start(&self, latest_flush: u32) -> bool {
        let spared = self.config & config::FLUSH_REDUCTION != 0 && self.flush_id != latest_flush;
        self.config & config::START_FLUSH != 0 && !spared
    }

    /// Returns whether the L2 is flushed after the chain.
    pub(crate) fn flushes_at_end(&self) -> bool {
        self.config & config::END_FLUSH != 0
    }
}

/// Current work of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Idle,
    /// A chain runs until this time.
    Chain(u64),
    /// A chain runs and never ends.
    Hung,
    /// A chain is being stopped: until this time, with the code that will be reported.
    Stopping(u64, u8),
}

/// Registers and state of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobSlot {
    pub current: Setup,
    pub next: Setup,
    /// Whether a chain is queued in the next registers.
    pub queued: bool,
    pub work: Work,
    pub head: GpuVa,
    pub tail: GpuVa,
    pub status: u32,
}

impl Default for JobSlot {
    fn default() -> Self {
        let none = Setup::default();
        Self {
            current: none,
            next: none,
            queued: false,
            work: Work::Idle,
            head: GpuVa::ZERO,
            tail: GpuVa::ZERO,
            status: 0,
        }
    }
}

/// Effect of an access to a register of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotAccess {
    Done,
    /// The write requests the start of the queued chain.
    Start,
    ReadOnly,
    Hole,
    BadCommand,
}

impl JobSlot {
    /// Returns the value of a register, `Err(true)` if it is write-only, or `Err(false)` if it does not exist.
    pub(crate) fn read(&self, offset: u32) -> Result<u32, bool> {
        let high = offset & 4 != 0;
        Ok(match offset {
            0x00 | 0x04 => half(self.head.get(), high),
            0x08 | 0x0c => half(self.tail.get(), high),
            0x10 | 0x14 => half(self.current.affinity, high),
            0x18 => self.current.config,
            0x1c => self.current.xaffinity,
            0x20 => return Err(true),
            0x24 => self.status,
            0x40 | 0x44 => half(self.next.head.get(), high),
            0x50 | 0x54 => half(self.next.affinity, high),
            0x58 => self.next.config,
            0x5c => self.next.xaffinity,
            0x60 => u32::from(self.queued),
            0x70 => self.next.flush_id,
            _ => return Err(false),
        })
    }

    /// Writes a register.
    pub(crate) fn write(&mut self, offset: u32, value: u32, now: u64) -> SlotAccess {
        let high = offset & 4 != 0;
        match offset {
            0x00..=0x1c | 0x24 if offset & 3 == 0 => return SlotAccess::ReadOnly,
            0x20 => return self.command(value, now),
            0x40 | 0x44 => {
                let mut head = self.next.head.get();
                set_half(&mut head, high, value);
                self.next.head = GpuVa::new(head);
            }
            0x50 | 0x54 => set_half(&mut self.next.affinity, high, value),
            0x58 => self.next.config = value,
            0x5c => self.next.xaffinity = value,
            0x60 if value == 1 => {
                self.queued = true;
                return SlotAccess::Start;
            }
            // Removes a queued chain that has not started.
            0x60 if value == 0 => self.queued = false,
            0x60 => return SlotAccess::BadCommand,
            0x70 => self.next.flush_id = value,
            _ => return SlotAccess::Hole,
        }
        SlotAccess::Done
    }

    fn command(&mut self, command: u32, now: u64) -> SlotAccess {
        let flagged = self.current.config & config::CHAIN_FLAG != 0;
        let code = match command {
            0 => return SlotAccess::Done,
            2 => exception::STOPPED,
            3 => exception::TERMINATED,
            // These command pairs address a chain by its flag and do not affect the other chain.
            4 | 5 if flagged => return SlotAccess::Done,
            6 | 7 if !flagged => return SlotAccess::Done,
            4 | 6 => exception::STOPPED,
            5 | 7 => exception::TERMINATED,
            _ => return SlotAccess::BadCommand,
        };
        match self.work {
            Work::Idle => {}
            // A chain that is being soft-stopped can still be hard-stopped.
            Work::Stopping(at, _) => self.work = Work::Stopping(at, code),
            Work::Chain(_) | Work::Hung => self.work = Work::Stopping(now.saturating_add(STOP_NS), code),
        }
        SlotAccess::Done
    }

    /// Starts the queued chain if the slot is free. Returns `true` if it did.
    pub(crate) fn begin(&mut self, now: u64) -> bool {
        if self.work != Work::Idle || !self.queued {
            return false;
        }
        self.queued = false;
        self.current = self.next;
        self.head = self.current.head;
        self.tail = self.current.head;
        self.status = u32::from(exception::ACTIVE);
        self.work = Work::Chain(now.saturating_add(CHAIN_NS));
        true
    }

    /// Returns when the running work ends.
    pub(crate) fn next_at(&self) -> Option<u64> {
        match self.work {
            Work::Chain(at) | Work::Stopping(at, _) => Some(at),
            Work::Idle | Work::Hung => None,
        }
    }

    /// Returns whether a chain is running.
    pub(crate) fn is_active(&self) -> bool {
        self.work != Work::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(config: u32) -> JobSlot {
        let mut s = JobSlot::default();
        s.write(0x40, 0x1000, 0);
        s.write(0x44, 0x7f, 0);
        s.write(0x58, config, 0);
        assert_eq!(s.write(0x60, 1, 0), SlotAccess::Start);
        assert!(s.begin(0));
        s
    }

    #[test]
    fn the_next_registers_move_when_the_slot_is_free() {
        let mut s = started(0x87b00);
        assert_eq!(
            (s.read(0x00), s.read(0x04), s.read(0x24)),
            (Ok(0x1000), Ok(0x7f), Ok(8))
        );
        assert_eq!(s.read(0x60), Ok(0));
        s.write(0x40, 0x2000, 0);
        s.write(0x60, 1, 0);
        assert!(!s.begin(0), "a busy slot must not begin another chain");
        assert_eq!((s.read(0x00), s.read(0x60)), (Ok(0x1000), Ok(1)));
        s.work = Work::Idle;
        assert!(s.begin(0));
        assert_eq!(s.read(0x00), Ok(0x2000));
        assert_eq!(s.write(0x00, 1, 0), SlotAccess::ReadOnly);
        assert_eq!(s.write(0x30, 1, 0), SlotAccess::Hole);
        assert_eq!(s.write(0x60, 9, 0), SlotAccess::BadCommand);
        assert_eq!(s.read(0x20), Err(true));
    }

    #[test]
    fn stops_name_their_chain_by_its_flag() {
        let mut s = started(config::CHAIN_FLAG);
        s.write(0x20, 5, 0);
        assert!(matches!(s.work, Work::Chain(_)));
        s.write(0x20, 6, 0);
        assert_eq!(s.work, Work::Stopping(STOP_NS, exception::STOPPED));
        s.write(0x20, 3, 0);
        assert_eq!(s.work, Work::Stopping(STOP_NS, exception::TERMINATED));
    }

    #[test]
    fn flush_with_current_flush_id_is_skipped() {
        let s = Setup {
            config: 0x87b00,
            flush_id: 5,
            ..Setup::default()
        };
        assert!(s.flushes_at_start(5) && !s.flushes_at_start(6) && s.flushes_at_end());
        assert!(Setup { config: 0x300, ..s }.flushes_at_start(6));
    }
}
