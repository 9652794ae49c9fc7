//! Command streams of Adreno GPUs, decoded for register writes: packets of type 0 and 4, some of type 3 and 7, and
//! packets that lead to further commands.
//!
//! Facts: Mesa's `adreno_pm4.xml` and the comments of its decoder. Nothing is computed: a value that a packet takes
//! from memory or from another register is unknown, and conditions count as true.

use std::collections::BTreeMap;
use trace_core::GpuVa;

/// Maximum nesting depth of indirect commands; the hardware has less.
const MAX_DEPTH: u8 = 8;
/// Number of registers that a packet can address.
pub(crate) const REGISTERS: u32 = 1 << 19;

/// Draw modes that a state group can apply to, one bit each: binning, each bin, direct rendering.
const BINNING: u32 = 1;
const BINS: u32 = 2;
const DIRECT: u32 = 4;

// Packet numbers of type 3 and 7; a comment gives the generations that have them, if not all do.
const INDIRECT_BUFFER: u32 = 0x3f;
const INDIRECT_BUFFER_PFD: u32 = 0x37;
const INDIRECT_BUFFER_CHAIN: u32 = 0x57; // 5 on
const SET_CONSTANT: u32 = 0x2d; // 2
const REG_RMW: u32 = 0x21;
const MEM_TO_REG: u32 = 0x42;
const SCRATCH_TO_REG: u32 = 0x4d;
const SET_DRAW_STATE: u32 = 0x43; // 4 on
const WIDE_REG_WRITE: u32 = 0x74; // 4
const CONTEXT_REG_BUNCH: u32 = 0x5c; // 5 on
const CONTEXT_REG_BUNCH2: u32 = 0x5d; // 7 on
const REG_WRITE: u32 = 0x6d; // 6 on
const SET_MARKER: u32 = 0x65; // 6 on
const SET_RENDER_MODE: u32 = 0x6c; // 5
const COMPUTE_CHECKPOINT: u32 = 0x6e; // 5
const START_BIN: u32 = 0x50; // 6 on
const DRAW_TABLE: u32 = 0x7f; // 7 on
const CONDITIONS: [u32; 4] = [0x44, 0x47, 0x3a, 0x32];
/// Draws and dispatches: pending state groups are loaded before them.
const DRAWS: [u32; 8] = [0x22, 0x38, 0x28, 0x29, 0x2a, 0x24, 0x33, 0x41];
const DRAW_INDX_2: u32 = 0x36; // 2 to 4; later it loads state

/// The results of a command walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkSummary {
    /// Number of packets, repeated executions included.
    pub packets: u64,
    /// Number of draws and dispatches.
    pub draws: u64,
    /// Number of packets that write registers with values that are not in the packet.
    pub computed: u64,
    /// Number of packets that make following commands conditional.
    pub conditions: u64,
    /// Number of indirect commands that are not in the file.
    pub missing: u64,
    /// Number of words that start no packet.
    pub no_packet: u64,
    /// Whether the walk ended early: the commands lead to more commands than a file of this size can hold.
    pub endless: bool,
}

/// A register write.
pub(crate) struct RegisterWrite {
    /// Number of the register: its byte offset divided by four.
    pub register: u32,
    pub value: u32,
}

/// Buffers with their contents, by address.
pub(crate) type Buffers = BTreeMap<GpuVa, Vec<u8>>;

/// A state group that draws load.
#[derive(Clone, Copy)]
struct Group {
    at: GpuVa,
    words: u32,
    modes: u32,
}

/// Executes command streams.
pub(crate) struct Walk<'a> {
    buffers: &'a Buffers,
    generation: u32,
    modes: u32,
    groups: [Option<Group>; 32],
    /// Number of words left before the walk counts as endless.
    left: u64,
    pub walked: WalkSummary,
    write: &'a mut dyn FnMut(RegisterWrite),
}

impl<'a> Walk<'a> {
    /// Creates a walk of commands in `buffers` for a GPU of this generation. `modes` is the result of the previous
    /// walk, or [`every_mode`].
    pub(crate) fn new(
        buffers: &'a Buffers,
        generation: u32,
        modes: u32,
        left: u64,
        write: &'a mut dyn FnMut(RegisterWrite),
    ) -> Self {
        Self {
            buffers,
            generation,
            modes,
            groups: [None; 32],
            left,
            walked: WalkSummary::default(),
            write,
        }
    }

    /// Returns the summary, the modes at the end, and the number of words left.
    pub(crate) fn end(self) -> (WalkSummary, u32, u64) {
        (self.walked, self.modes, self.left)
    }

