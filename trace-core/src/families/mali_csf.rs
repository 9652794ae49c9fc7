//! Mali GPUs with a command stream front end (Valhall's second generation and later), from dumps of their queues: the
//! instructions of a stream, with the registers that they set.
//!
//! An instruction has 64 bits. The front end has registers of 32 bits; two form an address. Facts: Mesa's description
//! of the tenth architecture (`v10.xml`).

mod instructions;
use super::command_streams::{BufferContents, CommandSink, MAX_DEPTH, StreamFamily, StreamState, StreamSummary};
use crate::GpuVa;
use instructions::{describe_instruction, opcode};

/// Value of [`Identity::source`](crate::recording::Identity::source) for a device core dump of panthor.
pub const CORE_DUMP: &str = "panthor-devcoredump";

/// The family.
pub(super) static FAMILY: StreamFamily = StreamFamily {
    name: "mali-csf",
    title: "Arm Mali (command stream front end)",
    drivers: &["panthor"],
    queue_job_type: |_| "command stream",
    sources: &[CORE_DUMP],
};

/// Number of registers that an instruction can name.
const REGISTERS: usize = 256;
/// Size of an instruction, bytes.
const INSTRUCTION_BYTES: u64 = 8;

/// Decodes `instructions`, which follow each other from `at` on: those of a ring, which begins again at its end.
/// Calls, jumps and branches are followed as far as their registers are known. A register's offset is four times its
/// number.
#[must_use]
pub fn decode_instructions(
    memory: &BufferContents,
    at: GpuVa,
    instructions: &[u64],
    max_words: u64,
    sink: &mut dyn CommandSink,
) -> StreamSummary {
    let mut queue = Queue {
        state: StreamState::new(memory, sink, max_words),
        registers: [None; REGISTERS],
    };
    queue.run(at, instructions, 0);
    queue.state.summary
}

/// A command stream that runs.
struct Queue<'a> {
    state: StreamState<'a>,
    /// The known values of the registers.
    registers: [Option<u32>; REGISTERS],
}

