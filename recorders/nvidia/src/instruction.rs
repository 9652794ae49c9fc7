//! Decoder of the instructions that access a page of doorbells: moves between memory and a register or a constant.
//!
//! It computes the address of the access, so that the caller can compare it with the address of the fault.

use crate::address::HostAddr;

/// General registers in the order of their numbers: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
pub(crate) type Registers = [u64; 16];

/// Maximum bytes of an instruction.
pub(crate) const MAX_BYTES: usize = 15;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Stores the low bytes of this value.
    Store(u64),
    /// Loads into the register of this number.
    Load(LoadTarget),
}

/// The register that a load changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadTarget {
    /// Number of the register.
    pub register: usize,
    /// Bytes of the register that change: 8 also for a load of 4 bytes, whose upper half becomes zero.
    pub bytes: u8,
}

impl LoadTarget {
    /// Returns the register after the load of `value`.
    pub fn merge(self, before: u64, value: u64) -> u64 {
        match self.bytes {
            1 => before & !0xff | value & 0xff,
            2 => before & !0xffff | value & 0xffff,
            _ => value,
        }
    }
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryAccess {
    /// Bytes of the instruction.
    pub length: u8,
    /// Bytes of the access: 1, 2, 4 or 8.
    pub width: u8,
    pub address: HostAddr,
    pub direction: Direction,
}

/// Bytes of an instruction that are not yet decoded.
struct Code<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Code<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Reads a signed number of 1, 2 or 4 bytes, and extends it.
    fn signed(&mut self, bytes: usize) -> Option<u64> {
        let slice = self.bytes.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes;
        let number = slice.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let unused = 64 - 8 * u32::try_from(bytes).ok()?;
        Some((((number << unused) as i64) >> unused) as u64)
    }
}

/// The operands of an instruction: a register number, and an address or, for an operand relative to the next
/// instruction, a displacement.
struct Operands {
    register: usize,
    base: u64,
    is_relative: bool,
}

/// Prefix REX, with 0 for none.
#[derive(Clone, Copy)]
struct Rex(u8);

impl Rex {
    fn is_wide(self) -> bool {
        self.0 & 8 != 0
    }

    fn register(self) -> usize {
        usize::from(self.0 >> 2 & 1) << 3
    }

    fn index(self) -> usize {
        usize::from(self.0 >> 1 & 1) << 3
    }

    fn base(self) -> usize {
        usize::from(self.0 & 1) << 3
    }
}

/// Decodes the instruction at `next_instruction_base`, whose first bytes are `bytes`. Returns `None` if it is not one of
/// the known moves, or if its bytes are cut.
///
/// Known: `MOV` between memory and a register (88, 89, 8A, 8B), `MOV` of a constant to memory (C6, C7), `MOVZX` (0F B6,
/// 0F B7) and `MOVNTI` (0F C3), with the prefixes 66 and REX. Segments other than the flat ones are not known.
pub(crate) fn decode(bytes: &[u8], at: HostAddr, registers: &Registers) -> Option<MemoryAccess> {
    let bytes = bytes.get(..bytes.len().min(MAX_BYTES))?;
    let mut code = Code { bytes, at: 0 };
    let mut has_narrow_operand = false;
    let mut byte = code.byte()?;
    while byte == 0x66 {
        has_narrow_operand = true;
        byte = code.byte()?;
    }
    let mut rex = Rex(0);
    if byte & 0xf0 == 0x40 {
        rex = Rex(byte);
        byte = code.byte()?;
    }
    let operand_bytes = match (rex.is_wide(), has_narrow_operand) {
        (true, _) => 8,
        (false, true) => 2,
        (false, false) => 4,
    };
    let is_extended = byte == 0x0f;
    if is_extended {
        byte = code.byte()?;
    }
    let operands = decode_operands(&mut code, rex, registers)?;
    let (width, direction) = match (is_extended, byte) {
        (false, 0x88) => (1, Direction::Store(byte_register(registers, operands.register, rex)?)),
        (false, 0x89) => (operand_bytes, Direction::Store(*registers.get(operands.register)?)),
        (true, 0xc3) if !has_narrow_operand => (operand_bytes, Direction::Store(*registers.get(operands.register)?)),
        // Without REX, the numbers 4 to 7 are the second bytes of registers: no driver loads a register into them.
        (false, 0x8a) if rex.0 != 0 || operands.register < 4 => (1, load(operands.register, 1)),
        (false, 0x8b) => (operand_bytes, load(operands.register, operand_bytes)),
        (true, 0xb6) => (1, load(operands.register, operand_bytes)),
        (true, 0xb7) => (2, load(operands.register, operand_bytes)),
        (false, 0xc6) if operands.register & 7 == 0 => (1, Direction::Store(code.signed(1)?)),
        (false, 0xc7) if operands.register & 7 == 0 => {
            let constant_bytes = if operand_bytes == 2 { 2 } else { 4 };
            (operand_bytes, Direction::Store(code.signed(constant_bytes)?))
        }
        _ => return None,
    };
    let length = u8::try_from(code.at).ok()?;
    let address = match operands.is_relative {
        true => at.get().wrapping_add(u64::from(length)).wrapping_add(operands.base),
        false => operands.base,
    };
    Some(MemoryAccess {
        length,
        width,
        address: HostAddr::new(address),
        direction,
    })
}

