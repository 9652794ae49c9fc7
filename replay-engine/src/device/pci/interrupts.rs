//! The interrupt of a function: forwarded by the kernel, or polled in configuration space.

use super::config::{Config, command};
use super::error::PciError;
use super::name::Address;
use crate::device::host::Host;
use crate::device::vfio::{Vfio, VfioError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Polling interval of configuration space.
const STEP: Duration = Duration::from_micros(100);

/// How a function's interrupt is received.
#[derive(Debug)]
pub(super) enum Interrupts {
    /// Through a file that becomes readable on an interrupt. The kernel masks the line each time, in the command
    /// register.
    File(File),
    /// Through an event that VFIO counts. The kernel masks the line each time.
    Event(Arc<Vfio>, File),
    /// By polling the status register, which shows the interrupt while the line is masked.
    Status,
}

impl Interrupts {
    /// Opens the interrupt of a function through its UIO driver, or by status if it is not bound to that driver.
    pub fn open(host: &Host, address: Address) -> Result<Self, PciError> {
        let names = host.list(format!("{}/uio", address.folder()));
        let Some(name) = names.iter().find(|n| is_plain(n)) else {
            return Ok(Self::Status);
        };
        let path = host.path(format!("dev/{name}"));
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(&path);
        let file = opened.map_err(|source| PciError::Host {
            address,
            source: crate::device::host::HostError {
                doing: "opening",
                path,
                source,
            },
        })?;
        Ok(Self::File(file))
    }

    /// Opens the interrupt of a VFIO function, or by status if it has no line.
    pub fn from_vfio(vfio: &Arc<Vfio>) -> Result<Self, VfioError> {
        let event = vfio.interrupt()?;
        Ok(event.map_or(Self::Status, |e| Self::Event(Arc::clone(vfio), e.into())))
    }

    /// Returns a description for the user.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::File(_) => "interrupts by uio_pci_generic",
            Self::Event(..) => "interrupts by VFIO",
            Self::Status => "interrupts by polling its status",
        }
    }

    /// Waits until the function requests its interrupt, at most `limit`.
    ///
    /// An interrupt line is a level. A line that is active counts, even if it was seen before. A line that was active
    /// and was acknowledged does not count. So earlier kernel counts are skipped, and the status register decides.
    pub fn wait(&self, config: &Config, limit: Duration) -> Result<bool, PciError> {
        if config.is_interrupt_pending()? {
            return Ok(true);
        }
        match self {
            Self::File(file) => {
                let mut count = [0; 4];
                // Normally there is nothing to read.
                while matches!((&*file).read(&mut count), Ok(4)) {}
                config.command(0, command::NO_INTERRUPT)?;
                readable(file, limit);
                let came = matches!((&*file).read(&mut count), Ok(4));
                // An interrupt from before the unmasking may not have been forwarded.
                Ok(came || config.is_interrupt_pending()?)
            }
            Self::Event(vfio, file) => {
                let mut count = [0; 8];
                while matches!((&*file).read(&mut count), Ok(8)) {}
                config.command(0, command::NO_INTERRUPT)?;
                let address = config.address();
                // An active line is counted again.
                vfio.unmask().map_err(|source| PciError::Vfio { address, source })?;
                readable(file, limit);
                Ok(matches!((&*file).read(&mut count), Ok(8)))
            }
            Self::Status => {
                let start = Instant::now();
                loop {
                    let left = limit.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    std::thread::sleep(STEP.min(left));
                    if config.is_interrupt_pending()? {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// Returns whether a name is valid as a file in `/dev`.
fn is_plain(name: &str) -> bool {
    let number = name.strip_prefix("uio");
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Waits until a file is readable, at most `limit`. An error of the wait shows in the following read.
fn readable(file: &File, limit: Duration) {
    let start = Instant::now();
    loop {
        let left = limit.saturating_sub(start.elapsed());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut files = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut files, Some(&timeout)) {
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}