impl Queue<'_> {
    fn run(&mut self, at: GpuVa, all: &[u64], depth: u8) {
        let mut next = 0usize;
        while let Some(&word) = all.get(next) {
            if !self.state.count(2) {
                return;
            }
            let here = at.saturating_add(next as u64 * INSTRUCTION_BYTES);
            next += 1;
            let field = |start: u32, bits: u32| word >> start & ((1 << bits) - 1);
            let register = |start: u32| field(start, 8) as usize;
            let immediate = word as u32;
            let offset = i64::from(word as u16 as i16);
            let is_instruction = match describe_instruction(word) {
                Some(text) => {
                    // Moves are writes of registers already.
                    if !matches!(word >> 56, opcode::NOP | opcode::MOVE48 | opcode::MOVE32) {
                        let text = self.add_values(word >> 56, text);
                        self.state.command(here, text);
                    }
                    true
                }
                None => false,
            };
            match word >> 56 {
                _ if !is_instruction => self.state.summary.unknown += 1,
                opcode::MOVE48 => self.set_pair(register(48), Some(field(0, 48))),
                opcode::MOVE32 => self.set(register(48), Some(immediate)),
                opcode::ADD_IMMEDIATE32 => {
                    let sum = self.get(register(40)).map(|v| v.wrapping_add(immediate));
                    self.set(register(48), sum);
                }
                opcode::ADD_IMMEDIATE64 => {
                    let addend = i64::from(immediate as i32) as u64;
                    let sum = self.get_pair(register(40)).map(|v| v.wrapping_add(addend));
                    self.set_pair(register(48), sum);
                }
                opcode::COMPARE_SELECT32 => {
                    let least = self.get(register(40)).zip(self.get(register(32)));
                    self.set(register(48), least.map(|(a, b)| a.min(b)));
                }
                opcode::LOAD_MULTIPLE => {
                    let from = self.get_pair(register(40)).map(|a| a.wrapping_add_signed(offset));
                    self.load(from, register(48), field(16, 16));
                }
                opcode::PROGRESS_LOAD => self.set_pair(register(48), None),
                opcode::BRANCH => {
                    let value = self.get(register(40)).map(|v| v as i32);
                    if is_met(field(28, 3), value) == Some(true) {
                        // The offset counts instructions from the next one.
                        let target = i64::try_from(next).ok().and_then(|n| n.checked_add(offset));
                        match target.and_then(|t| usize::try_from(t).ok()) {
                            Some(target) => next = target,
                            None => {
                                self.state.summary.missing += 1;
                                return;
                            }
                        }
                    }
                }
                opcode::CALL => self.call(register(40), register(32), depth),
                opcode::JUMP => {
                    self.call(register(40), register(32), depth);
                    return;
                }
                _ => {}
            }
        }
    }

    fn get(&self, register: usize) -> Option<u32> {
        self.registers.get(register).copied().flatten()
    }

    fn get_pair(&self, register: usize) -> Option<u64> {
        let (low, high) = (self.get(register)?, self.get(register + 1)?);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    fn set(&mut self, register: usize, value: Option<u32>) {
        if let Some(known) = self.registers.get_mut(register) {
            *known = value;
        }
        if let Some(value) = value {
            self.state.write(register as u64 * 4, value);
        }
    }

    fn set_pair(&mut self, register: usize, value: Option<u64>) {
        self.set(register, value.map(|v| v as u32));
        self.set(register + 1, value.map(|v| (v >> 32) as u32));
    }

    /// Loads the registers of a mask from an address on, as far as memory is known.
    fn load(&mut self, from: Option<u64>, base: usize, mask: u64) {
        let words = from.map_or_else(Vec::new, |from| self.state.words(GpuVa::new(from), 16));
        for n in (0..16).filter(|n| mask >> n & 1 == 1) {
            self.set(base + n, words.get(n).copied());
        }
    }

    /// Runs the instructions at an address in a register pair, whose size in bytes is in another register.
    fn call(&mut self, address: usize, length: usize, depth: u8) {
        let target = self.get_pair(address).zip(self.get(length));
        let Some((address, bytes)) = target.filter(|_| depth < MAX_DEPTH) else {
            self.state.summary.missing += 1;
            return;
        };
        let at = GpuVa::new(address);
        let words = self.state.words(at, u64::from(bytes) / 4);
        if (words.len() as u64) < u64::from(bytes) / 4 {
            self.state.summary.missing += 1;
        }
        self.run(at, &join_words(&words), depth + 1);
    }

    /// Adds the values of registers that an instruction reads, as far as they are known.
    fn add_values(&self, code: u64, text: String) -> String {
        let values: Vec<String> = match code {
            opcode::RUN_COMPUTE => {
                let counts: Option<Vec<String>> = (37..40).map(|r| self.get(r).map(|v| v.to_string())).collect();
                let shader = self.get_pair(16).map(|v| format!("shader at {v:#x}"));
                let counts = counts.map(|c| format!("{} workgroups", c.join(" × ")));
                shader.into_iter().chain(counts).collect()
            }
            _ => return text,
        };
        match values.is_empty() {
            true => text,
            false => format!("{text} ({})", values.join(", ")),
        }
    }
}

/// Returns whether the condition of a branch is met, or `None` if its value is unknown.
fn is_met(condition: u64, value: Option<i32>) -> Option<bool> {
    let value = match condition {
        6 => 0,
        _ => value?,
    };
    Some(match condition {
        0 => value <= 0,
        1 => value > 0,
        2 => value == 0,
        3 => value != 0,
        4 => value < 0,
        5 => value >= 0,
        6 => true,
        _ => false,
    })
}

/// Joins words to instructions.
#[must_use]
pub fn join_words(words: &[u32]) -> Vec<u64> {
    let join = |pair: &[u32]| pair.iter().rev().fold(0, |n, w| n << 32 | u64::from(*w));
    words.chunks_exact(2).map(join).collect()
}

#[cfg(test)]
mod tests;
