//! Handles of objects of NVIDIA's libraries. The worker numbers them when it creates the objects.

use crate::{Decoder, MessageError, Scalar};

/// Programs see handles as addresses above this one: no program has memory there, and no handle of the driver is there.
const FIRST_ADDRESS: u64 = 0x6c00_0000_0000;
/// Distance of two handles as programs see them: they look like addresses of aligned objects.
const ADDRESS_SHIFT: u32 = 4;

/// Number of an object of a library, unique in its session. 0 is the null handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LibraryHandle(u32);

impl LibraryHandle {
    /// Returns the handle with a number. Any number is possible; users look it up.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the handle as a program sees it: null, or an address without memory.
    #[must_use]
    pub fn as_address(self) -> u64 {
        match self.0 {
            0 => 0,
            number => FIRST_ADDRESS + (u64::from(number) << ADDRESS_SHIFT),
        }
    }

    /// Returns the handle that a program passes as this address, or `None` if no handle has it.
    #[must_use]
    pub fn from_address(address: u64) -> Option<Self> {
        let offset = address.checked_sub(FIRST_ADDRESS)?;
        let handle = Self(u32::try_from(offset >> ADDRESS_SHIFT).ok()?);
        (handle.0 != 0 && handle.as_address() == address).then_some(handle)
    }
}

impl Scalar for LibraryHandle {
    const BYTES: usize = 4;

    fn append_to(self, bytes: &mut Vec<u8>) {
        self.0.append_to(bytes);
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        decoder.read().map(Self)
    }
}
