//! Launches: descriptors that methods send, the order among them, and the kernels that they start.

use super::Gpu;
use super::address_space::{AddressSpace, UnmappedAccess};
use super::channel::Channel;
use super::faults::{ChannelError, ErrorCode};
use super::kernels::{KernelOutcome, KernelRun};
use super::semaphores;
use crate::settings::{LaunchFailure, Settings};
use nvidia_channel::GpuVa;
use nvidia_channel::launch::Launch;
use nvidia_channel::memory::UploadedMemory;
use nvidia_channel::qmd::{MAX_QMD_BYTES, Qmd, QmdKind};
use std::collections::VecDeque;

/// Version of descriptors that a Hopper runs.
const DESCRIPTOR_MAJOR_VERSION: u64 = 4;
/// Values of `QMD_TYPE` that start blocks.
const GRID_TYPES: std::ops::RangeInclusive<u64> = 2..=3;
/// Maximum number of descriptors that wait in a channel. The lowest address is forgotten beyond it.
const MAX_WAITING_LAUNCHES: usize = 4096;
/// Maximum number of descriptors that start one another.
const MAX_CHAINED_LAUNCHES: usize = 256;
/// Action of a message to the compute scheduler: schedule a descriptor. Bits 63:32 of the message are the action, bits 31:0
/// the descriptor's address divided by 256.
const SCHEDULE_MESSAGE: u64 = 2;
/// Address of an MMU fault that a setting asks for.
const FAULT_ADDRESS: GpuVa = GpuVa(0x7f_0000_0000);

impl Gpu {
    /// Runs the descriptor at an address, or lets it wait until its dependence counter is 0, or until it is scheduled if it
    /// requires that.
    pub(super) fn send_launch(
        &self,
        channel: &mut Channel,
        class: u16,
        address: GpuVa,
        settings: &mut Settings,
    ) -> Result<(), ChannelError> {
        let space = self.space_of(channel)?;
        let bytes = space.read_vec(address, MAX_QMD_BYTES)?;
        let (counter, is_held) = match Qmd::parse(&bytes, Some(class)) {
            Ok(qmd) if qmd.field("QMD_MAJOR_VERSION") == Some(DESCRIPTOR_MAJOR_VERSION) => (
                qmd.field("DEPENDENCE_COUNTER").unwrap_or(0),
                qmd.field("REQUIRE_SCHEDULING_PCAS") == Some(1),
            ),
            // The hardware ignores descriptors of other versions without an error.
            _ => return Ok(()),
        };
        if counter > 0 {
            if channel.waiting_launches.len() >= MAX_WAITING_LAUNCHES {
                channel.waiting_launches.pop_first();
            }
            channel.waiting_launches.insert(address, counter);
            return Ok(());
        }
        channel.waiting_launches.remove(&address);
        if is_held {
            if channel.held_launches.len() >= MAX_WAITING_LAUNCHES {
                channel.held_launches.pop_first();
            }
            channel.held_launches.insert(address);
            return Ok(());
        }
        let mut ready = VecDeque::from([address]);
        for _ in 0..MAX_CHAINED_LAUNCHES {
            let Some(address) = ready.pop_front() else {
                break;
            };
            let Some(launch) = self.run_launch(channel, class, address, settings)? else {
                continue;
            };
            for dependent in &launch.dependents {
                match dependent.action {
                    Some("QMD_SCHEDULE" | "QMD_INVALIDATE_COPY_SCHEDULE") => ready.push_back(dependent.address),
                    Some("QMD_DECREMENT_DEPENDENCE") => {
                        if let Some(counter) = channel.waiting_launches.get_mut(&dependent.address) {
                            *counter = counter.saturating_sub(1);
                            if *counter == 0 {
                                channel.waiting_launches.remove(&dependent.address);
                                ready.push_back(dependent.address);
                            }
                        }
                    }
                    _ => {}
                }
            }
            for message in self.space_of(channel)?.take_messages() {
                let address = GpuVa((message & 0xffff_ffff) << 8);
                if message >> 32 == SCHEDULE_MESSAGE && channel.held_launches.contains(&address) {
                    ready.push_back(address);
                }
            }
        }
        Ok(())
    }

    /// Runs a descriptor, and releases its semaphores. Returns it, or `None` if the hardware ignores it or never ends.
    fn run_launch(
        &self,
        channel: &mut Channel,
        class: u16,
        address: GpuVa,
        settings: &mut Settings,
    ) -> Result<Option<Launch>, ChannelError> {
        let space = self.space_of(channel)?;
        let Ok(launch) = Launch::read(0, class, address, &UploadedMemory::default(), space) else {
            return Ok(None);
        };
        let kind = Qmd::parse(&launch.descriptor, Some(class)).ok();
        let kind = kind.and_then(|qmd| qmd.field("QMD_TYPE")).unwrap_or(0);
        match launch.kind {
            QmdKind::NullGrid => {}
            _ if GRID_TYPES.contains(&kind) => {
                match settings.next_launch() {
                    Some(LaunchFailure::Hang) => channel.hung = true,
                    Some(LaunchFailure::MmuFault) => {
                        let access = UnmappedAccess {
                            address: FAULT_ADDRESS,
                            write: true,
                        };
                        return Err(access.into());
                    }
                    Some(LaunchFailure::Misaligned) => {
                        return Err(ChannelError::misaligned(GpuVa(1), launch.program_address));
                    }
                    None => channel.hung = self.run_grid(channel, space, &launch)? == KernelOutcome::Endless,
                }
                if channel.hung {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
        for release in &launch.releases {
            semaphores::release_of_launch(space, release)?;
        }
        // A descriptor that copies itself waits again.
        let copies_itself = |qmd: Qmd<'_>| qmd.field("SELF_COPY_ON_COMPLETION") == Some(1);
        if !Qmd::parse(&launch.descriptor, Some(class)).is_ok_and(copies_itself) {
            channel.held_launches.remove(&address);
        }
        Ok(Some(launch))
    }

    /// Runs the kernel of a grid.
    fn run_grid(
        &self,
        channel: &Channel,
        space: &AddressSpace,
        launch: &Launch,
    ) -> Result<KernelOutcome, ChannelError> {
        let exception = ChannelError::new(ErrorCode::GraphicsException);
        let bank = |index: u32| launch.constant_banks.iter().find(|bank| bank.index == index);
        let bank_0 = bank(0).ok_or(exception)?;
        // Kernels read the size of blocks and of the grid from the bank: other values than the descriptor's are a
        // mistake of the client, which hardware does not notice.
        let words: [u8; 24] = space.read_array(bank_0.address)?;
        let words: Vec<u32> = words
            .chunks_exact(4)
            .map(|word| word.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte)))
            .collect();
        if words != [launch.block, launch.grid].concat() {
            return Err(exception);
        }
        let run = KernelRun {
            space,
            program: launch.program_address,
            grid: launch.grid,
            block: launch.block,
            bank_0: *bank_0,
            bank_3: bank(3).copied(),
            bank_4: bank(4).copied(),
            shared_bytes: launch.shared_bytes,
            local_bytes: launch.local_bytes,
            local_memory: channel.local_memory,
        };
        self.kernels.run(&run)
    }
}
