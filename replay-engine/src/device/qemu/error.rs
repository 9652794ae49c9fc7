//! Errors of QEMU devices.

use super::PACKAGE;
use crate::device::ReplayDeviceError;
use std::io;
use std::time::Duration;
use trace_core::screen::PictureError;

/// The reason why a QEMU device cannot be opened, or is gone.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// The text after `qemu:` names no device that is allowed.
    #[error("`qemu:{text}`: {reason}")]
    Name {
        /// The text as given.
        text: String,
        /// Why it is not valid.
        reason: String,
    },
    /// QEMU is not installed.
    #[error("QEMU is not installed: there is no `{program}` in PATH; on Debian it is in the package {PACKAGE}")]
    Absent {
        /// The program that was searched.
        program: &'static str,
    },
    /// The operating system refused an operation on QEMU's process.
    #[error("{doing}: {source}")]
    System {
        /// The failed operation, `QEMU could not be started`.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// QEMU's process ended.
    #[error("QEMU ended ({status}){}", said(.words))]
    Ended {
        /// How it ended.
        status: String,
        /// The last lines that it wrote to standard error.
        words: String,
    },
    /// QEMU did not answer in time.
    #[error("QEMU did not answer within {:?}", .limit)]
    Silent {
        /// The time limit.
        limit: Duration,
    },
    /// QEMU refused a request on the qtest socket.
    #[error("QEMU refused the {what}: {answer}")]
    Refused {
        /// The request: `write at 0x14 of bar2`.
        what: String,
        /// Its answer.
        answer: String,
    },
    /// An answer has no form of the protocol.
    #[error("QEMU answered the {what} with `{line}`, which is not a valid answer")]
    Odd {
        /// The request.
        what: String,
        /// The answer, shortened.
        line: String,
    },
    /// QEMU's monitor refused a command.
    #[error("QEMU's monitor refused {command}: {reason}")]
    Monitor {
        /// The command.
        command: &'static str,
        /// The reason.
        reason: String,
    },
    /// No function responds in the slot of the device.
    #[error("QEMU created `{device}`, but no PCI function answers for it")]
    NoFunction {
        /// The device.
        device: String,
    },
    /// The function has no window.
    #[error("`{device}` has no MMIO region for registers")]
    NoWindow {
        /// The device.
        device: String,
    },
    /// The function's windows do not fit the available address space.
    #[error("bar{bar} of `{device}` requests {bytes} bytes, which do not fit")]
    Room {
        /// The device.
        device: String,
        /// Number of the base address register.
        bar: u8,
        /// Its size.
        bytes: u64,
    },
    /// The screen picture cannot be read.
    #[error("the picture of the screen: {0}")]
    Picture(#[from] PictureError),
}

impl QemuError {
    /// Returns the error for a closed connection. The owner of the process knows more.
    pub(super) fn closed() -> Self {
        Self::Ended {
            status: "it closed its socket".to_owned(),
            words: String::new(),
        }
    }
}

fn said(words: &str) -> String {
    match words {
        "" => String::new(),
        w => format!(", with the message: {w}"),
    }
}

impl From<QemuError> for ReplayDeviceError {
    fn from(e: QemuError) -> Self {
        Self::Failed(e.to_string())
    }
}
