//! Byte-wise values of 32-bit registers from accesses of any width.

/// Registers by the offset of their first byte; other registers are not stored.
#[derive(Debug, Default)]
pub(super) struct Registers {
    list: Vec<Register>,
}

#[derive(Debug)]
struct Register {
    offset: u32,
    value: u32,
    /// Mask of its known bytes.
    known: u8,
}

impl Registers {
    /// Creates unknown registers at these offsets.
    pub fn new(offsets: &[u32]) -> Self {
        let mut list: Vec<Register> = offsets
            .iter()
            .map(|o| Register {
                offset: *o,
                value: 0,
                known: 0,
            })
            .collect();
        list.sort_by_key(|r| r.offset);
        Self { list }
    }

    /// Records an access of 1 to 8 bytes. Returns whether it touched one of the registers.
    pub fn take(&mut self, offset: u32, width: u8, value: u64) -> bool {
        let end = u64::from(offset) + u64::from(width.min(8));
        let first = self.list.partition_point(|r| r.offset.saturating_add(4) <= offset);
        let mut met = false;
        for r in self
            .list
            .iter_mut()
            .skip(first)
            .take_while(|r| u64::from(r.offset) < end)
        {
            for byte in 0..4u32 {
                let at = u64::from(r.offset) + u64::from(byte);
                if at < u64::from(offset) || at >= end {
                    continue;
                }
                let from = (value >> (8 * (at - u64::from(offset)))) as u8;
                r.value = r.value & !(0xff << (8 * byte)) | u32::from(from) << (8 * byte);
                r.known |= 1 << byte;
                met = true;
            }
        }
        met
    }

    /// Returns bits `low` to `high` of a register, if the bytes that hold them are known.
    pub fn bits(&self, offset: u32, low: u32, high: u32) -> Option<u32> {
        let r = self.list.iter().find(|r| r.offset == offset)?;
        let needed = (low / 8..=high / 8).fold(0u8, |n, byte| n | 1 << byte);
        let mask = u32::MAX >> (31 - (high - low));
        (r.known & needed == needed).then(|| r.value >> low & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_bytes_are_known_individually() {
        let mut r = Registers::new(&[0x50, 0x54]);
        assert!(!r.take(0x4c, 4, 0xffff_ffff));
        assert!(r.take(0x51, 1, 0x02));
        assert_eq!(r.bits(0x50, 8, 10), Some(2));
        assert_eq!(r.bits(0x50, 0, 0), None);
        assert_eq!(r.bits(0x50, 8, 24), None);
        assert!(r.take(0x52, 4, 0x1122_3344));
        assert_eq!(r.bits(0x50, 8, 31), Some(0x33_4402));
        assert_eq!(r.bits(0x54, 0, 15), Some(0x1122));
        assert_eq!(r.bits(0x54, 0, 31), None);
        assert!(r.take(0x50, 8, 0x8877_6655_4433_2211));
        assert_eq!(r.bits(0x50, 0, 31), Some(0x4433_2211));
        assert_eq!(r.bits(0x54, 0, 31), Some(0x8877_6655));
        assert_eq!(r.bits(0x58, 0, 0), None);
    }
}
