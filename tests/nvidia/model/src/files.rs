//! Open device files, and the state that all of them share.

use crate::card;
use crate::gpu::memory::Memory;
use crate::gpu::{Gpu, SpaceId};
use crate::objects::Client;
use crate::settings::Settings;
use crate::system::{self, Errno};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::Weak;

/// A file of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverFile {
    /// `/dev/nvidiactl`.
    Control,
    /// `/dev/nvidia0`.
    Device,
    /// `/dev/nvidia-uvm`.
    Uvm,
    /// `/proc/driver/nvidia/version`.
    Version,
    /// The text about the GPU in its folder of `/proc/driver/nvidia/gpus`.
    Information,
    /// A GPU that does not exist.
    Missing,
}

impl DriverFile {
    /// Returns the file of a path, or `None` if the driver does not have it.
    pub fn from_path(path: &[u8]) -> Option<Self> {
        match path {
            b"/dev/nvidiactl" => Some(Self::Control),
            b"/dev/nvidia0" => Some(Self::Device),
            b"/dev/nvidia-uvm" => Some(Self::Uvm),
            b"/proc/driver/nvidia/version" => Some(Self::Version),
            b"/proc/driver/nvidia/gpus/0000:00:06.0/information" => Some(Self::Information),
            _ => {
                let number = path.strip_prefix(b"/dev/nvidia")?;
                (!number.is_empty() && number.iter().all(u8::is_ascii_digit)).then_some(Self::Missing)
            }
        }
    }
}

/// Memory that the next `mmap` of a file shows.
#[derive(Debug, Clone)]
pub struct FileMapping {
    pub memory: Weak<Memory>,
    pub offset: u64,
    pub bytes: u64,
}

/// State of a file of unified memory.
#[derive(Debug, Default)]
pub struct UvmFile {
    pub initialized: bool,
    /// The program registered the GPU.
    pub gpu: bool,
    /// Address space that the program registered.
    pub space: Option<SpaceId>,
    /// Sizes of ranges in bytes by their first address.
    pub ranges: BTreeMap<u64, u64>,
    /// Number of range groups.
    pub range_groups: u64,
}

/// An open device file.
#[derive(Debug)]
pub struct OpenFile {
    pub kind: DriverFile,
    /// Device and inode: another file may have got the descriptor.
    identity: (u64, u64),
    /// The control file that a device file belongs to.
    pub control: Option<RawFd>,
    pub mapping: Option<FileMapping>,
    pub uvm: UvmFile,
}

/// The state of the driver.
#[derive(Debug)]
pub struct State {
    pub settings: Settings,
    pub gpu: Gpu,
    pub clients: BTreeMap<u32, Client>,
    pub files: BTreeMap<RawFd, OpenFile>,
    pub next_client: u32,
}

impl State {
    /// Returns the state of a driver that nobody has opened.
    pub fn new(settings: Settings) -> Result<Self, Errno> {
        Ok(Self {
            settings,
            gpu: Gpu::new()?,
            clients: BTreeMap::new(),
            files: BTreeMap::new(),
            next_client: 0,
        })
    }

    /// Opens a file of the driver.
    pub fn open(&mut self, kind: DriverFile, close_on_exec: bool) -> Result<RawFd, Errno> {
        let name = match kind {
            DriverFile::Control => c"nvidiactl",
            DriverFile::Device => c"nvidia0",
            DriverFile::Uvm => c"nvidia-uvm",
            DriverFile::Version => return open_text(c"nvidia-version", &self.version_text(), close_on_exec),
            DriverFile::Information => return open_text(c"nvidia-information", &information_text(), close_on_exec),
            DriverFile::Missing => return Err(Errno(libc::ENOENT)),
        };
        let fd = system::create_memory_file(name, 0, close_on_exec)?;
        let file = OpenFile {
            kind,
            identity: system::file_identity(fd).ok_or(Errno(libc::EBADF))?,
            control: None,
            mapping: None,
            uvm: UvmFile::default(),
        };
        if let Some(stale) = self.files.insert(fd, file) {
            self.clean_up(fd, &stale);
        }
        Ok(fd)
    }

    /// Returns the text that names the version of the driver.
    fn version_text(&self) -> String {
        format!(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (model)\n\
             GCC version:  gcc version 13.3.0\n",
            self.settings.version
        )
    }

    /// Returns an open file. A descriptor that was closed without the model's knowledge is forgotten.
    pub fn file(&mut self, fd: RawFd) -> Option<&mut OpenFile> {
        let identity = self.files.get(&fd)?.identity;
        if system::file_identity(fd) != Some(identity) {
            if let Some(stale) = self.files.remove(&fd) {
                self.clean_up(fd, &stale);
            }
            return None;
        }
        self.files.get_mut(&fd)
    }

    /// Closes a file, and frees its clients. Returns `None` if the descriptor is not one of the driver's.
    pub fn close(&mut self, fd: RawFd) -> Option<Result<(), Errno>> {
        self.file(fd)?;
        let file = self.files.remove(&fd)?;
        self.clean_up(fd, &file);
        Some(system::close(fd))
    }

    /// Frees what belongs to a file.
    fn clean_up(&mut self, fd: RawFd, file: &OpenFile) {
        let clients: Vec<u32> = self
            .clients
            .iter()
            .filter(|(_, c)| c.file == fd)
            .map(|(h, _)| *h)
            .collect();
        if file.kind == DriverFile::Control {
            for client in clients {
                self.free_client(client);
            }
        }
        self.unmap_ranges(&file.uvm);
    }
}

/// Returns the text about the GPU.
fn information_text() -> String {
    format!(
        "Model: \t\t {}\nIRQ:   \t\t 41\nBus Type: \t PCIe\nBus Location: \t {}\nDevice Minor: \t 0\n",
        card::NAME,
        card::BUS_LOCATION
    )
}

/// Opens a text as a file.
fn open_text(name: &CStr, text: &str, close_on_exec: bool) -> Result<RawFd, Errno> {
    let fd = system::create_memory_file(name, 0, close_on_exec)?;
    system::write_file(fd, text.as_bytes())?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_driver() {
        for (path, file) in [
            ("/dev/nvidiactl", Some(DriverFile::Control)),
            ("/dev/nvidia0", Some(DriverFile::Device)),
            ("/dev/nvidia1", Some(DriverFile::Missing)),
            ("/dev/nvidia-uvm", Some(DriverFile::Uvm)),
            ("/dev/nvidia-uvm-tools", None),
            ("/dev/nvidia", None),
            ("/proc/driver/nvidia/version", Some(DriverFile::Version)),
            (
                &format!("{}/{}/information", crate::GPU_FOLDER, crate::GPU_NAMES[0]),
                Some(DriverFile::Information),
            ),
        ] {
            assert_eq!(DriverFile::from_path(path.as_bytes()), file, "{path}");
        }
    }
}
