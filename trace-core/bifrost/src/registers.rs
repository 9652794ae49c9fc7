//! The register block of a tuple: the registers that it reads, and the destinations of the results of the previous
//! tuple.

/// The part of a register that receives a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteHalf {
    /// All of it.
    Full,
    /// Bits 15 to 0.
    Low,
    /// Bits 31 to 16.
    High,
}

/// The action of the third port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port2 {
    /// Nothing.
    Idle,
    /// Reads a register for this tuple.
    Read,
    /// Writes the FMA result of the previous tuple.
    WriteFma(WriteHalf),
}

/// The action of the fourth port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port3 {
    /// Nothing.
    Idle,
    /// Writes the FMA result of the previous tuple.
    WriteFma(WriteHalf),
    /// Writes the ADD result of the previous tuple.
    WriteAdd(WriteHalf),
}

/// The value that the uniform selector of a tuple names: 64 bits, of which an operand takes one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Uniform {
    /// Zero.
    Zero,
    /// Lane number, warp number, core number, and values of fragment shaders only: by selector.
    Special(u8),
    /// Reserved.
    Reserved(u8),
    /// A constant of the clause by number, with its low four bits.
    Constant {
        /// Number from 0 to 5.
        index: u8,
        /// Low bits.
        low: u8,
    },
    /// A pushed uniform, by the number of its 64-bit word.
    Push(u8),
}

/// Decodes a uniform selector. The constants have no natural order: 4, 5, 0, 1, 2, 3 from selector `0x20` on.
#[must_use]
pub const fn uniform(selector: u8) -> Uniform {
    match selector {
        0 => Uniform::Zero,
        1..=6 | 8..=15 => Uniform::Special(selector),
        7 | 16..=31 => Uniform::Reserved(selector),
        0x20..=0x3f => Uniform::Constant {
            index: (selector >> 4) + 2,
            low: selector & 15,
        },
        0x40..=0x7f => Uniform::Constant {
            index: (selector >> 4) - 4,
            low: selector & 15,
        },
        _ => Uniform::Push(selector & 0x7f),
    }
}

/// A decoded register block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Uniform selector.
    pub uniform: u8,
    /// Register read at port 0, or `None` if the port reads nothing. The text always shows the field's number, so it is
    /// stored too.
    pub port0: Option<u8>,
    /// Number in the field of port 0.
    pub field0: u8,
    /// Register read at port 1.
    pub port1: Option<u8>,
    /// Number in the field of port 1.
    pub field1: u8,
    /// Register of the third port.
    pub register2: u8,
    /// Action of the third port.
    pub port2: Port2,
    /// Register of the fourth port.
    pub register3: u8,
    /// Action of the fourth port.
    pub port3: Port3,
    /// Whether the mode exists.
    pub sound: bool,
}

/// Returns the actions of the two ports by control value; missing values are reserved.
pub(crate) const fn ports(control: u32) -> Option<(Port2, Port3)> {
    use WriteHalf::{Full, High, Low};
    let idle = Port2::Idle;
    let write = Port2::WriteFma;
    let (fma, add) = (Port3::WriteFma, Port3::WriteAdd);
    Some(match control {
        1 => (Port2::Read, fma(Low)),
        2 => (Port2::Read, fma(High)),
        3 => (Port2::Read, fma(Full)),
        4 => (Port2::Read, add(Low)),
        5 => (Port2::Read, add(High)),
        6 => (Port2::Read, add(Full)),
        7 => (write(Low), add(Low)),
        8 | 24 => (write(Low), add(High)),
        9 => (write(Low), add(Full)),
        10 | 26 => (write(High), add(Low)),
        11 => (write(High), add(High)),
        12 => (write(High), add(Full)),
        13 => (write(Full), add(Low)),
        14 => (write(Full), add(High)),
        15 => (write(Full), add(Full)),
        16 | 27 => (idle, Port3::Idle),
        17 => (idle, fma(Full)),
        18 => (idle, fma(Low)),
        19 => (idle, fma(High)),
        20 => (Port2::Read, Port3::Idle),
        21 => (idle, add(Full)),
        22 => (idle, add(Low)),
        23 => (idle, add(High)),
        _ => return None,
    })
}

impl Registers {
    /// Decodes the 35 bits of a block. `first` is set for the first tuple of a clause: its block has other modes and
    /// names the destinations of the last tuple's results.
    #[must_use]
    pub fn decode(bits: u64, first: bool) -> Self {
        let field = |at: u32, width: u32| (bits >> at) as u32 & ((1 << width) - 1);
        let (register3, register2) = (field(8, 6), field(14, 6));
        let (reg0, reg1, control) = (field(20, 5), field(25, 6), field(31, 4));
        let field1 = if reg0 <= reg1 { reg1 } else { 63 - reg1 };
        let (mut mode, port0, field0, port1) = if control == 0 {
            // One register or none: its sixth bit and the mode have the position of port 1.
            let register = reg0 | (reg1 & 1) << 5;
            let read = reg1 & 2 == 0;
            (reg1 >> 2, read.then_some(register), register, None)
        } else {
            // Two registers: their order encodes one bit.
            let register = if reg0 <= reg1 { reg0 } else { 63 - reg0 };
            (control, Some(register), register, Some(field1))
        };
        if first {
            mode = mode & 7 | (mode & 8) << 1;
        } else if register2 == register3 {
            mode += 16;
        }
        let found = ports(mode);
        let (port2, port3) = found.unwrap_or((Port2::Idle, Port3::Idle));
        Self {
            uniform: field(0, 8) as u8,
            port0: port0.map(|r| r as u8),
            field0: field0 as u8,
            port1: port1.map(|r| r as u8),
            field1: field1 as u8,
            register2: register2 as u8,
            port2,
            register3: register3 as u8,
            port3,
            sound: found.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_selected_out_of_order() {
        let index = |s| match uniform(s) {
            Uniform::Constant { index, .. } => Some(index),
            _ => None,
        };
        let all: Vec<_> = (2..8).filter_map(|s| index(s << 4)).collect();
        assert_eq!(all, [4, 5, 0, 1, 2, 3]);
        assert_eq!(uniform(0x85), Uniform::Push(5));
        assert_eq!(uniform(0x57), Uniform::Constant { index: 1, low: 7 });
    }

    #[test]
    fn two_registers_in_falling_order_are_stored_as_complements() {
        // Registers 60 and 61 do not fit five bits. Their complements, 63-60 = 3 and 63-61 = 2, are in falling order.
        let block = 3u64 << 20 | 2 << 25 | 3 << 31;
        let r = Registers::decode(block | 1 << 14, false);
        assert_eq!((r.port0, r.port1), (Some(60), Some(61)));
        assert_eq!(r.port3, Port3::WriteFma(WriteHalf::Full));
    }

    #[test]
    fn no_bits_panic_and_reserved_modes_are_unsound() {
        let mut unsound = 0;
        for mode in 0..16u64 {
            for (first, same) in [(false, false), (false, true), (true, false), (true, true)] {
                let r = Registers::decode(mode << 31 | mode << 27 | u64::from(!same) << 14, first);
                unsound += u32::from(!r.sound);
            }
        }
        assert!(unsound > 0);
    }
}
