//! Why a step of a channel replay cannot be played, and what is known about a submission that did not complete.

use crate::{ClientError, ErrorNotifier, MmuFault, SmError};
use core::fmt;

/// Maximum number of multiprocessors whose errors a fault holds.
pub(crate) const MAX_SM_ERRORS: usize = 8;

/// Why a submission did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayFault {
    /// Event of the submission.
    pub event: u64,
    /// The error notifier, or `None` if the time limit ran out.
    pub notifier: Option<ErrorNotifier>,
    /// Nanoseconds from submission to error.
    pub after_ns: u64,
    /// MMU faults.
    pub mmu_faults: [Option<MmuFault>; 4],
    /// Errors of the first multiprocessors in error.
    pub sm_errors: [Option<SmError>; MAX_SM_ERRORS],
    /// Why the driver did not answer with MMU faults, if it refused.
    pub refused: Option<ClientError>,
    /// Why the driver did not map the page of the compute scheduler, if it refused.
    pub scheduler_refusal: Option<ClientError>,
    /// Whether the GPU fetched the entry of the submission.
    pub fetched: bool,
}

/// Why a step cannot be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayError {
    /// The driver or the operating system refused.
    Client(ClientError),
    /// There is no room for another range of memory.
    TooManyRanges,
    /// A page image is missing.
    NoPage {
        /// Its number.
        image: u32,
    },
    /// No mapped memory has all of this range.
    Unmapped {
        /// First address.
        va: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A range is not whole pages of 4 KiB.
    Unaligned {
        /// First address.
        va: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A submission did not complete; [`Player::fault`] has more.
    Fault {
        /// Event of the submission.
        event: u64,
        /// The driver's robust-channel code, or `None` if the time limit ran out.
        code: Option<u32>,
    },
}

impl From<ClientError> for PlayError {
    fn from(e: ClientError) -> Self {
        Self::Client(e)
    }
}

impl fmt::Display for PlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(e) => e.fmt(f),
            Self::TooManyRanges => f.write_str("there are too many ranges of memory"),
            Self::NoPage { image } => write!(f, "the page image {image} is missing"),
            Self::Unmapped { va, bytes } => write!(f, "{bytes} bytes at {va:#x} are not mapped"),
            Self::Unaligned { va, bytes } => write!(f, "{bytes} bytes at {va:#x} are not whole pages"),
            Self::Fault {
                event,
                code: Some(code),
            } => {
                write!(f, "event {event}: {}", crate::robust_channel_name(*code))
            }
            Self::Fault { event, code: None } => write!(f, "event {event}: the submission does not complete"),
        }
    }
}

impl core::error::Error for PlayError {}
