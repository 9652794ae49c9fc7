//! `RM_CONTROL`: commands to objects.

use super::control_values as values;
use crate::caller::Caller;
use crate::card;
use crate::files::State;
use crate::gpu::memory::MemoryKind;
use crate::objects::Body;
use crate::record::{Record, control_bytes};
use crate::status::{RmResult, RmStatus};

const CLIENT_GET_ADDR_SPACE_TYPE: u32 = 0xd01;
const GPU_GET_ID_INFO: u32 = 0x202;
const GPU_GET_ID_INFO_V2: u32 = 0x205;
const DEVICE: u32 = 0x80;
const GPFIFO_SCHEDULE: u32 = 0xa06c_0101;
const SET_TIMESLICE: u32 = 0xa06c_0103;
const PREEMPT: u32 = 0xa06c_0105;
const GET_WORK_SUBMIT_TOKEN: u32 = 0xc36f_0108;
const GET_CLASS_ENGINE_ID: u32 = 0x906f_0101;
const READ_ALL_SM_ERROR_STATES: u32 = 0x83de_030c;
const READ_MMU_FAULT_INFO: u32 = 0x83de_0328;
/// Command whose parameters no header has, and their size in bytes.
const CLASS_ENGINE_ID_BYTES: usize = 16;
/// Bytes of the state of a multiprocessor.
const SM_STATE_BYTES: usize = 48;
/// Bytes of an MMU fault.
const MMU_FAULT_BYTES: usize = 16;

/// Returns whether objects of a class take a command.
fn accepts(class: u32, command: u32) -> bool {
    match command >> 16 {
        // Channels take the commands of earlier channels.
        0x906f | 0xa06f | 0xc36f => matches!(class, 0xc36f | 0xc46f | 0xc56f | 0xc86f),
        // The class of the command may have bits of the command's category.
        target => target == class || class == 0x2080 && target & 0xfff0 == 0x2080,
    }
}

impl State {
    /// Answers `RM_CONTROL`.
    pub(super) fn control(&mut self, caller: Caller, argument: &Record) -> RmResult {
        let command = argument.word("cmd");
        self.settings.check_control(command)?;
        let (client, handle) = (argument.word("hClient"), argument.word("hObject"));
        self.client(client)?;
        let class = match handle == client {
            true => 0,
            false => self.object(client, handle)?.class,
        };
        if !accepts(class, command) {
            return Err(RmStatus::NOT_SUPPORTED);
        }
        let (address, size) = (argument.get("params"), argument.get("paramsSize"));
        if command == GET_CLASS_ENGINE_ID {
            return self.class_engine_id(caller, client, address, size);
        }
        let Some(expected) = control_bytes(self.settings.branch, command) else {
            return match values::is_accepted_without_effect(command) {
                true => Ok(()),
                false => Err(RmStatus::NOT_SUPPORTED),
            };
        };
        if size != expected as u64 {
            return Err(RmStatus::INVALID_PARAM_STRUCT);
        }
        let bytes = caller.read_vec(address, expected);
        let bytes = bytes.map_err(|_| RmStatus::INVALID_ADDRESS)?;
        let parameters = Record::control(self.settings.branch, command, bytes);
        let mut parameters = parameters.map_err(|_| RmStatus::INVALID_PARAM_STRUCT)?;
        self.run_control(caller, client, handle, command, &mut parameters)?;
        let written = caller.write(address, parameters.bytes());
        written.map_err(|_| RmStatus::INVALID_ADDRESS)
    }

