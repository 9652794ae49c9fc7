//! One descriptor chain and its command: what the device reads, what it writes, and which words are addresses.

use super::queues::{QueueBus, RingAddresses, overlap};
use super::tracking::{AddressWord, BusError, DeviceMemory, read, spend};
use std::ops::Range;
use trace_core::BusAddr;
use trace_core::registers::BusCommand;

/// Flags of a descriptor: another follows; the device writes.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Flag of a descriptor: it refers to a table of further descriptors.
const INDIRECT: u16 = 4;

/// The effects of a chain.
pub(super) struct Chain {
    pub reads: Vec<Range<BusAddr>>,
    pub writes: Vec<Range<BusAddr>>,
    pub words: Vec<AddressWord>,
    /// Number of descriptors.
    pub descriptors: u64,
}

impl Chain {
    /// Follows a chain of queue `number` from its head, through the current memory.
    pub fn walk(
        bus: &QueueBus<'_>,
        number: u16,
        q: &RingAddresses,
        head: u16,
        ground: &dyn DeviceMemory,
    ) -> Result<Self, BusError> {
        let mut chain = Self {
            reads: Vec::new(),
            writes: Vec::new(),
            words: Vec::new(),
            descriptors: 0,
        };
        let mut index = head;
        for _ in 0..q.size {
            let place = || format!("descriptor {index} of queue {number}");
            spend(ground, 4)?;
            chain.descriptors += 1;
            if u64::from(index) >= q.size {
                return BusError::new(format!("{} does not exist: there are {}", place(), q.size));
            }
            let at = q.descriptors.saturating_add(16 * u64::from(index));
            let range = at..at.saturating_add(16);
            let Some(bytes) = read::<16>(ground, at).filter(|_| bus.is_known(&range)) else {
                return BusError::new(format!("{} is memory that the device may have written", place()));
            };
            let [address, rest] = [0, 8].map(|i| word(&bytes, i));
            let address = BusAddr::new(address);
            let (length, flags, next) = (rest & 0xffff_ffff, (rest >> 32) as u16, (rest >> 48) as u16);
            if flags & !(NEXT | WRITE) != 0 {
                let what = match flags & INDIRECT {
                    0 => format!("unknown flags {flags:#x}"),
                    _ => "an indirect descriptor table, which is not supported".to_owned(),
                };
                return BusError::new(format!("{} has {what}", place()));
            }
            if length == 0 || !ground.holds(address, length) {
                return BusError::new(format!(
                    "{} names {length} bytes at {address:#x}, which are not completely in the device's memory",
                    place()
                ));
            }
            let named = address..address.saturating_add(length);
            if flags & WRITE != 0 {
                spend(ground, bus.steps())?;
                if bus.structures().any(|s| overlap(&s, &named)) {
                    return BusError::new(format!(
                        "{} has the device write at {address:#x}, over a queue that it reads addresses from",
                        place()
                    ));
                }
                chain.writes.push(named);
            } else if chain.writes.is_empty() {
                chain.reads.push(named);
            } else {
                return BusError::new(format!(
                    "{} is read by the device, but follows one that the device writes",
                    place()
                ));
            }
            chain.words.push(AddressWord { at, value: address });
            if flags & NEXT == 0 {
                chain.command(bus, number, head, ground)?;
                return Ok(chain);
            }
            index = next;
        }
        BusError::new(format!(
            "the chain from descriptor {head} of queue {number} does not end"
        ))
    }

    /// Processes the command at the start of the chain's buffers, and its addresses.
    fn command(
        &mut self,
        bus: &QueueBus<'_>,
        number: u16,
        head: u16,
        ground: &dyn DeviceMemory,
    ) -> Result<(), BusError> {
        let place = format!("the command at descriptor {head} of queue {number}");
        let text = ChainBytes::new(&self.reads, bus, ground);
        let Some(kind) = text.u32(0) else {
            return BusError::new(format!("{place} has no 4 bytes, or the device may have written them"));
        };
        let known = bus.engine.commands.iter().find(|c| c.number == kind);
        let Some(command) = known else {
            return BusError::new(format!(
                "{place}, {kind:#x}, has no entry in the map that declares its addresses"
            ));
        };
        let (entries, words) = addresses(&text, command, &place)?;
        // No word after the typed ones may be an address.
        let bytes = text.bytes();
        let mut at = 0;
        while at + 8 <= bytes {
            spend(ground, 1)?;
            if !overlap(&entries, &(at..at + 8))
                && let Some((_, value)) = text.u64(at)
                && ground.holds(value, 1)
            {
                return BusError::new(format!(
                    "{place}, {}, carries {value:#x} at byte {at}, which lies in the device's memory, but the map \
                     does not declare it as an address",
                    command.name
                ));
            }
            at += 8;
        }
        self.words.extend(words);
        Ok(())
    }
}