/// A load into `operand_bytes` bytes of a register.
fn load(register: usize, operand_bytes: u8) -> Direction {
    Direction::Load(LoadTarget {
        register,
        bytes: if operand_bytes == 4 { 8 } else { operand_bytes },
    })
}

/// Returns the low byte of a register. Without REX, the numbers 4 to 7 are the second bytes of the first four registers.
fn byte_register(registers: &Registers, register: usize, rex: Rex) -> Option<u64> {
    if rex.0 == 0 && (4..8).contains(&register) {
        return Some(registers.get(register - 4)? >> 8 & 0xff);
    }
    Some(registers.get(register)? & 0xff)
}

/// Decodes the bytes ModRM and SIB and the displacement. Returns `None` for an operand that is a register.
fn decode_operands(code: &mut Code<'_>, rex: Rex, registers: &Registers) -> Option<Operands> {
    let byte = code.byte()?;
    let (mode, register, memory) = (byte >> 6, usize::from(byte >> 3 & 7) | rex.register(), byte & 7);
    if mode == 3 {
        return None;
    }
    let mut is_relative = false;
    let mut base = match memory {
        4 => {
            let byte = code.byte()?;
            let (scale, index, low) = (byte >> 6, usize::from(byte >> 3 & 7) | rex.index(), byte & 7);
            let index = match index {
                4 => 0,
                index => registers.get(index)? << scale,
            };
            // Without a base the displacement always has four bytes.
            let base = match (mode, low) {
                (0, 5) => code.signed(4)?,
                _ => *registers.get(usize::from(low) | rex.base())?,
            };
            base.wrapping_add(index)
        }
        5 if mode == 0 => {
            is_relative = true;
            code.signed(4)?
        }
        _ => *registers.get(usize::from(memory) | rex.base())?,
    };
    base = match mode {
        1 => base.wrapping_add(code.signed(1)?),
        2 => base.wrapping_add(code.signed(4)?),
        _ => base,
    };
    Some(Operands {
        register,
        base,
        is_relative,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: HostAddr = HostAddr::new(0x40_0000);

    fn registers() -> Registers {
        std::array::from_fn(|n| 0x1_0000_0000 * (n as u64 + 1) + 0x8180 + n as u64)
    }

    fn decoded(bytes: &[u8]) -> Option<MemoryAccess> {
        decode(bytes, AT, &registers())
    }

    fn access(length: u8, width: u8, address: u64, direction: Direction) -> Option<MemoryAccess> {
        let address = HostAddr::new(address);
        Some(MemoryAccess {
            length,
            width,
            address,
            direction,
        })
    }

    #[test]
    fn instructions_of_libcuda() {
        let r = registers();
        // mov [rax], ecx and mov eax, [rsi]
        let store = access(2, 4, r[0], Direction::Store(r[1]));
        assert_eq!(decoded(&[0x89, 0x08, 0x90]), store);
        assert_eq!(decoded(&[0x8b, 0x06]), access(2, 4, r[6], load(0, 4)));
    }

    #[test]
    fn operands_of_all_forms() {
        let r = registers();
        let at = |bytes: &[u8]| decoded(bytes).map(|a| (a.length, a.address.get()));
        // mov [rax + 0x10], ecx; mov [rbp - 0x80], ecx; mov [rdi + 0x12345678], r9d
        assert_eq!(at(&[0x89, 0x48, 0x10]), Some((3, r[0] + 0x10)));
        assert_eq!(at(&[0x89, 0x4d, 0x80]), Some((3, r[5] - 0x80)));
        assert_eq!(
            at(&[0x44, 0x89, 0x8f, 0x78, 0x56, 0x34, 0x12]),
            Some((7, r[7] + 0x1234_5678))
        );
        // mov [rax + rcx * 4], edx; mov [r12], eax; mov [r13 + 0], eax; mov [rsp + 8], eax
        assert_eq!(at(&[0x89, 0x14, 0x88]), Some((3, r[0] + r[1] * 4)));
        assert_eq!(at(&[0x41, 0x89, 0x04, 0x24]), Some((4, r[12])));
        assert_eq!(at(&[0x41, 0x89, 0x45, 0x00]), Some((4, r[13])));
        assert_eq!(at(&[0x89, 0x44, 0x24, 0x08]), Some((4, r[4] + 8)));
        // mov [r9 + r12 * 2 + 1], eax: r12 is an index.
        assert_eq!(at(&[0x43, 0x89, 0x44, 0x61, 0x01]), Some((5, r[9] + r[12] * 2 + 1)));
        // mov [rcx * 8 + 0x100], eax and mov [0x100], eax
        assert_eq!(at(&[0x89, 0x04, 0xcd, 0, 1, 0, 0]), Some((7, r[1] * 8 + 0x100)));
        assert_eq!(at(&[0x89, 0x04, 0x25, 0, 1, 0, 0]), Some((7, 0x100)));
        // mov [rip - 6], eax and mov dword [rip + 0x10], 7: the constant counts.
        assert_eq!(at(&[0x89, 0x05, 0xfa, 0xff, 0xff, 0xff]), Some((6, AT.get())));
        assert_eq!(
            at(&[0xc7, 0x05, 0x10, 0, 0, 0, 7, 0, 0, 0]),
            Some((10, AT.get() + 10 + 0x10))
        );
    }

    #[test]
    fn widths_and_values() {
        let r = registers();
        assert_eq!(decoded(&[0x48, 0x89, 0x08]), access(3, 8, r[0], Direction::Store(r[1])));
        assert_eq!(decoded(&[0x66, 0x89, 0x08]), access(3, 2, r[0], Direction::Store(r[1])));
        assert_eq!(
            decoded(&[0x88, 0x08]),
            access(2, 1, r[0], Direction::Store(r[1] & 0xff))
        );
        // mov [rax], ch and mov [rax], bpl
        assert_eq!(decoded(&[0x88, 0x28]), access(2, 1, r[0], Direction::Store(0x81)));
        assert_eq!(
            decoded(&[0x40, 0x88, 0x28]),
            access(3, 1, r[0], Direction::Store(r[5] & 0xff))
        );
        let minus = u64::MAX;
        assert_eq!(
            decoded(&[0xc7, 0x00, 255, 255, 255, 255]),
            access(6, 4, r[0], Direction::Store(minus))
        );
        assert_eq!(
            decoded(&[0x66, 0xc7, 0x00, 5, 0]),
            access(5, 2, r[0], Direction::Store(5))
        );
        assert_eq!(decoded(&[0xc6, 0x00, 5]), access(3, 1, r[0], Direction::Store(5)));
        assert_eq!(decoded(&[0x0f, 0xc3, 0x08]), access(3, 4, r[0], Direction::Store(r[1])));
        assert_eq!(decoded(&[0x0f, 0xb6, 0x08]), access(3, 1, r[0], load(1, 4)));
        assert_eq!(decoded(&[0x0f, 0xb7, 0x08]), access(3, 2, r[0], load(1, 4)));
        assert_eq!(decoded(&[0x4c, 0x8b, 0x08]), access(3, 8, r[0], load(9, 8)));
    }

    #[test]
    fn loads_change_as_much_of_a_register_as_the_processor_does() {
        let target = |bytes| LoadTarget { register: 0, bytes };
        assert_eq!(target(1).merge(0x1122_3344, 0xff), 0x1122_33ff);
        assert_eq!(target(2).merge(0x1122_3344, 0xffff), 0x1122_ffff);
        assert_eq!(target(8).merge(u64::MAX, 5), 5);
    }

    #[test]
    fn other_instructions_are_unknown() {
        // A register operand, XCHG, LOCK ADD, a segment of thread-local memory, a vector store, a cut instruction.
        for bytes in [
            &[0x89, 0xc8][..],
            &[0x87, 0x08],
            &[0xf0, 0x01, 0x08],
            &[0x64, 0x89, 0x08],
            &[0x0f, 0x11, 0x00],
            &[0xc7, 0x48, 0, 1, 2, 3, 4],
            &[0x89],
            &[0x89, 0x88, 1, 2],
            &[0x66; 20],
            &[],
        ] {
            assert_eq!(decoded(bytes), None, "{bytes:x?}");
        }
    }
}