    /// Executes `words` words at an address.
    pub(crate) fn commands(&mut self, at: GpuVa, words: u32) {
        self.run(at, words, 0);
    }

    /// Returns the bytes of a buffer from an address on.
    fn bytes(&self, at: GpuVa) -> Option<&'a [u8]> {
        let (start, contents) = self.buffers.range(..=at).next_back()?;
        let rest = contents.get(usize::try_from(at - *start).ok()?..)?;
        (!rest.is_empty()).then_some(rest)
    }

    fn run(&mut self, at: GpuVa, words: u32, depth: u8) {
        let Some(bytes) = self.bytes(at).filter(|_| depth < MAX_DEPTH) else {
            self.walked.missing += u64::from(words > 0);
            return;
        };
        let there = u32::try_from(bytes.len() / 4).unwrap_or(u32::MAX);
        if there < words {
            self.walked.missing += 1;
        }
        let all: Vec<u32> = bytes
            .chunks_exact(4)
            .take(words as usize)
            .map(super::sections::word)
            .collect();
        self.execute(&all, depth);
    }

    /// Executes words that need not follow each other in memory: those of a ring.
    pub(crate) fn ring_words(&mut self, words: &[u32]) {
        self.execute(words, 0);
    }

    fn execute(&mut self, all: &[u32], depth: u8) {
        let mut next = 0usize;
        while let Some(&header) = all.get(next) {
            if self.left == 0 {
                self.walked.endless = true;
                return;
            }
            let Some((packet, count)) = packet(header) else {
                self.walked.no_packet += 1;
                // From generation 5 on headers have parity bits, so the next header can be found after an error;
                // before, it cannot.
                if self.generation < 5 {
                    return;
                }
                self.left -= 1;
                next += 1;
                continue;
            };
            self.walked.packets += 1;
            let from = next + 1;
            let end = from.saturating_add(count as usize).min(all.len());
            let words = all.get(from..end).unwrap_or_default();
            self.left = self.left.saturating_sub(1 + words.len() as u64);
            match packet {
                Packet::Nop => {}
                Packet::Registers(first) => self.registers(first, words),
                Packet::Opcode(opcode) => self.opcode(opcode, words, depth),
            }
            next = from + count as usize;
        }
    }

    fn registers(&mut self, first: u32, values: &[u32]) {
        for (n, value) in (0u32..).zip(values) {
            self.one(first.saturating_add(n), *value);
        }
    }

    fn one(&mut self, register: u32, value: u32) {
        if register < REGISTERS {
            (self.write)(RegisterWrite { register, value });
        }
    }

    fn opcode(&mut self, opcode: u32, words: &[u32], depth: u8) {
        let generation = self.generation;
        let word = |n: usize| words.get(n).copied().unwrap_or(0);
        let wide = |n: usize| GpuVa::new(u64::from(word(n + 1)) << 32 | u64::from(word(n)));
        if DRAWS.contains(&opcode) || (opcode == DRAW_INDX_2 && generation < 5) {
            self.walked.draws += 1;
            // Taken out first, so that a group cannot load groups again.
            for group in std::mem::take(&mut self.groups) {
                self.load(group, depth);
            }
            return;
        }
        match opcode {
            INDIRECT_BUFFER | INDIRECT_BUFFER_PFD | INDIRECT_BUFFER_CHAIN if generation >= 5 => {
                self.run(wide(0), word(2), depth + 1);
            }
            INDIRECT_BUFFER | INDIRECT_BUFFER_PFD => self.run(GpuVa::new(u64::from(word(0))), word(1), depth + 1),
            SET_DRAW_STATE if generation >= 4 => self.draw_state(words, depth),
            // Kind 4 is registers; if the top bit is set, the value is added to that of another register.
            SET_CONSTANT if generation == 2 && word(0) >> 16 & 0xf == 4 => {
                if word(0) >> 31 == 1 {
                    self.walked.computed += 1;
                } else {
                    self.registers((word(0) & 0xffff) + 0x2000, words.get(1..).unwrap_or_default());
                }
            }
            WIDE_REG_WRITE if generation == 4 => {
                self.registers(word(0) & 0xffff, words.get(1..).unwrap_or_default());
            }
            REG_WRITE if generation >= 6 => self.one(word(1) & 0xffff, word(2)),
            CONTEXT_REG_BUNCH if generation >= 5 => self.pairs(words),
            CONTEXT_REG_BUNCH2 if generation >= 7 => self.pairs(words.get(2..).unwrap_or_default()),
            SET_MARKER if generation >= 6 && word(0) >> 8 & 1 == 0 => match word(0) & 0xf {
                1 => self.modes = DIRECT,
                2 => self.modes = BINNING,
                4 => self.modes = BINS,
                _ => {}
            },
            SET_RENDER_MODE if generation == 5 && words.len() == 8 => self.run(wide(6), word(5), depth + 1),
            COMPUTE_CHECKPOINT if generation == 5 && words.len() >= 7 => {
                let length = word(if words.len() == 8 { 7 } else { 4 });
                self.run(wide(5), length, depth + 1);
            }
            START_BIN if generation >= 6 => self.repeated(wide(1), word(3), word(0), depth),
            DRAW_TABLE if generation >= 7 => self.repeated(wide(0), word(2) >> 20, word(3), depth),
            REG_RMW | MEM_TO_REG | SCRATCH_TO_REG => self.walked.computed += 1,
            o if CONDITIONS.contains(&o) => self.walked.conditions += 1,
            _ => {}
        }
    }

    fn pairs(&mut self, words: &[u32]) {
        for pair in words.chunks_exact(2) {
            if let [register, value] = pair {
                self.one(*register, *value);
            }
        }
    }

    /// Executes consecutive command buffers, one for each bin or draw.
    fn repeated(&mut self, at: GpuVa, words: u32, times: u32, depth: u8) {
        for n in 0..u64::from(times) {
            if self.left == 0 {
                self.walked.endless = true;
                return;
            }
            self.left -= 1;
            self.run(at.saturating_add(n * u64::from(words) * 4), words, depth + 1);
        }
    }

    /// Sets, removes or loads state groups.
    fn draw_state(&mut self, words: &[u32], depth: u8) {
        let each = if self.generation >= 5 { 3 } else { 2 };
        for group in words.chunks_exact(each) {
            let word = |n: usize| group.get(n).copied().unwrap_or(0);
            let (flags, id) = (word(0) >> 16 & 0xf, (word(0) >> 24 & 0x1f) as usize);
            let set = Group {
                at: GpuVa::new(u64::from(word(2)) << 32 | u64::from(word(1))),
                words: word(0) & 0xffff,
                modes: word(0) >> 20 & 0xf,
            };
            // Bit 2 removes all groups, bit 1 removes this one, bit 3 loads it at once.
            if flags & 4 != 0 {
                self.groups = [None; 32];
                continue;
            }
            let set = (flags & 2 == 0).then_some(set);
            let at_once = flags & 8 != 0;
            if let Some(slot) = self.groups.get_mut(id) {
                *slot = set.filter(|_| !at_once);
            }
            if at_once {
                self.load(set, depth);
            }
        }
    }

    fn load(&mut self, group: Option<Group>, depth: u8) {
        let Some(group) = group else { return };
        if group.words > 0 && (self.generation < 6 || group.modes & self.modes != 0) {
            self.run(group.at, group.words, depth + 1);
        }
    }
}

