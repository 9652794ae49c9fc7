//! Recorded contents of inputs, and generated contents that show where each input byte went.

use std::collections::BTreeMap;
use trace_core::memory::GpuMemoryView;
use trace_core::recording::{Buffer, Recording};

/// Base of the digits of a byte position. With base 255, no digit turns a byte into its recorded value.
const BASE: u64 = 255;
/// XOR mask that changes every byte from its recorded value.
const OTHER: u8 = 0xff;

/// Inputs of a program, concatenated.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Name, position of the first byte among all inputs, and bytes of each input.
    inputs: Vec<(String, u64, Vec<u8>)>,
    total: u64,
}

impl Contents {
    /// Takes the first contents of these buffers that are not all zeros. They are from the start, or from the first of
    /// these submits at which a buffer has such contents.
    pub fn from_recording(recording: &Recording, buffers: &[&Buffer], submits: &[u64]) -> Self {
        let mut all = Self::default();
        for b in buffers {
            let space = recording.metadata.address_spaces.get(b.address_space as usize);
            let at = |event| {
                let view = GpuMemoryView::new(recording.memory.at(event), space?);
                Some(view.read_buffer(b).bytes)
            };
            let moments = std::iter::once(0).chain(submits.iter().copied());
            let given = moments.filter_map(at).find(|bytes| bytes.iter().any(|b| *b != 0));
            let bytes = given.unwrap_or_else(|| vec![0; usize::try_from(b.bytes).unwrap_or(0)]);
            let start = all.total;
            all.total = all.total.saturating_add(bytes.len() as u64);
            all.inputs.push((b.name.clone(), start, bytes));
        }
        all
    }

    /// Returns how many generated contents identify every byte position, in addition to contents 0.
    pub fn digits(&self) -> u32 {
        let mut reach = 1u64;
        let mut digits = 0;
        while reach <= self.total {
            reach = reach.saturating_mul(BASE);
            digits += 1;
        }
        digits
    }

    /// Returns contents number `n`. Number 0 differs from the recorded contents in every byte. So does every other
    /// number: byte `i` of it differs from byte `i` of number 0 by digit `n - 1` of `i + 1`.
    pub fn pattern(&self, n: u32) -> BTreeMap<String, Vec<u8>> {
        self.xor_each(|at| match n.checked_sub(1) {
            None => OTHER,
            Some(digit) => OTHER ^ ((at + 1) / BASE.pow(digit) % BASE) as u8,
        })
    }

    /// Returns contents of which every byte differs from the recorded byte, without a pattern.
    pub fn random_values(&self) -> BTreeMap<String, Vec<u8>> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        self.xor_each(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8 | 1
        })
    }

    fn xor_each(&self, mut by: impl FnMut(u64) -> u8) -> BTreeMap<String, Vec<u8>> {
        let each = self.inputs.iter().map(|(name, start, bytes)| {
            let changed = bytes.iter().zip(*start..).map(|(b, at)| b ^ by(at)).collect();
            (name.clone(), changed)
        });
        each.collect()
    }

    /// Finds the input byte that `seen` shows, which are the values of one byte under contents 0, 1, …. Returns `None`
    /// if the byte is the same under all contents, and so does not come from an input. Returns `Some(None)` if the byte
    /// changes but is not an input byte.
    pub fn find_input_byte(&self, seen: &[u8]) -> Option<Option<InputByte>> {
        let (first, rest) = seen.split_first()?;
        if rest.iter().all(|v| v == first) {
            return None;
        }
        let number = rest
            .iter()
            .rev()
            .fold(0u64, |n, v| n.saturating_mul(BASE).saturating_add(u64::from(v ^ first)));
        Some(number.checked_sub(1).and_then(|at| {
            let (input, (_, start, bytes)) = self.inputs.iter().enumerate().rfind(|(_, i)| i.1 <= at)?;
            let offset = at - start;
            let recorded = *bytes.get(usize::try_from(offset).ok()?)?;
            (recorded ^ OTHER == *first).then_some(InputByte {
                input: input as u32,
                offset,
                recorded,
            })
        }))
    }
}

/// Byte of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputByte {
    /// Index of the input.
    pub input: u32,
    /// Offset of the byte in the input.
    pub offset: u64,
    /// Recorded value of the byte.
    pub recorded: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Contents {
        let bytes = |n: usize| (0..n).map(|i| (i * 7) as u8).collect::<Vec<_>>();
        let (a, b) = (bytes(70_000), bytes(3));
        Contents {
            total: 70_003,
            inputs: vec![("a".into(), 0, a), ("b".into(), 70_000, b)],
        }
    }

    #[test]
    fn input_patterns_encode_each_byte_position() {
        let c = some();
        assert_eq!(c.digits(), 3, "255² < 70,003");
        let all: Vec<_> = (0..=c.digits()).map(|n| c.pattern(n)).collect();
        for (input, name) in ["a", "b"].into_iter().enumerate() {
            let recorded = &c.inputs[input].2;
            for (i, was) in recorded.iter().enumerate() {
                let seen: Vec<u8> = all.iter().map(|one| one[name][i]).collect();
                assert!(seen.iter().all(|v| v != was), "{name} {i}");
                let input_byte = InputByte {
                    input: input as u32,
                    offset: i as u64,
                    recorded: *was,
                };
                assert_eq!(c.find_input_byte(&seen), Some(Some(input_byte)));
            }
            assert!(c.random_values()[name].iter().zip(recorded).all(|(a, b)| a != b));
        }
    }

    #[test]
    fn constant_and_unexplained_bytes_are_distinguished() {
        let c = some();
        assert_eq!(c.find_input_byte(&[5, 5, 5, 5]), None);
        assert_eq!(
            c.find_input_byte(&[5, 5, 5, 250]),
            Some(None),
            "the position is beyond all inputs"
        );
        assert_eq!(
            c.find_input_byte(&[1, 0, 1, 1]),
            Some(None),
            "byte 0 of `a` is 0xff under number 0"
        );
        assert_eq!(Contents::default().digits(), 0);
        assert_eq!(Contents::default().find_input_byte(&[7]), None);
    }
}
