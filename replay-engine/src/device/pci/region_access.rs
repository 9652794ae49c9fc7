//! The windows of a function and their access methods: a mapping, or a file if there is none.

use super::error::PciError;
use super::function::Function;
use crate::device::Window;
use crate::device::host::Host;
use crate::device::mapping::Mapping;
use crate::device::vfio::Vfio;
use crate::device::windows::{FoundRegion, numbers};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use trace_core::recording::Bar;
use trace_core::registers::RegisterMap;
use trace_core::{BusAddr, PAGE_SIZE};

/// The access method of a window.
#[derive(Debug)]
pub(super) enum RegionAccess {
    /// A load or a store.
    Memory(Mapping),
    /// A system call per access, for ports and for memory windows that cannot be mapped.
    File(FileRegion),
}

/// A window in a file.
#[derive(Debug)]
pub(super) struct FileRegion {
    file: File,
    /// Start offset in the file.
    at: u64,
    bytes: u64,
}

impl FileRegion {
    /// Reads from the window. Returns `None` if the access is not valid in it.
    pub fn read(&self, offset: u64, width: u8) -> Option<io::Result<u64>> {
        let mut value = [0; 8];
        let to = value.get_mut(..self.length(offset, width)?)?;
        let read = self.file.read_exact_at(to, self.at.checked_add(offset)?);
        Some(read.map(|()| u64::from_le_bytes(value)))
    }

    /// Writes to the window. Returns `None` if the access is not valid in it.
    pub fn write(&self, offset: u64, width: u8, value: u64) -> Option<io::Result<()>> {
        let value = value.to_le_bytes();
        let from = value.get(..self.length(offset, width)?)?;
        Some(self.file.write_all_at(from, self.at.checked_add(offset)?))
    }

    /// Returns the length of an aligned access inside the window.
    fn length(&self, offset: u64, width: u8) -> Option<usize> {
        let end = offset.checked_add(width.into())?;
        let sound = matches!(width, 1 | 2 | 4) && end <= self.bytes && offset.is_multiple_of(width.into());
        sound.then_some(width.into())
    }
}

/// The source of a function's windows.
#[derive(Clone, Copy, Debug)]
pub(super) enum RegionSource<'a> {
    /// The kernel's files of the function.
    Files(&'a Host),
    /// The VFIO device.
    Vfio(&'a Vfio),
}

impl RegionSource<'_> {
    fn way(&self, function: &Function, bar: &Bar) -> Result<RegionAccess, PciError> {
        let address = function.address;
        let failed = |source| PciError::Map {
            address,
            bar: bar.number,
            source,
        };
        match self {
            Self::Files(host) => {
                let path = format!("{}/resource{}", address.folder(), bar.number);
                let file = host.open(path, true);
                let file = file.map_err(|source| PciError::Host { address, source })?;
                if bar.ports {
                    let bytes = bar.bytes;
                    return Ok(RegionAccess::File(FileRegion { file, at: 0, bytes }));
                }
                // The kernel maps whole pages; a window that starts inside a page has the same offset in the mapping.
                let mapped = Mapping::map_file(&file, bar.base.get() % PAGE_SIZE as u64, bar.bytes);
                mapped.map(RegionAccess::Memory).map_err(failed)
            }
            Self::Vfio(vfio) => {
                let region = vfio.region(bar.number.into());
                let region = region.map_err(|source| PciError::Vfio { address, source })?;
                let file = vfio.file().map_err(failed)?;
                let bytes = bar.bytes.min(region.bytes);
                if region.maps && !bar.ports {
                    return Mapping::map_file(&file, region.at, bytes)
                        .map(RegionAccess::Memory)
                        .map_err(failed);
                }
                let at = region.at;
                Ok(RegionAccess::File(FileRegion { file, at, bytes }))
            }
        }
    }
}

/// Returns a function's windows by space number, with their access methods.
pub(super) fn windows(
    source: RegionSource<'_>,
    function: &Function,
    map: Option<&RegisterMap>,
) -> Result<(Vec<Window>, Vec<Option<RegionAccess>>), PciError> {
    let address = function.address;
    let bars: Vec<_> = function.pci.bars.iter().filter(|b| b.base != BusAddr::ZERO).collect();
    let names: Vec<String> = bars.iter().map(|b| b.space_name()).collect();
    let found: Vec<FoundRegion<'_>> = bars
        .iter()
        .zip(&names)
        .map(|(b, name)| FoundRegion {
            name,
            bytes: b.bytes,
            ports: b.ports,
            // With a register map, only windows that it calls framebuffer are. Without a map, the function's own flags
            // decide.
            plain: match map {
                Some(map) => map.framebuffers().contains(name),
                None => b.prefetchable,
            },
        })
        .collect();
    let numbers = numbers(&found, map).ok_or(PciError::NoWindow { address })?;
    let mut windows = Vec::new();
    let mut ways: Vec<Option<RegionAccess>> = Vec::new();
    for ((bar, found), number) in bars.iter().zip(&found).zip(numbers) {
        let way = source.way(function, bar)?;
        let at = usize::from(number);
        if ways.len() <= at {
            ways.resize_with(at + 1, || None);
        }
        if let Some(place) = ways.get_mut(at) {
            *place = Some(way);
        }
        windows.push(Window {
            number,
            name: found.name.to_owned(),
            kind: found.kind(),
            bytes: bar.bytes,
        });
    }
    windows.sort_by_key(|w| w.number);
    Ok((windows, ways))
}
