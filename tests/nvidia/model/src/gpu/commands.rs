//! Execution of methods.

use super::Gpu;
use super::address_space::AddressSpace;
use super::channel::Channel;
use super::copies;
use super::faults::{ChannelError, ErrorCode};
use super::semaphores;
use crate::settings::Settings;
use nvidia_channel::command::{Command, SurfaceLayout, Upload};
use nvidia_channel::memory::NoMemory;
use nvidia_channel::push_buffer::Method;
use nvidia_channel::{FIRST_ENGINE_METHOD, GpuVa, SET_OBJECT};

/// Methods of the compute class with the address of local memory.
const SHADER_LOCAL_MEMORY_A: u16 = 0x790;
const SHADER_LOCAL_MEMORY_B: u16 = 0x794;
/// Words of inline descriptors.
const LOAD_INLINE_QMD_DATA: std::ops::Range<u16> = 0x320..0x4a0;

/// Returns whether a class is that of an engine object which a channel needs before it can bind the class.
fn needs_object(class: u32) -> bool {
    matches!(class & 0xff, 0xb5 | 0xc0)
}

impl Gpu {
    /// Executes a method. A wait is left in the channel.
    pub(super) fn execute_method(
        &self,
        channel: &mut Channel,
        method: &Method,
        settings: &mut Settings,
    ) -> Result<(), ChannelError> {
        if method.method == SET_OBJECT {
            let class = method.value & 0xffff;
            let owned = channel.objects.values().any(|object| *object == class);
            if !super::kernels::is_hopper_class(class) || needs_object(class) && !owned {
                return Err(ChannelError::new(ErrorCode::GraphicsClass));
            }
            return Ok(());
        }
        if method.method >= FIRST_ENGINE_METHOD && method.class.is_none() {
            return Err(ChannelError::new(ErrorCode::PushBuffer));
        }
        if method.class.is_some_and(|class| class & 0xff == 0xc0) {
            let address = channel.local_memory.0;
            match method.method {
                SHADER_LOCAL_MEMORY_A => {
                    channel.local_memory = GpuVa(u64::from(method.value) << 32 | address & 0xffff_ffff);
                }
                SHADER_LOCAL_MEMORY_B => {
                    channel.local_memory = GpuVa(address & !0xffff_ffff | u64::from(method.value));
                }
                _ => {}
            }
        }
        // The reader keeps earlier uploads. Launches are read from memory instead: later writes may have changed it.
        let Some(command) = channel.reader.read(method, &NoMemory) else {
            return Ok(());
        };
        match command {
            Command::Upload(upload) => {
                let space = self.space_of(channel)?;
                write_upload(space, &upload)?;
                upload.semaphore.map_or(Ok(()), |s| semaphores::release(space, &s))
            }
            Command::Semaphore(semaphore) if semaphore.is_acquire() => {
                channel.waits_for = Some(semaphore);
                Ok(())
            }
            Command::Semaphore(semaphore) => semaphores::release(self.space_of(channel)?, &semaphore),
            Command::Copy(copy) => {
                let space = self.space_of(channel)?;
                copies::run(space, &copy)?;
                copy.semaphore.map_or(Ok(()), |s| semaphores::release(space, &s))
            }
            Command::Launch(launch) => {
                if LOAD_INLINE_QMD_DATA.contains(&method.method) {
                    let space = self.space_of(channel)?;
                    space.write(launch.descriptor_address, &launch.descriptor)?;
                }
                self.send_launch(channel, launch.class, launch.descriptor_address, settings)
            }
            Command::UnreadableLaunch(error) => {
                let address = match error {
                    nvidia_channel::launch::LaunchError::UnknownMemory { address, .. }
                    | nvidia_channel::launch::LaunchError::Damaged { address, .. } => address,
                };
                let class = method.class.unwrap_or_default();
                self.send_launch(channel, class, address, settings)
            }
        }
    }

    /// Returns whether the channel waits for no semaphore, or for one that has its value.
    pub(super) fn semaphore_is_ready(&self, channel: &mut Channel) -> Result<bool, ChannelError> {
        let Some(semaphore) = channel.waits_for else {
            return Ok(true);
        };
        let ready = semaphores::is_acquired(self.space_of(channel)?, &semaphore)?;
        if ready {
            channel.waits_for = None;
        }
        Ok(ready)
    }
}

/// Writes the lines of an upload.
fn write_upload(space: &AddressSpace, upload: &Upload) -> Result<(), ChannelError> {
    if upload.lines > 1 && upload.layout == SurfaceLayout::BlockLinear {
        return Err(ChannelError::new(ErrorCode::GraphicsException));
    }
    let lines = upload.bytes.chunks(upload.line_bytes.max(1) as usize);
    for (line, bytes) in (0u64..).zip(lines) {
        let offset = line.checked_mul(u64::from(upload.pitch)).filter(|_| upload.lines > 1);
        let address = upload.address.checked_add(offset.unwrap_or(0));
        let address = address.ok_or(ChannelError::new(ErrorCode::MmuFault))?;
        space.write(address, bytes)?;
    }
    Ok(())
}
