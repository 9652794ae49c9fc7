//! Reader of numbers from the start of an input, so that an input also controls what the target does.

/// The unread rest of an input. Past its end every byte is zero.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Returns whether the input is read to its end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let (head, rest) = self.0.split_at(N.min(self.0.len()));
        out.iter_mut().zip(head).for_each(|(to, from)| *to = *from);
        self.0 = rest;
        out
    }

    /// Reads the next byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Reads the next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// Reads the next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// Reads the next eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
