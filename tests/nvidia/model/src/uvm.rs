//! Ioctls of unified memory, as far as a program needs them to map memory of the resource manager.

use crate::caller::Caller;
use crate::files::{DriverFile, State, UvmFile};
use crate::objects::Body;
use crate::record::Record;
use crate::status::{RmResult, RmStatus, code};
use crate::system::Errno;
use nvidia_channel::GpuVa;
use nvidia_channel::rm::{DeviceFile, Request, Structure};
use std::os::fd::RawFd;

const INITIALIZE: u32 = 0x3000_0001;
const MM_INITIALIZE: u32 = 0x4b;
const CREATE_RANGE_GROUP: u32 = 0x17;
const REGISTER_GPU: u32 = 0x25;
const REGISTER_GPU_VASPACE: u32 = 0x19;
const UNREGISTER_GPU_VASPACE: u32 = 0x1a;
const REGISTER_CHANNEL: u32 = 0x1b;
const UNREGISTER_CHANNEL: u32 = 0x1c;
const MAP_EXTERNAL_ALLOCATION: u32 = 0x21;
const FREE: u32 = 0x22;
const CREATE_EXTERNAL_RANGE: u32 = 0x49;
/// Requests that succeed without an effect: they are about pages that move.
const WITHOUT_EFFECT: [u32; 5] = [0x18, 0x26, 0x27, 0x33, 0x48];
const MAP_DYNAMIC_PARALLELISM_REGION: u32 = 0x41;
const ALLOC_SEMAPHORE_POOL: u32 = 0x44;

impl State {
    /// Answers an ioctl of a file of unified memory.
    pub fn uvm_ioctl(&mut self, caller: Caller, fd: RawFd, request: u32, address: u64) -> Result<i32, Errno> {
        let known = Request::find(DeviceFile::Uvm, request).ok_or(Errno(libc::ENOTTY))?;
        let structure = known.structures.first();
        let structure = structure.and_then(|name| Structure::find(name, self.settings.branch));
        let structure = structure.ok_or(Errno(libc::EINVAL))?;
        let bytes = caller.read_vec(address, structure.bytes)?;
        let argument = Record::argument(self.settings.branch, DeviceFile::Uvm, request, bytes);
        let mut argument = argument.map_err(|_| Errno(libc::EINVAL))?;
        let result = self.run_uvm(fd, request, &mut argument);
        argument.set("rmStatus", code(result));
        caller.write(address, argument.bytes())?;
        Ok(0)
    }

    fn run_uvm(&mut self, fd: RawFd, request: u32, argument: &mut Record) -> RmResult {
        let file = self.file(fd).ok_or(RmStatus::INVALID_ARGUMENT)?;
        if request == INITIALIZE {
            file.uvm.initialized = true;
            return Ok(());
        }
        if request == MM_INITIALIZE {
            let other = self.file(argument.descriptor("uvmFd"));
            let ready = other.is_some_and(|f| f.kind == DriverFile::Uvm && f.uvm.initialized);
            return ready.then_some(()).ok_or(RmStatus::INVALID_ARGUMENT);
        }
        if !file.uvm.initialized {
            return Err(RmStatus::INVALID_STATE);
        }
        let uvm = &mut file.uvm;
        let base = argument.get("base");
        match request {
            REGISTER_GPU => {
                uvm.gpu = true;
                argument.set("numaEnabled", 0);
                argument.set("numaNodeId", u64::MAX);
                Ok(())
            }
            CREATE_RANGE_GROUP => {
                uvm.range_groups += 1;
                argument.set("rangeGroupId", uvm.range_groups);
                Ok(())
            }
            CREATE_EXTERNAL_RANGE | ALLOC_SEMAPHORE_POOL | MAP_DYNAMIC_PARALLELISM_REGION => {
                let bytes = argument.get("length");
                let end = base.checked_add(bytes).filter(|_| bytes > 0);
                let end = end.ok_or(RmStatus::INVALID_ADDRESS)?;
                let before = uvm.ranges.range(..end).next_back();
                if before.is_some_and(|(start, bytes)| start.saturating_add(*bytes) > base) {
                    return Err(RmStatus::INVALID_ADDRESS);
                }
                uvm.ranges.insert(base, bytes);
                Ok(())
            }
            UNREGISTER_GPU_VASPACE => {
                uvm.space = None;
                Ok(())
            }
            REGISTER_GPU_VASPACE => {
                if !uvm.gpu {
                    return Err(RmStatus::INVALID_STATE);
                }
                let space = self.space(argument.word("hClient"), argument.word("hVaSpace"))?;
                let file = self.file(fd).ok_or(RmStatus::INVALID_ARGUMENT)?;
                file.uvm.space = Some(space);
                Ok(())
            }
            REGISTER_CHANNEL | UNREGISTER_CHANNEL => {
                let channel = self.object(argument.word("hClient"), argument.word("hChannel"))?;
                match channel.body {
                    Body::Channel(_) => Ok(()),
                    _ => Err(RmStatus::INVALID_OBJECT),
                }
            }
            MAP_EXTERNAL_ALLOCATION => self.map_external(fd, argument),
            FREE => {
                let bytes = uvm.ranges.remove(&base).ok_or(RmStatus::INVALID_ADDRESS)?;
                let space = uvm.space;
                let space = space.and_then(|id| self.gpu.spaces.get_mut(&id));
                if let Some(space) = space {
                    space.unmap_range(GpuVa(base), bytes);
                }
                Ok(())
            }
            request if WITHOUT_EFFECT.contains(&request) => Ok(()),
            _ => Err(RmStatus::NOT_SUPPORTED),
        }
    }

    /// Gives memory of the resource manager the addresses of a range.
    fn map_external(&mut self, fd: RawFd, argument: &Record) -> RmResult {
        let (base, bytes) = (argument.get("base"), argument.get("length"));
        let file = self.file(fd).ok_or(RmStatus::INVALID_ARGUMENT)?;
        let end = base.checked_add(bytes).ok_or(RmStatus::INVALID_ADDRESS)?;
        let range = file.uvm.ranges.range(..=base).next_back();
        if range.is_none_or(|(start, size)| start.saturating_add(*size) < end) {
            return Err(RmStatus::INVALID_ADDRESS);
        }
        let space = file.uvm.space.ok_or(RmStatus::INVALID_STATE)?;
        let memory = self.memory(argument.word("hClient"), argument.word("hMemory"))?;
        let memory = std::sync::Arc::clone(memory);
        let offset = argument.get("offset");
        self.map_in_space(space, Some(GpuVa(base)), &memory, offset, bytes)?;
        Ok(())
    }

    /// Removes the mappings of a closed file.
    pub fn unmap_ranges(&mut self, uvm: &UvmFile) {
        let space = uvm.space.and_then(|id| self.gpu.spaces.get_mut(&id));
        if let Some(space) = space {
            for (base, bytes) in &uvm.ranges {
                space.unmap_range(GpuVa(*base), *bytes);
            }
        }
    }
}
