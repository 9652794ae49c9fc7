//! The ioctls of the resource manager that a client makes.
#![allow(
    unsafe_code,
    reason = "arguments hold pointers to parameters, which are buffers of the caller during the call"
)]

use crate::argument::{Argument, put, u32_at, u64_at};
use crate::{ClientError, DriverBranch, File, Kernel, Operation};

/// Status of success.
const OK: u32 = 0;

/// Numbers of requests.
pub(crate) mod number {
    pub const FREE: u32 = 0x29;
    pub const CONTROL: u32 = 0x2a;
    pub const ALLOC: u32 = 0x2b;
    pub const MAP_MEMORY: u32 = 0x4e;
    pub const UNMAP_MEMORY: u32 = 0x4f;
    pub const MAP_MEMORY_DMA: u32 = 0x57;
    pub const UNMAP_MEMORY_DMA: u32 = 0x58;
    pub const CARD_INFO: u32 = 0xc8;
    pub const REGISTER_FD: u32 = 0xc9;
}

/// Returns the request of a number and a size of its argument: direction read and write, type `F`.
pub(crate) fn request(number: u32, bytes: usize) -> u32 {
    3 << 30 | (bytes as u32 & 0x3fff) << 16 | 0x46 << 8 | number
}

/// The files of a client, and the handle of its root.
#[derive(Debug)]
pub(crate) struct Calls<K> {
    pub kernel: K,
    pub branch: DriverBranch,
    /// `/dev/nvidiactl`.
    pub control_file: File,
    /// Handle of the client.
    pub root: u32,
}

impl<K: Kernel> Calls<K> {
    /// Makes an ioctl on a file.
    pub fn ioctl(
        &mut self,
        file: File,
        number: u32,
        operation: Operation,
        argument: &mut [u8],
    ) -> Result<(), ClientError> {
        let request = request(number, argument.len());
        // SAFETY: pointers in the argument name buffers that the callers in this file borrow during the call.
        let made = unsafe { self.kernel.ioctl(file, request, argument) };
        made.map_err(|error| ClientError::System { operation, error })
    }

    fn on_control(
        &mut self,
        number: u32,
        operation: Operation,
        argument: &mut [u8],
        status_at: usize,
    ) -> Result<(), ClientError> {
        let file = self.control_file;
        self.ioctl(file, number, operation, argument)?;
        match u32_at(argument, status_at) {
            OK => Ok(()),
            status => Err(ClientError::Refused { operation, status }),
        }
    }

    /// Allocates an object and returns its handle, which the driver chooses. `parameters` may be empty.
    pub fn allocate(&mut self, parent: u32, class: u32, parameters: &mut [u8]) -> Result<u32, ClientError> {
        let mut argument = Argument::<32>::new()
            .with_u32(0, self.root)
            .with_u32(4, parent)
            .with_u32(12, class);
        if !parameters.is_empty() {
            argument.put(16, &(parameters.as_mut_ptr() as u64).to_le_bytes());
            argument.put(24, &(parameters.len() as u32).to_le_bytes());
        }
        self.on_control(number::ALLOC, Operation::Allocate(class), &mut argument.0, 28)?;
        Ok(argument.u32(8))
    }

    /// Makes a control call on an object. `parameters` may be empty.
    pub fn control(&mut self, object: u32, command: u32, parameters: &mut [u8]) -> Result<(), ClientError> {
        let mut argument = Argument::<32>::new()
            .with_u32(0, self.root)
            .with_u32(4, object)
            .with_u32(8, command);
        if !parameters.is_empty() {
            argument.put(16, &(parameters.as_mut_ptr() as u64).to_le_bytes());
            argument.put(24, &(parameters.len() as u32).to_le_bytes());
        }
        self.on_control(number::CONTROL, Operation::Control(command), &mut argument.0, 28)
    }

    /// Makes a control call whose parameters point to a list: the list follows `parameter_bytes` of parameters in the
    /// same buffer, and the pointer is at `pointer_at`.
    pub fn control_with_list(
        &mut self,
        object: u32,
        command: u32,
        parameter_bytes: usize,
        pointer_at: usize,
        buffer: &mut [u8],
    ) -> Result<(), ClientError> {
        let start = buffer.as_mut_ptr() as u64;
        put(buffer, pointer_at, &(start + parameter_bytes as u64).to_le_bytes());
        let mut argument = Argument::<32>::new()
            .with_u32(0, self.root)
            .with_u32(4, object)
            .with_u32(8, command)
            .with_u64(16, start)
            .with_u32(24, parameter_bytes as u32);
        self.on_control(number::CONTROL, Operation::Control(command), &mut argument.0, 28)
    }

    /// Frees an object and everything below it.
    pub fn free(&mut self, parent: u32, object: u32) -> Result<(), ClientError> {
        let mut argument = Argument::<16>::new()
            .with_u32(0, self.root)
            .with_u32(4, parent)
            .with_u32(8, object);
        self.on_control(number::FREE, Operation::Free, &mut argument.0, 12)
    }

    /// Prepares `file` for a mapping of memory by the CPU. Returns the address that [`Self::unmap_memory`] needs.
    pub fn map_memory(&mut self, device: u32, memory: u32, bytes: u64, file: File) -> Result<u64, ClientError> {
        let mut argument = Argument::<56>::new()
            .with_u32(0, self.root)
            .with_u32(4, device)
            .with_u32(8, memory)
            .with_u64(24, bytes)
            .with_u32(48, file.0 as u32);
        self.on_control(number::MAP_MEMORY, Operation::MapForCpu, &mut argument.0, 40)?;
        Ok(argument.u64(32))
    }

    /// Ends a mapping of memory by the CPU.
    pub fn unmap_memory(&mut self, device: u32, memory: u32, linear: u64) -> Result<(), ClientError> {
        let mut argument = Argument::<32>::new()
            .with_u32(0, self.root)
            .with_u32(4, device)
            .with_u32(8, memory)
            .with_u64(16, linear);
        self.on_control(number::UNMAP_MEMORY, Operation::MapForCpu, &mut argument.0, 24)
    }

    /// Maps memory into the GPU's address space at `va`, which the driver must take. `flags` are those of the request.
    pub fn map_memory_dma(
        &mut self,
        device: u32,
        space: u32,
        memory: u32,
        va: u64,
        bytes: u64,
        flags: u32,
    ) -> Result<(), ClientError> {
        let (size, address_at, status_at) = self.branch.map_dma();
        let mut argument = Argument::<64>::new()
            .with_u32(0, self.root)
            .with_u32(4, device)
            .with_u32(8, space)
            .with_u32(12, memory)
            .with_u64(24, bytes)
            .with_u32(32, flags)
            .with_u64(address_at, va);
        let argument = argument.0.get_mut(..size).unwrap_or_default();
        self.on_control(number::MAP_MEMORY_DMA, Operation::MapForGpu(va), argument, status_at)?;
        match u64_at(argument, address_at) {
            returned if returned == va => Ok(()),
            returned => Err(ClientError::OtherAddress { asked: va, returned }),
        }
    }

    /// Removes memory from the GPU's address space.
    pub fn unmap_memory_dma(&mut self, device: u32, space: u32, memory: u32, va: u64) -> Result<(), ClientError> {
        let mut argument = Argument::<48>::new()
            .with_u32(0, self.root)
            .with_u32(4, device)
            .with_u32(8, space)
            .with_u32(12, memory)
            .with_u64(24, va);
        self.on_control(
            number::UNMAP_MEMORY_DMA,
            Operation::UnmapFromGpu(va),
            &mut argument.0,
            40,
        )
    }
}
