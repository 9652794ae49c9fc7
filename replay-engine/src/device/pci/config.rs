//! Configuration space of a function: the registers that the agent uses.
//!
//! PCI Local Bus Specification 3.0, section 6.2.

use super::error::PciError;
use super::name::Address;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const VENDOR: u64 = 0x00;
const COMMAND: u64 = 0x04;
const STATUS: u64 = 0x06;
/// Size of the part that is restored after a reset, bytes: the header with its base address registers.
const HEADER: usize = 64;

/// Bits of the command register.
pub(super) mod command {
    /// Responds to accesses to its port windows.
    pub const PORTS: u16 = 1 << 0;
    /// Responds to accesses to its memory windows.
    pub const MEMORY: u16 = 1 << 1;
    /// Enables bus mastering.
    pub const MASTER: u16 = 1 << 2;
    /// Disables its interrupt line.
    pub const NO_INTERRUPT: u16 = 1 << 10;
}

/// Status register: the function has a capability list, whose start is in this register.
const CAPABILITIES: u16 = 1 << 4;
const FIRST_CAPABILITY: u8 = 0x34;
/// Status register: the function requests its interrupt, also while the line is disabled.
const INTERRUPT: u16 = 1 << 3;

/// Configuration space of a function.
#[derive(Debug)]
pub(super) struct Config {
    address: Address,
    file: File,
    /// Start offset in the file.
    at: u64,
}

impl Config {
    /// Returns the configuration space in a file, from offset `at`.
    pub fn new(address: Address, file: File, at: u64) -> Self {
        Self { address, file, at }
    }

    /// Returns the address of the function.
    pub fn address(&self) -> Address {
        self.address
    }

    fn failed(&self, offset: u64) -> impl FnOnce(std::io::Error) -> PciError {
        let address = self.address;
        move |source| PciError::Config {
            address,
            offset,
            source,
        }
    }

    fn read(&self, offset: u64) -> Result<u16, PciError> {
        let mut bytes = [0; 2];
        self.file
            .read_exact_at(&mut bytes, self.at + offset)
            .map_err(self.failed(offset))?;
        Ok(u16::from_le_bytes(bytes))
    }

    fn write(&self, offset: u64, value: u16) -> Result<(), PciError> {
        self.file
            .write_all_at(&value.to_le_bytes(), self.at + offset)
            .map_err(self.failed(offset))
    }

    /// Returns bytes of it, or `None` beyond the first 256 bytes, which every function has.
    pub fn bytes<const N: usize>(&self, offset: u8) -> Result<Option<[u8; N]>, PciError> {
        if usize::from(offset) + N > 256 {
            return Ok(None);
        }
        let mut bytes = [0; N];
        let read = self.file.read_exact_at(&mut bytes, self.at + u64::from(offset));
        read.map_err(self.failed(offset.into()))?;
        Ok(Some(bytes))
    }

    /// Returns the offsets of the capabilities of a kind.
    pub fn capabilities(&self, kind: u8) -> Result<Vec<u8>, PciError> {
        let mut found = Vec::new();
        if self.read(STATUS)? & CAPABILITIES == 0 {
            return Ok(found);
        }
        let mut next = self.bytes::<1>(FIRST_CAPABILITY)?.map_or(0, |[at]| at);
        // No more of them fit; a longer list is circular.
        for _ in 0..48 {
            let at = next & !3;
            if at < HEADER as u8 {
                break;
            }
            let Some([what, then]) = self.bytes::<2>(at)? else {
                break;
            };
            if what == kind {
                found.push(at);
            }
            next = then;
        }
        Ok(found)
    }

    /// Sets and clears bits of the command register.
    pub fn command(&self, set: u16, clear: u16) -> Result<(), PciError> {
        let before = self.read(COMMAND)?;
        let wanted = before & !clear | set;
        if wanted != before {
            self.write(COMMAND, wanted)?;
        }
        Ok(())
    }

    /// Returns whether the function requests its interrupt.
    pub fn is_interrupt_pending(&self) -> Result<bool, PciError> {
        Ok(self.read(STATUS)? & INTERRUPT != 0)
    }

