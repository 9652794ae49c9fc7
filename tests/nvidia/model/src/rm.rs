//! Ioctls of the resource manager.

mod allocation;
mod control;
mod control_values;
mod mapping;
mod object_tree;

use crate::caller::Caller;
use crate::card;
use crate::files::{DriverFile, State};
use crate::record::Record;
use crate::status::{RmResult, RmStatus, code};
use crate::system::Errno;
use nvidia_channel::rm::{ArgumentError, DeviceFile, RequestCode};
use std::os::fd::RawFd;

const RM_ALLOC_MEMORY: u8 = 0x27;
const RM_FREE: u8 = 0x29;
const RM_CONTROL: u8 = 0x2a;
const RM_ALLOC: u8 = 0x2b;
const RM_MAP_MEMORY: u8 = 0x4e;
const RM_UNMAP_MEMORY: u8 = 0x4f;
const RM_MAP_MEMORY_DMA: u8 = 0x57;
const RM_UNMAP_MEMORY_DMA: u8 = 0x58;
const RM_UPDATE_DEVICE_MAPPING_INFO: u8 = 0x5e;
const CARD_INFO: u8 = 0xc8;
const REGISTER_FD: u8 = 0xc9;
const ALLOC_OS_EVENT: u8 = 0xce;
const FREE_OS_EVENT: u8 = 0xcf;
const CHECK_VERSION_STR: u8 = 0xd2;
const IOCTL_XFER_CMD: u8 = 0xd3;
const ATTACH_GPUS_TO_FD: u8 = 0xd4;
const SYS_PARAMS: u8 = 0xd6;
const NUMA_INFO: u8 = 0xd7;
const WAIT_OPEN_COMPLETE: u8 = 0xda;

/// Maximum number of bytes of an argument that `IOCTL_XFER_CMD` transfers.
const MAX_TRANSFER_BYTES: u64 = 1 << 20;

impl State {
    /// Answers an ioctl of a control or device file.
    pub fn rm_ioctl(&mut self, caller: Caller, fd: RawFd, request: u32, address: u64) -> Result<i32, Errno> {
        let invalid = Errno(libc::EINVAL);
        let code = RequestCode::decode(request).ok_or(invalid)?;
        let bytes = caller.read_vec(address, usize::from(code.bytes))?;
        if code.number == ATTACH_GPUS_TO_FD {
            return Ok(0);
        }
        let mut argument = self.read_argument(request, bytes)?;
        if code.number == IOCTL_XFER_CMD {
            return self.transfer(caller, fd, &argument);
        }
        self.dispatch(caller, fd, code.number, &mut argument)?;
        caller.write(address, argument.bytes())?;
        Ok(0)
    }

    /// Reads an argument. An unknown request and another size than the branch has are errors of the ioctl itself.
    fn read_argument(&self, request: u32, bytes: Vec<u8>) -> Result<Record, Errno> {
        let argument = Record::argument(self.settings.branch, DeviceFile::Rm, request, bytes);
        argument.map_err(|error| match error {
            ArgumentError::UnknownRequest { .. } => Errno(libc::ENOTTY),
            _ => Errno(libc::EINVAL),
        })
    }

    /// Answers a request whose argument is elsewhere, because it is large.
    fn transfer(&mut self, caller: Caller, fd: RawFd, transfer: &Record) -> Result<i32, Errno> {
        let invalid = Errno(libc::EINVAL);
        let size = transfer.get("size");
        if size > MAX_TRANSFER_BYTES {
            return Err(invalid);
        }
        let number = u8::try_from(transfer.get("cmd")).map_err(|_| invalid)?;
        let bytes = u16::try_from(size).map_err(|_| invalid)?;
        let request = RequestCode { number, bytes }.encode().ok_or(invalid)?;
        if number == IOCTL_XFER_CMD {
            return Err(invalid);
        }
        let address = transfer.get("ptr");
        let mut argument = self.read_argument(request, caller.read_vec(address, usize::from(bytes))?)?;
        self.dispatch(caller, fd, number, &mut argument)?;
        caller.write(address, argument.bytes())?;
        Ok(0)
    }

    /// Answers a request by its number.
    fn dispatch(&mut self, caller: Caller, fd: RawFd, number: u8, argument: &mut Record) -> Result<(), Errno> {
        if let Err(status) = self.settings.check_request(u32::from(number)) {
            argument.set("status", u64::from(status.0));
            return Ok(());
        }
        let result: RmResult = match number {
            RM_ALLOC => self.allocate(caller, fd, argument),
            RM_ALLOC_MEMORY => self.allocate_program_memory(caller, argument),
            RM_FREE => self.free(argument.word("hRoot"), argument.word("hObjectOld")),
            RM_CONTROL => self.control(caller, argument),
            RM_MAP_MEMORY => self.map_memory(argument),
            RM_UNMAP_MEMORY => self.unmap_memory(argument),
            RM_MAP_MEMORY_DMA => self.map_dma(argument),
            RM_UNMAP_MEMORY_DMA => self.unmap_dma(argument),
            RM_UPDATE_DEVICE_MAPPING_INFO => self.find_memory(argument).map(|_| ()),
            CARD_INFO => {
                card::fill_card_info(argument);
                return Ok(());
            }
            REGISTER_FD => return self.register_file(fd, argument.descriptor("ctl_fd")),
            ALLOC_OS_EVENT | FREE_OS_EVENT => {
                let known = self.clients.contains_key(&argument.word("hClient"));
                argument.set("Status", if known { 0 } else { code(Err(RmStatus::INVALID_CLIENT)) });
                return Ok(());
            }
            CHECK_VERSION_STR => {
                self.check_version(argument);
                return Ok(());
            }
            SYS_PARAMS => {
                argument.set("memblock_size", card::MEMORY_BLOCK_BYTES);
                return Ok(());
            }
            NUMA_INFO => {
                card::fill_numa_info(argument);
                return Ok(());
            }
            WAIT_OPEN_COMPLETE => {
                argument.set("rc", 0);
                argument.set("adapterStatus", 0);
                return Ok(());
            }
            _ => Err(RmStatus::NOT_SUPPORTED),
        };
        argument.set("status", code(result));
        Ok(())
    }

    /// Joins a device file with the control file of its program.
    fn register_file(&mut self, fd: RawFd, control: RawFd) -> Result<(), Errno> {
        let invalid = Errno(libc::EINVAL);
        if self.file(control).is_none_or(|file| file.kind != DriverFile::Control) {
            return Err(invalid);
        }
        let file = self.file(fd).ok_or(invalid)?;
        if file.control.is_some() {
            return Err(invalid);
        }
        file.control = Some(control);
        Ok(())
    }

    /// Compares a version with the driver's, and returns the driver's.
    fn check_version(&self, argument: &mut Record) {
        let version = self.settings.version.as_bytes();
        let same = (0..version.len()).all(|n| argument.element("versionString", n) == u64::from(version[n]))
            && argument.element("versionString", version.len()) == 0;
        for n in 0..64 {
            let byte = version.get(n).copied().unwrap_or(0);
            argument.set_element("versionString", n, u64::from(byte));
        }
        argument.set("reply", u64::from(same));
    }
}
