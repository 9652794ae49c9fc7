//! Actions: the steps of a replay, before encoding and after decoding.

/// What is done with the value of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadClass {
    /// It must match.
    Equal,
    /// These bits of it must match.
    Masked(u64),
    /// It is free-running: not compared.
    Any,
    /// These bits of it must match, where they did not stand so before the recording began: a difference is told as
    /// such, and is no divergence.
    Before(u64),
    /// It is kept in a slot (0 to 7) for a later write; not compared.
    Feeds(u8),
}

/// One step of a replay. Every action names the event of the recording that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write a value.
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
    /// Write the value that a read put in a slot.
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
    /// Read once and treat the value by its class.
    Read {
        /// Event of the recording.
        event: u32,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// What is done with the value.
        class: ReadClass,
        /// Value in the recording, zero-extended.
        expected: u64,
    },
    /// Read until the masked value matches; stands for `reads` reads of the recording, of which `event` is the last.
    Until {
        /// Last event of the recording's poll.
        event: u32,
        /// Reads of the recording that this stands for.
        reads: u32,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        width: u8,
        /// Bits that must match.
        mask: u64,
        /// Value on which the recording's poll ended.
        expected: u64,
        /// Most nanoseconds on the device's clock.
        limit_ns: u64,
    },
    /// Wait until one of `lines` is raised.
    WaitInterrupt {
        /// First event of the interrupt's handler in the recording.
        event: u32,
        /// Bit `n`: line `n`.
        lines: u32,
        /// Most nanoseconds on the device's clock.
        limit_ns: u64,
    },
    /// Put a value into the plan's memory, as the CPU did in the recording.
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
    /// Put bytes of a page image into the plan's memory, as the CPU did in the recording. They stand in the image where
    /// they go in their page.
    Copy {
        /// Event of the recording.
        event: u32,
        /// Byte offset in the plan's memory of the first byte.
        offset: u64,
        /// How many.
        bytes: u32,
        /// Which of the plan's images.
        image: u32,
    },
    /// Look at one of the plan's expected effects now, instead of at the end.
    Check {
        /// Event of the recording behind which the effect is there.
        event: u32,
        /// Which of the plan's expectations.
        expectation: u32,
    },
    /// Let time pass.
    Pause {
        /// Event of the recording before which the time passed.
        event: u32,
        /// Nanoseconds.
        ns: u64,
    },
}

impl Action {
    /// The event of the recording that caused it.
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

/// The bits that an access of `width` bytes carries.
#[must_use]
pub const fn width_mask(width: u8) -> u64 {
    match width {
        1 => 0xff,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => u64::MAX,
    }
}
