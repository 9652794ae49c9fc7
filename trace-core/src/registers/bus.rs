//! The bus-mastering engine of a device: what reads and writes memory by itself, and which registers carry its
//! addresses.

use crate::RegOffset;
use std::ops::Range;

/// How a device gets the addresses that it reads and writes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMaster {
    /// The engine that reads the addresses.
    pub engine: BusEngine,
    /// Why these are all the addresses that the device can get.
    pub why: String,
    /// Why bus mastering is refused nevertheless: a register that carries an address does not have the address type.
    pub refused: Option<String>,
}

/// The engine that reads addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEngine {
    /// Copies between memory and an internal buffer.
    Copy(CopyEngine),
    /// Follows virtio's split rings.
    Virtqueue(QueueEngine),
}

/// A register, or a pair of registers, that carries an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRegister {
    /// Name, without the suffix of the halves for a pair.
    pub name: String,
    /// Offset of the register, or of bits 31 to 0.
    pub low: RegOffset,
    /// Offset of bits 63 to 32, if it is a pair.
    pub high: Option<RegOffset>,
    /// Values that are not bus addresses.
    pub local: Range<u64>,
}

/// An engine that copies between memory and an internal buffer of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEngine {
    /// Source address.
    pub source: AddressRegister,
    /// Destination address.
    pub destination: AddressRegister,
    /// Offset of the register with the number of bytes.
    pub count: RegOffset,
    /// Offset of the register that starts the engine, and reads as started until the copy is done.
    pub command: RegOffset,
    /// The start bit of the command.
    pub start: u64,
    /// The direction bit of the command: from the buffer to memory.
    pub to_memory: u64,
}

/// An engine that follows virtio's split rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEngine {
    /// Offset of the register that resets the device on a write of 0, and reads 0 when the reset is done.
    pub status: RegOffset,
    /// Offset of the register that selects the feature word for `feature`.
    pub feature_select: RegOffset,
    /// Offset of the register that accepts features.
    pub feature: RegOffset,
    /// Features that may be accepted: none of them changes the location of addresses.
    pub features: u64,
    /// The feature that must be accepted if the device is behind an IOMMU; 0 if there is no such feature.
    pub behind_iommu: u64,
    /// Offset of the register that selects the queue of the registers below.
    pub select: RegOffset,
    /// Offset of the register with the number of entries.
    pub size: RegOffset,
    /// Maximum number of entries that the device supports.
    pub most_entries: u16,
    /// Offset of the register that enables the queue.
    pub enable: RegOffset,
    /// Descriptor table.
    pub descriptors: AddressRegister,
    /// Ring that the driver fills.
    pub driver: AddressRegister,
    /// Ring that the device fills.
    pub device: AddressRegister,
    /// Offsets of registers that must not be written while the device is a bus master.
    pub never: Vec<RegOffset>,
    /// Commands that buffers may start with, by ascending number.
    pub commands: Vec<BusCommand>,
}

/// A command in the buffers of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusCommand {
    /// Its first 32 bits.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Position of its addresses, if it carries any.
    pub entries: Option<BusEntries>,
}

/// A list of addresses in a command, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusEntries {
    /// Position of the 32-bit number of entries.
    pub count_at: u32,
    /// Position of the first entry.
    pub first_at: u32,
    /// Size of an entry, bytes.
    pub bytes: u32,
    /// Position of the 64-bit address in an entry.
    pub address_at: u32,
    /// Position of the 32-bit size in an entry.
    pub length_at: u32,
}

impl BusMaster {
    /// Returns the registers that carry addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<&AddressRegister> {
        match &self.engine {
            BusEngine::Copy(c) => vec![&c.source, &c.destination],
            BusEngine::Virtqueue(q) => vec![&q.descriptors, &q.driver, &q.device],
        }
    }
}