    fn run_control(
        &mut self,
        caller: Caller,
        client: u32,
        handle: u32,
        command: u32,
        parameters: &mut Record,
    ) -> RmResult {
        match command {
            GPFIFO_SCHEDULE => {
                let Body::Group(group) = self.object(client, handle)?.body else {
                    return Err(RmStatus::INVALID_OBJECT);
                };
                if self.gpu.groups.get(&group).is_none_or(|group| group.dead) {
                    return Err(RmStatus::INVALID_STATE);
                }
                self.gpu.schedule(group, parameters.get("bEnable") != 0);
                Ok(())
            }
            SET_TIMESLICE | PREEMPT => Ok(()),
            GET_WORK_SUBMIT_TOKEN => {
                let Body::Channel(channel) = self.object(client, handle)?.body else {
                    return Err(RmStatus::INVALID_OBJECT);
                };
                let channel = self.gpu.channels.get(&channel).ok_or(RmStatus::INVALID_OBJECT)?;
                parameters.set("workSubmitToken", u64::from(channel.token));
                Ok(())
            }
            READ_MMU_FAULT_INFO => self.read_mmu_faults(client, handle, parameters),
            READ_ALL_SM_ERROR_STATES => self.read_warp_errors(client, handle, parameters),
            CLIENT_GET_ADDR_SPACE_TYPE => {
                let memory = self.memory(client, parameters.word("hObject"))?;
                let kind = match memory.kind {
                    MemoryKind::System | MemoryKind::User | MemoryKind::Scheduler => 1,
                    MemoryKind::Video => 2,
                    MemoryKind::Registers if memory.address == card::USER_MODE_WINDOW_ADDRESS => 2,
                    MemoryKind::Registers => 3,
                };
                parameters.set("addrSpaceType", kind);
                Ok(())
            }
            GPU_GET_ID_INFO | GPU_GET_ID_INFO_V2 => {
                let mut objects = self.clients.values().flat_map(|client| client.objects.values());
                let in_use = objects.any(|object| object.class == DEVICE);
                parameters.set("gpuFlags", u64::from(in_use));
                values::fill(caller, &self.settings, command, parameters)
            }
            _ => values::fill(caller, &self.settings, command, parameters),
        }
    }

    /// Returns the group that a debugger's object belongs to.
    fn debugged_group(&self, client: u32, handle: u32) -> RmResult<&crate::gpu::Group> {
        let Body::Debugger { client, object } = self.object(client, handle)?.body else {
            return Err(RmStatus::INVALID_OBJECT);
        };
        let engine = self.object(client, object)?;
        let Body::Channel(channel) = self.object(client, engine.parent)?.body else {
            return Err(RmStatus::INVALID_OBJECT);
        };
        let channel = self.gpu.channels.get(&channel).ok_or(RmStatus::INVALID_OBJECT)?;
        let group = self.gpu.groups.get(&channel.group);
        group.ok_or(RmStatus::INVALID_OBJECT)
    }

    fn read_mmu_faults(&self, client: u32, handle: u32, parameters: &mut Record) -> RmResult {
        let group = self.debugged_group(client, handle)?;
        for (n, fault) in group.mmu_faults.iter().enumerate() {
            let mut bytes = fault.address.0.to_le_bytes().to_vec();
            bytes.extend(fault.kind.to_le_bytes());
            bytes.extend(fault.access.to_le_bytes());
            for (at, byte) in bytes.into_iter().enumerate() {
                parameters.set_element("mmuFaultInfoList", n * MMU_FAULT_BYTES + at, u64::from(byte));
            }
        }
        parameters.set("count", group.mmu_faults.len() as u64);
        Ok(())
    }

    /// Fills in the states of multiprocessors. A kernel of the model fails on the first one.
    fn read_warp_errors(&self, client: u32, handle: u32, parameters: &mut Record) -> RmResult {
        let group = self.debugged_group(client, handle)?;
        let states = SM_STATE_BYTES * 100;
        for at in 0..states {
            parameters.set_element("smErrorStateArray", at, 0);
        }
        if let Some(error) = group.warp_error.filter(|_| parameters.get("startingSM") == 0) {
            let mut state = [0u8; SM_STATE_BYTES];
            let fields = [
                (4, u64::from(error.register), 4),
                (8, error.program.0, 4),
                (24, error.address.0, 8),
                (32, error.program.0, 8),
            ];
            for (offset, value, size) in fields {
                let bytes = value.to_le_bytes();
                for (to, from) in state.iter_mut().skip(offset).zip(bytes.iter().take(size)) {
                    *to = *from;
                }
            }
            parameters.set_bytes("smErrorStateArray", &state);
        }
        parameters.set("mmuFault.valid", u64::from(!group.mmu_faults.is_empty()));
        Ok(())
    }

    /// Returns class and engine of an engine object.
    fn class_engine_id(&self, caller: Caller, client: u32, address: u64, size: u64) -> RmResult {
        if size != CLASS_ENGINE_ID_BYTES as u64 {
            return Err(RmStatus::INVALID_PARAM_STRUCT);
        }
        let mut handle = [0; 4];
        let read = caller.read(address, &mut handle);
        read.map_err(|_| RmStatus::INVALID_ADDRESS)?;
        let class = self.object(client, u32::from_le_bytes(handle))?.class;
        let engine = crate::gpu::ENGINE_GR0;
        let words = [class, class, engine].map(u32::to_le_bytes).concat();
        let at = address.checked_add(4).ok_or(RmStatus::INVALID_ADDRESS)?;
        let written = caller.write(at, &words);
        written.map_err(|_| RmStatus::INVALID_ADDRESS)
    }
}
