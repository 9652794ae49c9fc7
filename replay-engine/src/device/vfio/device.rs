//! A device that VFIO gives to this program: its container with its group, what the device has, memory for it.

use super::kernel::{self, Container, VfioError};
use crate::device::host::Host;
use crate::device::mapping::{HUGE, Mapping};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vfio_bindings::bindings::vfio as form;

/// Where memory begins at the earliest: neither address 0 nor a small number, which mistakes give, leads there.
const LOWEST: u64 = 16 << 20;

/// A window of a device, where its file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte in the file.
    pub at: u64,
    /// Bytes; none where the device has no such window.
    pub bytes: u64,
    /// Whether it can be mapped.
    pub maps: bool,
}

/// A device behind an IOMMU. The kernel takes all of it back when this ends, and stops the device's accesses to memory.
#[derive(Debug)]
pub struct Vfio {
    // Closed in this order.
    device: File,
    _group: File,
    container: Arc<Container>,
}

impl Vfio {
    /// Opens a device that is bound to VFIO's driver, by its group and its name.
    ///
    /// # Errors
    /// When the kernel does not give it.
    pub fn open(host: &Host, group: u32, name: &str) -> Result<Self, VfioError> {
        let container = Container::open(host)?;
        let group = kernel::join(host, group, &container)?;
        container.set_up()?;
        Ok(Self {
            device: kernel::device(&group, name)?,
            _group: group,
            container: Arc::new(container),
        })
    }

    /// The device's file, in which its windows lie.
    pub fn file(&self) -> std::io::Result<File> {
        self.device.try_clone()
    }

    /// A window by its number: those of a PCI function are numbered as its base address registers.
    pub fn region(&self, index: u32) -> Result<Region, VfioError> {
        let (flags, at, bytes) = kernel::region(&self.device, index)?;
        Ok(Region {
            at,
            bytes,
            maps: flags & form::VFIO_REGION_INFO_FLAG_MMAP != 0,
        })
    }

    /// Configuration space of a PCI function.
    pub fn config(&self) -> Result<Region, VfioError> {
        self.region(form::VFIO_PCI_CONFIG_REGION_INDEX)
    }

    /// Whether the kernel can reset it.
    pub fn can_reset(&self) -> Result<bool, VfioError> {
        kernel::can_reset(&self.device)
    }

    /// Resets it.
    pub fn reset(&self) -> Result<(), VfioError> {
        kernel::reset(&self.device)
    }

    /// A file that counts interrupts of a PCI function's line; `None` for a function without one.
    pub fn interrupt(&self) -> Result<Option<OwnedFd>, VfioError> {
        if kernel::interrupts(&self.device, form::VFIO_PCI_INTX_IRQ_INDEX)? == 0 {
            return Ok(None);
        }
        let event = kernel::create_event()?;
        kernel::set_interrupt_event(&self.device, form::VFIO_PCI_INTX_IRQ_INDEX, &event)?;
        Ok(Some(event))
    }

    /// Lets the interrupt of a PCI function's line through again. One that is still asked for is counted again.
    pub fn unmask(&self) -> Result<(), VfioError> {
        kernel::unmask(&self.device, form::VFIO_PCI_INTX_IRQ_INDEX)
    }

    /// Memory that the device reaches, and nothing but it: `most` bytes at most, at addresses below `limit`. Less where
    /// the machine does not give so much.
    pub fn memory(&self, most: u64, limit: u64) -> Result<(DmaMapping, Mapping), String> {
        let ranges = self.container.ranges().map_err(|e| e.to_string())?;
        let mut bytes = most / HUGE * HUGE;
        let mut why = "none was asked for, or less than 2 MiB".to_owned();
        while bytes > 0 {
            let Some(at) = place(&ranges, bytes, limit) else {
                why = format!("the IOMMU maps no {} MiB below {limit:#x}", bytes >> 20);
                bytes = bytes / 2 / HUGE * HUGE;
                continue;
            };
            let mapped = Mapping::map_anonymous(bytes).map_err(|e| e.to_string());
            match mapped.and_then(|m| self.reach(m, at).map_err(|e| e.to_string())) {
                Ok(both) => return Ok(both),
                Err(e) => why = e,
            }
            bytes = bytes / 2 / HUGE * HUGE;
        }
        Err(why)
    }

    fn reach(&self, mapping: Mapping, at: u64) -> Result<(DmaMapping, Mapping), VfioError> {
        self.container.map(&mapping, at)?;
        let reached = DmaMapping {
            container: Arc::clone(&self.container),
            at,
            bytes: mapping.bytes(),
        };
        Ok((reached, mapping))
    }
}

/// Memory that a device reaches for as long as this is kept.
#[derive(Debug)]
pub struct DmaMapping {
    container: Arc<Container>,
    /// Its first address on the bus.
    pub at: u64,
    bytes: u64,
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        if let Err(e) = self.container.unmap(self.at, self.bytes) {
            tracing::error!("{e}");
        }
    }
}

/// The lowest place for so many bytes in ranges of addresses (first and last), on a boundary of a huge page.
fn place(ranges: &[(u64, u64)], bytes: u64, limit: u64) -> Option<u64> {
    let fits = |(first, last): &(u64, u64)| {
        let at = (*first).max(LOWEST).checked_next_multiple_of(HUGE)?;
        let end = at.checked_add(bytes)?;
        (end - 1 <= *last && end <= limit).then_some(at)
    };
    ranges.iter().filter_map(fits).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lies_low_enough_for_the_device_and_where_the_iommu_maps() {
        let all = [(0, u64::MAX)];
        let mib = |n: u64| n << 20;
        assert_eq!(place(&all, mib(64), 1 << 32), Some(LOWEST));
        assert_eq!(place(&all, mib(64), 1 << 28), Some(LOWEST));
        assert_eq!(place(&all, mib(64), mib(80)), Some(LOWEST));
        assert_eq!(place(&all, mib(64), mib(79)), None);
        assert_eq!(
            place(&[(0, mib(20) - 1), (mib(21), mib(200))], mib(64), 1 << 28),
            Some(mib(22))
        );
        assert_eq!(place(&[(0, mib(20) - 1)], mib(4), 1 << 28), Some(LOWEST));
        assert_eq!(place(&[(0, mib(20) - 2)], mib(4), 1 << 28), None);
        assert_eq!(place(&[(u64::MAX, u64::MAX)], mib(2), u64::MAX), None);
        assert_eq!(place(&all, u64::MAX, u64::MAX), None);
        assert_eq!(place(&[], mib(2), 1 << 32), None);
    }
}
