//! One interrupt block: raw status, mask, clear. The line is raised while a masked-in bit is set.

/// The four registers that every block of a job-manager GPU has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IrqBlock {
    /// What happened and was not cleared.
    pub raw: u32,
    /// What raises the line.
    pub mask: u32,
}

/// A register of an interrupt block, by its distance from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IrqRegister {
    RawStat,
    Clear,
    Mask,
    Status,
}

impl IrqBlock {
    /// Sets bits of the raw status.
    pub(crate) fn raise(&mut self, bits: u32) {
        self.raw |= bits;
    }

    /// Masked status.
    pub(crate) fn status(self) -> u32 {
        self.raw & self.mask
    }

    /// Clears bits of the raw status.
    pub(crate) fn clear(&mut self, bits: u32) {
        self.raw &= !bits;
    }

    /// What a read gives; `None` where the register can only be written.
    pub(crate) fn read(self, register: IrqRegister) -> Option<u32> {
        match register {
            IrqRegister::RawStat => Some(self.raw),
            IrqRegister::Clear => None,
            IrqRegister::Mask => Some(self.mask),
            IrqRegister::Status => Some(self.status()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_bit_stays_in_the_raw_status_and_off_the_line() {
        let mut b = IrqBlock::default();
        b.raise(0x600);
        assert_eq!((b.raw, b.status()), (0x600, 0));
        b.mask = 0x400;
        assert_eq!(b.status(), 0x400);
        b.clear(0x400);
        assert_eq!((b.raw, b.status()), (0x200, 0));
        assert_eq!(b.read(IrqRegister::Clear), None);
    }
}