    /// Quiesces the function: bus mastering off, interrupt line disabled.
    ///
    /// # Errors
    /// If the function cannot be reached.
    pub fn quiet(&self) -> Result<(), PciError> {
        self.command(command::NO_INTERRUPT, command::MASTER)
    }

    /// Checks that a device responds.
    pub fn check_present(&self) -> Result<(), PciError> {
        match self.read(VENDOR)? {
            0xffff => Err(PciError::Gone { address: self.address }),
            _ => Ok(()),
        }
    }

    /// Returns the header, for a restore after a reset.
    pub fn header(&self) -> Result<[u8; HEADER], PciError> {
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, self.at).map_err(self.failed(0))?;
        Ok(header)
    }

    /// Restores base address registers, latency, line and command of a header where a reset has changed them.
    pub fn restore(&self, header: &[u8; HEADER]) -> Result<(), PciError> {
        // Windows first, then the bits that make the function respond in them.
        for at in (0x10..0x28).step_by(2).chain([0x0c, 0x3c, 0x04]) {
            let word = header.get(at..at + 2).and_then(|b| b.try_into().ok());
            let word = u16::from_le_bytes(word.unwrap_or_default());
            if self.read(at as u64)? != word {
                self.write(at as u64, word)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn config(bytes: &[u8]) -> Config {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0xaa; 0x40]).unwrap();
        file.write_all(bytes).unwrap();
        Config::new(Address::parse("00:03.0").unwrap(), file, 0x40)
    }

    #[test]
    fn quiet_clears_bus_master_and_disables_interrupts() {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&[0x34, 0x12, 0xe8, 0x11, 0x07, 0x01, 0x08, 0x00]);
        let c = config(&bytes);
        c.check_present().unwrap();
        assert!(c.is_interrupt_pending().unwrap());
        c.quiet().unwrap();
        assert_eq!(c.read(COMMAND).unwrap(), 0x0503);
        c.command(command::MASTER, command::NO_INTERRUPT).unwrap();
        assert_eq!(c.read(COMMAND).unwrap(), 0x0107);
    }

    #[test]
    fn config_restore_after_reset_keeps_the_bars() {
        let mut bytes = [0; 64];
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = i as u8;
        }
        let c = config(&bytes);
        let header = c.header().unwrap();
        c.file.write_all_at(&[0; 0x38], 0x40 + 4).unwrap();
        c.restore(&header).unwrap();
        let now = c.header().unwrap();
        assert_eq!(now[0x10..0x28], bytes[0x10..0x28]);
        assert_eq!(now[4..6], bytes[4..6]);
    }

    #[test]
    fn pci_capability_list_is_read_and_loops_end() {
        let mut bytes = [0; 256];
        bytes[6] = 0x10;
        bytes[0x34] = 0x40;
        bytes[0x40..0x42].copy_from_slice(&[9, 0x50]);
        bytes[0x50..0x52].copy_from_slice(&[5, 0x61]);
        bytes[0x60..0x62].copy_from_slice(&[9, 0]);
        let c = config(&bytes);
        assert_eq!(c.capabilities(9).unwrap(), [0x40, 0x60]);
        assert_eq!(c.bytes::<2>(0x50).unwrap(), Some([5, 0x61]));
        assert_eq!(c.bytes::<12>(0xf8).unwrap(), None);
        bytes[0x61] = 0x40;
        assert_eq!(config(&bytes).capabilities(5).unwrap().len(), 16);
        bytes[6] = 0;
        assert!(config(&bytes).capabilities(9).unwrap().is_empty());
    }

    #[test]
    fn absent_or_truncated_config_space_is_reported() {
        let e = config(&[0xff; 64]).check_present().unwrap_err();
        assert!(matches!(e, PciError::Gone { .. }), "{e}");
        let e = config(&[0; 4]).quiet().unwrap_err().to_string();
        assert!(e.starts_with("configuration space of 0000:00:03.0 at 0x4"), "{e}");
    }
}
