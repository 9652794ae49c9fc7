//! Inlined device accesses in the driver's own functions, if no accessor is left to probe: the arm64 loads and stores
//! next to the barriers of the kernel's `readl` and `writel`. Each gets a probe of its own.
//!
//! The kernel orders a read by `dmb oshld` after the load, a write by `dmb oshst` before the store (its
//! `arch/arm64/include/asm/io.h`). The `_relaxed` accessors have no barrier and look like any other memory access: they
//! are not found. Encodings: Arm Architecture Reference Manual, C6.2 (LDR, STR, LDAR, DMB).

use crate::probes::{GROUP, Probe};
use std::fmt::Write as _;

/// `dmb oshld` and `dmb oshst`.
const AFTER_READ: u32 = 0xd503_31bf;
const BEFORE_WRITE: u32 = 0xd503_32bf;
/// Maximum number of instructions between the barrier and the store: they load the value into its register.
const MAX_INSTRUCTIONS_BETWEEN: usize = 4;
/// Number of the zero register.
const ZERO: u32 = 31;

/// A load or store of a device's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessInstruction {
    /// Offset in the function, bytes.
    pub at: u64,
    /// The access is a store.
    pub write: bool,
    /// Size of the access, bytes: 1, 2, 4 or 8.
    pub width: u8,
    /// Number of the register that holds the address; 31 is the stack pointer.
    pub base: u8,
    /// Constant offset that is added to it.
    pub offset: u64,
    /// Number of the value's register; 31 if the value is zero or unused.
    pub value: u8,
}

/// The error of a function whose accesses cannot be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadAcquireError;

/// Decodes a load or store of one register at a base register and a constant; the second value is `true` for a load.
fn decode_plain(word: u32, at: u64) -> Option<(AccessInstruction, bool)> {
    // size:2 111 0 01 opc:2 imm12 Rn Rt; opc 00 is a store, 01 a load without sign extension.
    if word & 0x3f80_0000 != 0x3900_0000 {
        return None;
    }
    let size = word >> 30;
    let load = word & 0x0040_0000 != 0;
    let instruction = AccessInstruction {
        at,
        write: !load,
        width: 1 << size,
        base: (word >> 5 & 31) as u8,
        offset: u64::from(word >> 10 & 0xfff) << size,
        value: (word & 31) as u8,
    };
    Some((instruction, load))
}

/// Returns whether an instruction is a load-acquire (LDAR), which the kernel uses for device loads on a Cortex-A57.
fn is_load_acquire(word: u32) -> bool {
    word & 0x3fff_fc00 == 0x08df_fc00
}

/// Returns the device register loads and stores in a function's code, in code order.
///
/// # Errors
/// Returns an error if the function reads by load-acquires, after which the kernel allows no probe.
pub fn find_accesses(code: &[u8]) -> Result<Vec<AccessInstruction>, LoadAcquireError> {
    let words: Vec<u32> = code
        .chunks_exact(4)
        .map(|c| c.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b)))
        .collect();
    let at = |n: usize| 4 * n as u64;
    let mut all = Vec::new();
    for (n, word) in words.iter().enumerate() {
        match *word {
            AFTER_READ => {
                let Some((before, load)) = n.checked_sub(1).and_then(|b| Some((b, *words.get(b)?))) else {
                    continue;
                };
                if is_load_acquire(load) {
                    return Err(LoadAcquireError);
                }
                all.extend(decode_plain(load, at(before)).filter(|p| p.1).map(|p| p.0));
            }
            BEFORE_WRITE => {
                let behind = (n + 1..words.len()).take(MAX_INSTRUCTIONS_BETWEEN);
                let store = behind
                    .filter_map(|b| decode_plain(*words.get(b)?, at(b)))
                    .find(|p| !p.1);
                all.extend(store.map(|p| p.0));
            }
            _ => {}
        }
    }
    all.sort_by_key(|a| a.at);
    all.dedup();
    Ok(all)
}

