//! Actions: the steps of a replay, before encoding and after decoding.

/// How the value of a read is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadClass {
    /// The value must match.
    Equal,
    /// These bits of the value must match.
    Masked(u64),
    /// The value is free-running and is not compared.
    Any,
    /// These bits of the value must match. Nothing has written them since before the recording began, so a difference
    /// is reported as older state and is no divergence.
    Before(u64),
    /// The value is stored in a slot (0 to 7) for a later write and is not compared.
    Feeds(u8),
}

/// One step of a replay. Every action names the event of the recording that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes a value.
    Write {
        /// Event of the recording.
        event: u32,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// Value, zero-extended.
        value: u64,
    },
    /// Writes the value that a read stored in a slot.
    WriteSlot {
        /// Event of the recording.
        event: u32,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// Slot, 0 to 7.
        slot: u8,
    },
    /// Reads once and treats the value according to its class.
    Read {
        /// Event of the recording.
        event: u32,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// How the value is treated.
        class: ReadClass,
        /// Value in the recording, zero-extended.
        expected: u64,
    },
    /// Reads until the masked value matches. Stands for `reads` reads of the recording; `event` is the last of them.
    Until {
        /// Last event of the recording's poll.
        event: u32,
        /// Number of recorded reads that this action stands for.
        reads: u32,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// Bits that must match.
        mask: u64,
        /// Value that ended the recording's poll.
        expected: u64,
        /// Maximum duration in nanoseconds on the device's clock.
        limit_ns: u64,
    },
    /// Waits until one of `lines` is raised.
    WaitInterrupt {
        /// First event of the interrupt's handler in the recording.
        event: u32,
        /// Lines to wait for: bit `n` is line `n`.
        lines: u32,
        /// Maximum duration in nanoseconds on the device's clock.
        limit_ns: u64,
    },
    /// Writes a value into the plan's memory, as the CPU did in the recording.
    Put {
        /// Event of the recording.
        event: u32,
        /// Byte offset in the plan's memory.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// Value, zero-extended.
        value: u64,
    },
    /// Copies bytes of a page image into the plan's memory, as the CPU did in the recording. The bytes have the same
    /// offset in the image as in their destination page.
    Copy {
        /// Event of the recording.
        event: u32,
        /// Byte offset of the first byte in the plan's memory.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
        /// Index of the image among the plan's images.
        image: u32,
    },
    /// Checks one of the plan's expected effects now, instead of at the end.
    Check {
        /// Event of the recording after which the effect is visible.
        event: u32,
        /// Index of the expectation among the plan's expectations.
        expectation: u32,
    },
    /// Lets time pass.
    Pause {
        /// Event of the recording before which the time passed.
        event: u32,
        /// Duration in nanoseconds.
        ns: u64,
    },
}

impl Action {
    /// Returns the event of the recording that caused the action.
    #[must_use]
    pub fn event(&self) -> u32 {
        match *self {
            Self::Write { event, .. }
            | Self::WriteSlot { event, .. }
            | Self::Read { event, .. }
            | Self::Until { event, .. }
            | Self::WaitInterrupt { event, .. }
            | Self::Put { event, .. }
            | Self::Copy { event, .. }
            | Self::Check { event, .. }
            | Self::Pause { event, .. } => event,
        }
    }
}

/// Returns the mask of the bits that an access of `width` bytes carries.
#[must_use]
pub const fn width_mask(width: u8) -> u64 {
    match width {
        1 => 0xff,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => u64::MAX,
    }
}
