//! Interrupt block with raw status, mask and clear registers. The line is raised while an unmasked bit is set.

/// The four registers of each interrupt block of a job-manager GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IrqBlock {
    /// Pending interrupts that were not cleared.
    pub raw: u32,
    /// Interrupts that raise the line.
    pub mask: u32,
}

/// Register of an interrupt block, by its offset from the first register.
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

    /// Returns the masked status.
    pub(crate) fn status(self) -> u32 {
        self.raw & self.mask
    }

    /// Clears bits of the raw status.
    pub(crate) fn clear(&mut self, bits: u32) {
        self.raw &= !bits;
    }

    /// Returns the value of a register, or `None` if it is write-only.
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