impl AccessInstruction {
    /// Returns its probes, in code at the host address `code`: at a store, or at a load and at the next instruction, where
    /// the value is available. The importer recognizes them by their fields.
    pub(crate) fn build_probes(&self, number: usize, code: u64) -> Vec<Probe> {
        let register = |n: u8| match u32::from(n) {
            ZERO => "%sp".to_owned(),
            n => format!("%x{n}"),
        };
        let bits = 8 * u32::from(self.width);
        let place = code.saturating_add(self.at);
        let probe = |name: String, line: String| Probe {
            name,
            line,
            filter: String::new(),
        };
        let value = match u32::from(self.value) {
            ZERO => "\\0".to_owned(),
            n => format!("%x{n}"),
        };
        let name = format!("insn{number}");
        let mut line = format!("p:{GROUP}/{name} {place:#x} at={}:x64", register(self.base));
        if self.offset != 0 {
            let _ = write!(line, " more=\\{}:u64", self.offset);
        }
        if self.write {
            let _ = write!(line, " st{bits}={value}:x{bits}");
            return vec![probe(name, line)];
        }
        let behind = format!(
            "p:{GROUP}/{name}_ret {:#x} ld{bits}={value}:x{bits}",
            place.saturating_add(4)
        );
        vec![probe(name.clone(), line), probe(format!("{name}_ret"), behind)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// `pl031_interrupt` of Debian's arm64 kernel 6.1, in its version for a Cortex-A72.
    const INTERRUPT: [u32; 14] = [
        0xf940_0820, // ldr x0, [x1, #16]
        0x9100_6000, // add x0, x0, #0x18
        0xb940_0000, // ldr w0, [x0]
        AFTER_READ,
        0x2a00_03e2, // mov w2, w0
        0xca02_0042, // eor x2, x2, x2
        0xb500_0002, // cbnz x2, .
        0x1200_0013, // and w19, w0, #1
        0xf940_0820, // ldr x0, [x1, #16]
        0x9100_7000, // add x0, x0, #0x1c
        BEFORE_WRITE,
        0x5280_0022, // mov w2, #1
        0xb900_0002, // str w2, [x0]
        0xf940_0420, // ldr x0, [x1, #8]
    ];

    #[test]
    fn loads_and_stores_next_to_barriers_are_found() {
        let all = find_accesses(&code(&INTERRUPT)).unwrap();
        let load = AccessInstruction {
            at: 8,
            write: false,
            width: 4,
            base: 0,
            offset: 0,
            value: 0,
        };
        let store = AccessInstruction {
            at: 48,
            write: true,
            value: 2,
            ..load
        };
        assert_eq!(all, [load, store]);
        let lines: Vec<_> = all
            .iter()
            .zip(1..)
            .flat_map(|(a, n)| a.build_probes(n, 0xffff_0000))
            .map(|p| p.line)
            .collect();
        assert_eq!(
            lines,
            [
                "p:kinescope/insn1 0xffff0008 at=%x0:x64",
                "p:kinescope/insn1_ret 0xffff000c ld32=%x0:x32",
                "p:kinescope/insn2 0xffff0030 at=%x0:x64 st32=%x2:x32"
            ]
        );
    }

    #[test]
    fn store_probes_have_width_offset_and_zero_register() {
        // strb wzr, [x3, #5]; str x4, [x5, #24]; then a load with sign extension, which the kernel does not use.
        let all = find_accesses(&code(&[
            BEFORE_WRITE,
            0x3900_147f,
            BEFORE_WRITE,
            0xf900_0ca4,
            0xb980_0000,
            AFTER_READ,
        ]))
        .unwrap();
        let lines: Vec<_> = all.iter().flat_map(|a| a.build_probes(0, 0)).map(|p| p.line).collect();
        assert_eq!(
            lines,
            [
                "p:kinescope/insn0 0x4 at=%x3:x64 more=\\5:u64 st8=\\0:x8",
                "p:kinescope/insn0 0xc at=%x5:x64 more=\\24:u64 st64=%x4:x64"
            ]
        );
        assert_eq!(find_accesses(&code(&[AFTER_READ, BEFORE_WRITE])), Ok(Vec::new()));
        assert_eq!(find_accesses(&[0xbf, 0x31]), Ok(Vec::new()));
    }

    #[test]
    fn reads_of_a_cortex_a57_cannot_be_probed() {
        assert_eq!(find_accesses(&code(&[0x88df_fc00, AFTER_READ])), Err(LoadAcquireError));
    }
}
