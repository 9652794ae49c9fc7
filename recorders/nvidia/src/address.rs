//! Addresses in the memory of the program.

/// An address in the memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostAddr(u64);

impl HostAddr {
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    pub const fn pointer(self) -> *mut u8 {
        self.0 as *mut u8
    }

    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the distance from `start`, or `None` if the address is before it.
    pub const fn offset_from(self, start: Self) -> Option<u64> {
        self.0.checked_sub(start.0)
    }
}