/// Returns the addresses in a command: the range of their list in the command, bytes, and the words.
fn addresses(
    text: &ChainBytes<'_>,
    command: &BusCommand,
    place: &str,
) -> Result<(Range<u64>, Vec<AddressWord>), BusError> {
    let mut words = Vec::new();
    let Some(e) = command.entries else {
        return Ok((0..0, words));
    };
    let name = &command.name;
    let short = || {
        BusError(format!(
            "{place}, {name}, has fewer bytes than entries, or the device may have written them"
        ))
    };
    let count = u64::from(text.u32(e.count_at.into()).ok_or_else(short)?);
    let first = u64::from(e.first_at);
    let end = count.checked_mul(e.bytes.into()).and_then(|b| b.checked_add(first));
    let end = end.filter(|end| *end <= text.bytes()).ok_or_else(short)?;
    for n in 0..count {
        spend(text.ground, 2)?;
        // No overflow: the end of the last entry is in range.
        let entry = first + n * u64::from(e.bytes);
        let (at, value) = text.u64(entry + u64::from(e.address_at)).ok_or_else(short)?;
        let length = text.u32(entry + u64::from(e.length_at)).ok_or_else(short)?;
        if length == 0 || !text.ground.holds(value, length.into()) {
            return BusError::new(format!(
                "entry {n} of {place}, {name}, names {length} bytes at {value:#x}, which are not completely in the \
                 device's memory"
            ));
        }
        words.push(AddressWord { at, value });
    }
    Ok((first..end, words))
}

/// The bytes of a chain's buffers, concatenated.
struct ChainBytes<'a> {
    /// Start offset of each buffer in the concatenation, and its memory range.
    parts: Vec<(u64, &'a Range<BusAddr>)>,
    bytes: u64,
    bus: &'a QueueBus<'a>,
    ground: &'a dyn DeviceMemory,
}

impl<'a> ChainBytes<'a> {
    fn new(buffers: &'a [Range<BusAddr>], bus: &'a QueueBus<'a>, ground: &'a dyn DeviceMemory) -> Self {
        let mut bytes = 0u64;
        let mut parts = Vec::with_capacity(buffers.len());
        for b in buffers {
            parts.push((bytes, b));
            bytes = bytes.saturating_add(b.end - b.start);
        }
        Self {
            parts,
            bytes,
            bus,
            ground,
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the memory address of `bytes` bytes, which must be in one buffer and as the CPU left them.
    fn place(&self, at: u64, bytes: u64) -> Option<BusAddr> {
        let behind = self.parts.partition_point(|(first, _)| *first <= at);
        let (first, buffer) = self.parts.get(behind.checked_sub(1)?)?;
        let from = buffer.start.checked_add(at - first)?;
        let range = from..from.checked_add(bytes)?;
        (range.end <= buffer.end && self.bus.is_known(&range)).then_some(from)
    }

    fn u32(&self, at: u64) -> Option<u32> {
        read::<4>(self.ground, self.place(at, 4)?).map(u32::from_le_bytes)
    }

    /// Returns the word as an address, and the address of the word.
    fn u64(&self, at: u64) -> Option<(BusAddr, BusAddr)> {
        let from = self.place(at, 8)?;
        let value = u64::from_le_bytes(read::<8>(self.ground, from)?);
        Some((from, BusAddr::new(value)))
    }
}

fn word(bytes: &[u8; 16], from: usize) -> u64 {
    let word = bytes.get(from..).and_then(|b| b.first_chunk::<8>());
    word.map_or(0, |w| u64::from_le_bytes(*w))
}
