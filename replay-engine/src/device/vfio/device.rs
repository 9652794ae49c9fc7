//! A device that VFIO gives to this program: its container and group, its regions, and memory for it.

use super::kernel::{self, Container, VfioError};
use crate::device::host::Host;
use crate::device::mapping::{HUGE, Mapping};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use trace_core::BusAddr;
use vfio_bindings::bindings::vfio as form;

/// Minimum bus address of memory. Address 0 and other small numbers, typical of bugs, are not mapped.
const LOWEST: BusAddr = BusAddr::new(16 << 20);

/// The location of a window in the device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Offset in the file.
    pub at: u64,
    /// Length, bytes; 0 if the device has no such window.
    pub bytes: u64,
    /// Whether it can be mapped.
    pub maps: bool,
}

/// A device behind an IOMMU. On drop the kernel takes it back, and stops the device's memory accesses.
#[derive(Debug)]
pub struct Vfio {
    // Fields are closed in this order.
    device: File,
    _group: File,
    container: Arc<Container>,
}

impl Vfio {
    /// Opens a device that is bound to the VFIO driver, by its group and its name.
    ///
    /// # Errors
    /// If the kernel refuses access.
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

    /// Returns the device file, which contains its windows.
    pub fn file(&self) -> std::io::Result<File> {
        self.device.try_clone()
    }

    /// Returns a window by its number. Windows of a PCI function are numbered by base address register.
    pub fn region(&self, index: u32) -> Result<Region, VfioError> {
        let (flags, at, bytes) = kernel::region(&self.device, index)?;
        Ok(Region {
            at,
            bytes,
            maps: flags & form::VFIO_REGION_INFO_FLAG_MMAP != 0,
        })
    }

    /// Returns the configuration space of a PCI function.
    pub fn config(&self) -> Result<Region, VfioError> {
        self.region(form::VFIO_PCI_CONFIG_REGION_INDEX)
    }

    /// Returns whether the kernel can reset it.
    pub fn can_reset(&self) -> Result<bool, VfioError> {
        kernel::can_reset(&self.device)
    }

    /// Resets it.
    pub fn reset(&self) -> Result<(), VfioError> {
        kernel::reset(&self.device)
    }

    /// Returns a file that counts interrupts of a PCI function's line, or `None` if it has no line.
    pub fn interrupt(&self) -> Result<Option<OwnedFd>, VfioError> {
        if kernel::interrupts(&self.device, form::VFIO_PCI_INTX_IRQ_INDEX)? == 0 {
            return Ok(None);
        }
        let event = kernel::create_event()?;
        kernel::set_interrupt_event(&self.device, form::VFIO_PCI_INTX_IRQ_INDEX, &event)?;
        Ok(Some(event))
    }

    /// Unmasks the interrupt line of a PCI function. An interrupt that is still active is counted again.
    pub fn unmask(&self) -> Result<(), VfioError> {
        kernel::unmask(&self.device, form::VFIO_PCI_INTX_IRQ_INDEX)
    }

    /// Allocates memory as the only memory that the device can access: at most `max` bytes, at addresses below
    /// `limit`. It is less if the machine has less.
    pub fn memory(&self, max: u64, limit: u64) -> Result<(DmaMapping, Mapping), String> {
        let ranges = self.container.ranges().map_err(|e| e.to_string())?;
        let mut bytes = max / HUGE * HUGE;
        let mut why = "none was requested, or less than 2 MiB".to_owned();
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

    fn reach(&self, mapping: Mapping, at: BusAddr) -> Result<(DmaMapping, Mapping), VfioError> {
        self.container.map(&mapping, at)?;
        let reached = DmaMapping {
            container: Arc::clone(&self.container),
            at,
            bytes: mapping.bytes(),
        };
        Ok((reached, mapping))
    }
}

/// A DMA mapping of memory for a device, valid until it is dropped.
#[derive(Debug)]
pub struct DmaMapping {
    container: Arc<Container>,
    /// Its first bus address.
    pub at: BusAddr,
    bytes: u64,
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        if let Err(e) = self.container.unmap(self.at, self.bytes) {
            tracing::error!("{e}");
        }
    }
}

/// Returns the lowest address for `bytes` bytes in address ranges (first and last), aligned to a huge page.
fn place(ranges: &[(BusAddr, BusAddr)], bytes: u64, limit: u64) -> Option<BusAddr> {
    let fits = |(first, last): &(BusAddr, BusAddr)| {
        let at = (*first).max(LOWEST).align_up(HUGE)?;
        let end = at.checked_add(bytes)?;
        (end.get() - 1 <= last.get() && end.get() <= limit).then_some(at)
    };
    ranges.iter().filter_map(fits).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_allocated_within_dma_mask_and_iommu_ranges() {
        let all = [(0, u64::MAX)];
        let place = |ranges: &[(u64, u64)], bytes, limit| {
            let ranges: Vec<_> = ranges
                .iter()
                .map(|(a, b)| (BusAddr::new(*a), BusAddr::new(*b)))
                .collect();
            place(&ranges, bytes, limit)
        };
        let mib = |n: u64| n << 20;
        assert_eq!(place(&all, mib(64), 1 << 32), Some(LOWEST));
        assert_eq!(place(&all, mib(64), 1 << 28), Some(LOWEST));
        assert_eq!(place(&all, mib(64), mib(80)), Some(LOWEST));
        assert_eq!(place(&all, mib(64), mib(79)), None);
        assert_eq!(
            place(&[(0, mib(20) - 1), (mib(21), mib(200))], mib(64), 1 << 28),
            Some(BusAddr::new(mib(22)))
        );
        assert_eq!(place(&[(0, mib(20) - 1)], mib(4), 1 << 28), Some(LOWEST));
        assert_eq!(place(&[(0, mib(20) - 2)], mib(4), 1 << 28), None);
        assert_eq!(place(&[(u64::MAX, u64::MAX)], mib(2), u64::MAX), None);
        assert_eq!(place(&all, u64::MAX, u64::MAX), None);
        assert_eq!(place(&[], mib(2), 1 << 32), None);
    }
}