/// Returns all draw modes: the state before commands set one.
pub(crate) fn every_mode() -> u32 {
    BINNING | BINS | DIRECT
}

/// Whether a word is the header of a packet with its parity bits, which GPUs have from the fifth generation on.
pub(crate) fn is_checked_header(word: u32) -> bool {
    matches!(word >> 28, 4 | 7) && packet(word).is_some()
}

enum Packet {
    Nop,
    /// Writes consecutive registers from this one on.
    Registers(u32),
    Opcode(u32),
}

/// Decodes a packet header. Returns the packet and the number of words that follow.
fn packet(header: u32) -> Option<(Packet, u32)> {
    let odd = |bits: u32| bits.count_ones().is_multiple_of(2);
    let bit = |n: u32| header >> n & 1 == 1;
    let count = (header >> 16 & 0x3fff) + 1;
    match header >> 28 {
        0..=3 => Some((Packet::Registers(header & 0x7fff), count)),
        8 if header == 0x8000_0000 => Some((Packet::Nop, 0)),
        12..=15 if header & 0x80fe == 0 => Some((Packet::Opcode(header >> 8 & 0xff), count)),
        4 => {
            let (register, count) = (header >> 8 & 0x7ffff, header & 0x7f);
            (bit(27) == odd(register) && bit(7) == odd(count)).then_some((Packet::Registers(register), count))
        }
        7 if header >> 24 & 0xf == 0 => {
            let (opcode, count) = (header >> 16 & 0x7f, header & 0x3fff);
            (bit(23) == odd(opcode) && bit(15) == odd(count)).then_some((Packet::Opcode(opcode), count))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(generation: u32, buffers: &[(u64, &[u32])]) -> (Vec<(u32, u32)>, WalkSummary) {
        let buffers: Buffers = buffers
            .iter()
            .map(|(at, words)| (GpuVa::new(*at), words.iter().flat_map(|w| w.to_le_bytes()).collect()))
            .collect();
        let mut writes = Vec::new();
        let mut write = |w: RegisterWrite| writes.push((w.register, w.value));
        let (first, contents) = buffers.first_key_value().unwrap();
        let mut walk = Walk::new(&buffers, generation, every_mode(), 10_000, &mut write);
        walk.commands(*first, (contents.len() / 4) as u32);
        let walked = walk.end().0;
        (writes, walked)
    }

    /// Returns the headers with their parity bits.
    fn type4(register: u32, count: u32) -> u32 {
        let odd = |b: u32| u32::from(b.count_ones().is_multiple_of(2));
        4 << 28 | odd(register) << 27 | register << 8 | odd(count) << 7 | count
    }

    fn type7(opcode: u32, count: u32) -> u32 {
        let odd = |b: u32| u32::from(b.count_ones().is_multiple_of(2));
        7 << 28 | odd(opcode) << 23 | opcode << 16 | odd(count) << 15 | count
    }

    #[test]
    fn packets_write_registers_and_follow_indirect_buffers() {
        assert_eq!(type4(0xbb08, 1), 0x40bb_0801, "as Mesa's reference prints it");
        assert_eq!(type7(0x46, 1), 0x7046_0001);
        let second = [type4(0x30, 1), 9, type7(REG_WRITE, 3), 0, 0x40, 5];
        let first = [
            type4(0x10, 2),
            1,
            2,
            type7(INDIRECT_BUFFER, 3),
            0x9000,
            0,
            6,
            type7(CONTEXT_REG_BUNCH, 4),
            7,
            8,
            7,
            9,
        ];
        let (writes, walked) = walk(6, &[(0x1000, &first), (0x9000, &second)]);
        assert_eq!(writes, [(0x10, 1), (0x11, 2), (0x30, 9), (0x40, 5), (7, 8), (7, 9)]);
        assert_eq!((walked.packets, walked.missing, walked.endless), (5, 0, false));
        // Older GPUs: type 0 and type 3, and addresses of one word.
        let first = [
            1 << 16 | 0x10,
            1,
            2,
            0xc000_0000 | 1 << 16 | INDIRECT_BUFFER << 8,
            0x9000,
            2,
        ];
        let (writes, _) = walk(3, &[(0x1000, &first), (0x9000, &[0x30, 7])]);
        assert_eq!(writes, [(0x10, 1), (0x11, 2), (0x30, 7)]);
    }

    #[test]
    fn groups_of_state_are_loaded_by_the_next_draw_of_their_mode() {
        let group = [type4(0x10, 1), 1];
        let set = |modes: u32| [type7(SET_DRAW_STATE, 3), 1 << 24 | modes << 20 | 2, 0x9000, 0];
        let draw = [type7(0x38, 3), 0, 0, 0];
        let marker = [type7(SET_MARKER, 1), 2];
        let all = |modes| [&marker[..], &set(modes), &draw, &draw].concat();
        let (writes, walked) = walk(6, &[(0x1000, &all(BINNING)), (0x9000, &group)]);
        assert_eq!((writes, walked.draws), (vec![(0x10, 1)], 2));
        assert!(walk(6, &[(0x1000, &all(BINS)), (0x9000, &group)]).0.is_empty());
    }

    #[test]
    fn recursive_indirect_buffers_are_bounded() {
        let again = [
            type7(INDIRECT_BUFFER, 3),
            0x1000,
            0,
            8,
            type7(INDIRECT_BUFFER, 3),
            0x1000,
            0,
            8,
        ];
        let (_, walked) = walk(6, &[(0x1000, &again)]);
        assert!(walked.packets < 10_000 && walked.missing > 0);
        let bins = [type7(START_BIN, 4), u32::MAX, 0x1000, 0, 5];
        assert!(walk(6, &[(0x1000, &bins)]).1.endless);
        // Invalid words are skipped, and truncated commands are reported.
        let (writes, walked) = walk(6, &[(0x1000, &[0xffff_ffff, type4(0x10, 3), 1])]);
        assert_eq!((writes, walked.no_packet), (vec![(0x10, 1)], 1));
    }
}
