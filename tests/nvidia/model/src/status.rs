//! Status codes with which the resource manager answers requests.

/// A status code other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RmStatus(pub u32);

/// Result of a request to the resource manager.
pub type RmResult<T = ()> = Result<T, RmStatus>;

impl RmStatus {
    pub const DUPLICATE_NAME: Self = Self(0x19);
    pub const INVALID_ADDRESS: Self = Self(0x1e);
    pub const INVALID_ARGUMENT: Self = Self(0x1f);
    pub const INVALID_CLASS: Self = Self(0x22);
    pub const INVALID_CLIENT: Self = Self(0x23);
    pub const INVALID_LIMIT: Self = Self(0x2e);
    pub const INVALID_OBJECT: Self = Self(0x31);
    pub const INVALID_OBJECT_HANDLE: Self = Self(0x33);
    pub const INVALID_OBJECT_PARENT: Self = Self(0x36);
    pub const INVALID_PARAM_STRUCT: Self = Self(0x3a);
    pub const INVALID_STATE: Self = Self(0x40);
    pub const NO_MEMORY: Self = Self(0x51);
    pub const NOT_SUPPORTED: Self = Self(0x56);
    pub const OBJECT_NOT_FOUND: Self = Self(0x57);
    pub const STATE_IN_USE: Self = Self(0x63);
}

/// Returns the number that a result is in the field `status` of an argument.
pub fn code(result: RmResult) -> u64 {
    match result {
        Ok(()) => 0,
        Err(status) => u64::from(status.0),
    }
}
