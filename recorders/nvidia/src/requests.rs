//! Ioctls: the sizes of their arguments, and what they change in the tables.

use crate::address::HostAddr;
use crate::channel::Channel;
use crate::tables::{GpuMapping, Object, PreparedMapping, Tables};
use crate::visible_memory::ObjectKey;
use nvidia_channel::GpuVa;
use nvidia_channel::rm::{
    Argument, DeviceFile, DriverBranch, Request, Structure, Value, allocation_bytes, decode_allocation, decode_argument,
};

/// Maximum bytes of parameters that an argument points to.
pub(crate) const MAX_NESTED_BYTES: u32 = 1 << 16;
/// Command that returns the token of a channel's doorbell.
const GET_WORK_SUBMIT_TOKEN: u64 = 0xc36f_0108;
/// Class of memory of the program.
const USER_MEMORY: u32 = 0x71;
/// Last byte of the classes of channels, since Tesla.
const CHANNEL: u32 = 0x6f;
/// Last byte of the classes of pages of doorbells.
const DOORBELLS: u32 = 0x61;
/// First class whose last byte names its kind.
const FIRST_TESLA_CLASS: u32 = 0x5000;

/// Whether objects of a class are pages of doorbells.
pub(crate) fn is_doorbell_class(class: u32) -> bool {
    class >= FIRST_TESLA_CLASS && class & 0xff == DOORBELLS
}

fn is_channel_class(class: u32) -> bool {
    class >= FIRST_TESLA_CLASS && class & 0xff == CHANNEL
}

/// Returns the bytes of the argument of a request, 0 if unknown.
pub(crate) fn argument_bytes(branch: DriverBranch, file: Option<DeviceFile>, request: u32) -> usize {
    match file {
        Some(DeviceFile::Uvm) => {
            let structures = Request::find(DeviceFile::Uvm, request).map(|r| r.structures.as_slice());
            let mut structures = structures.unwrap_or_default().iter();
            structures
                .find_map(|name| Structure::find(name, branch))
                .map_or(0, |s| s.bytes)
        }
        // The request word of all other files states it.
        _ => (request >> 16 & 0x3fff) as usize,
    }
}

/// Returns the parameters that an argument points to: address and bytes. `None` if there are none.
pub(crate) fn nested_parameters(
    branch: DriverBranch,
    file: Option<DeviceFile>,
    request: u32,
    argument: &[u8],
) -> Option<(HostAddr, u32)> {
    let file = file.filter(|f| *f == DeviceFile::Rm)?;
    let argument = decode_argument(branch, file, request, argument).ok()?;
    let (pointer, bytes) = match argument.name.as_str() {
        "RM_CONTROL" => (argument.number("params")?, argument.number("paramsSize")?),
        "RM_ALLOC" => {
            let bytes = argument.number("paramsSize").filter(|n| *n != 0);
            // libcuda leaves the size 0 for many classes.
            let class = word(&argument, "hClass");
            let known = || allocation_bytes(branch, class).and_then(|n| u64::try_from(n).ok());
            (argument.number("pAllocParms")?, bytes.or_else(known)?)
        }
        _ => return None,
    };
    let bytes = u32::try_from(bytes).ok()?.min(MAX_NESTED_BYTES);
    (pointer != 0 && bytes != 0).then_some((HostAddr::new(pointer), bytes))
}

fn word(argument: &Argument, name: &str) -> u32 {
    argument.number(name).unwrap_or(0) as u32
}

fn first_of(argument: &Argument, name: &str) -> Option<u64> {
    let value = argument.values.iter().find(|v| v.field.name == name)?;
    match &value.value {
        Value::List(numbers) => numbers.first().copied(),
        Value::Unsigned(number) => Some(*number),
        _ => None,
    }
}

/// Whether a request may end channels: their entries must be logged before it.
pub(crate) fn frees_objects(file: Option<DeviceFile>, request: u32) -> bool {
    /// Number of the request.
    const RM_FREE: u32 = 0x29;
    file == Some(DeviceFile::Rm) && request & 0xff == RM_FREE
}

/// Changes the tables as a successful request says. `argument` and `parameters` are those after the call.
pub(crate) fn follow(
    tables: &mut Tables,
    branch: DriverBranch,
    file: DeviceFile,
    request: u32,
    argument: &[u8],
    parameters: &[u8],
) {
    let Ok(argument) = decode_argument(branch, file, request, argument) else {
        return;
    };
    if argument.status().unwrap_or(0) != 0 {
        return;
    }
    let word = |name: &str| word(&argument, name);
    let number = |name: &str| argument.number(name).unwrap_or(0);
    let memory = || ObjectKey {
        client: word("hClient"),
        handle: word("hMemory"),
    };
    match argument.name.as_str() {
        "RM_ALLOC" => create(tables, branch, &argument, parameters),
        "RM_ALLOC_MEMORY" => {
            let key = ObjectKey {
                client: word("hRoot"),
                handle: word("hObjectNew"),
            };
            let class = word("hClass");
            let parent = word("hObjectParent");
            tables.add_object(key, Object { parent, class });
            if class == USER_MEMORY
                && let Some(bytes) = number("limit").checked_add(1)
            {
                tables.add_user_memory(key, HostAddr::new(number("pMemory")), bytes);
            }
        }
        "RM_FREE" => tables.free(ObjectKey {
            client: word("hRoot"),
            handle: word("hObjectOld"),
        }),
        "RM_CONTROL" if number("cmd") == GET_WORK_SUBMIT_TOKEN => {
            let key = ObjectKey {
                client: word("hClient"),
                handle: word("hObject"),
            };
            let token = parameters.first_chunk().map(|b| u32::from_le_bytes(*b));
            if let Some(channel) = tables.channels.iter_mut().find(|c| c.key == key) {
                channel.token = token;
            }
        }
        "RM_MAP_MEMORY" => tables.prepare_mapping(PreparedMapping {
            fd: word("fd") as i32,
            object: memory(),
            device: word("hDevice"),
            offset: number("offset"),
        }),
        "RM_MAP_MEMORY_DMA" => {
            let mapping = GpuMapping {
                bytes: number("length"),
                object: memory(),
                offset: number("offset"),
            };
            tables.add_gpu_mapping(GpuVa(number("dmaOffset")), mapping);
        }
        "RM_UNMAP_MEMORY_DMA" => tables.remove_gpu_mapping(GpuVa(number("dmaOffset"))),
        "UVM_CREATE_EXTERNAL_RANGE" => tables.reserve_range(GpuVa(number("base")), number("length")),
        "UVM_MAP_EXTERNAL_ALLOCATION" => {
            let mapping = GpuMapping {
                bytes: number("length"),
                object: memory(),
                offset: number("offset"),
            };
            tables.add_gpu_mapping(GpuVa(number("base")), mapping);
        }
        "UVM_FREE" => tables.release_range(GpuVa(number("base"))),
        "UVM_UNMAP_EXTERNAL" => tables.remove_gpu_mapping(GpuVa(number("base"))),
        _ => {}
    }
}

fn create(tables: &mut Tables, branch: DriverBranch, argument: &Argument, parameters: &[u8]) {
    let (class, parent) = (word(argument, "hClass"), word(argument, "hObjectParent"));
    let handle = word(argument, "hObjectNew");
    let client = match word(argument, "hRoot") {
        0 => handle,
        root => root,
    };
    let key = ObjectKey { client, handle };
    tables.add_object(key, Object { parent, class });
    if !is_channel_class(class) {
        return;
    }
    let Ok(parameters) = decode_allocation(branch, class, parameters) else {
        return;
    };
    let entries = word(&parameters, "gpFifoEntries");
    let userd = first_of(&parameters, "hUserdMemory").unwrap_or(0) as u32;
    if entries == 0 || userd == 0 {
        return;
    }
    let device = tables.device_of(key);
    tables.channels.retain(|c| c.key != key);
    let ring = GpuVa(parameters.number("gpFifoOffset").unwrap_or(0));
    let userd = ObjectKey { client, handle: userd };
    let userd_offset = first_of(&parameters, "userdOffset").unwrap_or(0);
    let channel = Channel::new(key, device, (ring, entries), (userd, userd_offset));
    tables.channels.push(channel);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvidia_channel::rm::RequestCode;

    const RM: Option<DeviceFile> = Some(DeviceFile::Rm);

    fn fields(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn request(number: u8, argument: &[u8]) -> u32 {
        let bytes = argument.len() as u16;
        RequestCode { number, bytes }.encode().unwrap()
    }

    #[test]
    fn sizes_come_from_the_request_or_the_branch() {
        let bytes = |file, request| argument_bytes(DriverBranch::R580, file, request);
        assert_eq!(bytes(RM, 0xc030_462b), 48);
        assert_eq!(bytes(Some(DeviceFile::Uvm), 0x21), 9264);
        assert_eq!(bytes(Some(DeviceFile::Uvm), 0xffff), 0);
        assert_eq!(argument_bytes(DriverBranch::R595, Some(DeviceFile::Uvm), 0x22), 16);
        assert_eq!(bytes(Some(DeviceFile::Uvm), 0x22), 24);
    }

    #[test]
    fn parameters_without_a_size_have_that_of_their_class() {
        let nested = |argument: &[u8], number| {
            nested_parameters(DriverBranch::R580, RM, request(number, argument), argument).map(|(at, n)| (at.get(), n))
        };
        // A channel in group 3, whose parameters are at 0x5000.
        let channel = |size| fields(&[1, 3, 4, 0xc86f, 0x5000, 0, 0, 0, size, 0, 0, 0]);
        assert_eq!(nested(&channel(0), 0x2b), Some((0x5000, 368)));
        assert_eq!(nested(&channel(8), 0x2b), Some((0x5000, 8)));
        assert_eq!(
            nested(&fields(&[1, 1, 2, 0xfffe, 0x5000, 0, 0, 0, 0, 0, 0, 0]), 0x2b),
            None
        );
        let control = fields(&[1, 4, 0xc36f_0108, 0, 0x6000, 0, 4, 0]);
        assert_eq!(nested(&control, 0x2a), Some((0x6000, 4)));
        let huge = fields(&[1, 4, 0xc36f_0108, 0, 0x6000, 0, u32::MAX, 0]);
        assert_eq!(nested(&huge, 0x2a), Some((0x6000, MAX_NESTED_BYTES)));
        assert_eq!(nested(&fields(&[1, 1, 2, 0]), 0x29), None);
    }

    #[test]
    fn channels_come_from_their_parameters() {
        let mut tables = Tables::default();
        let mut ask = |number, argument: &[u8], parameters: &[u8]| {
            let request = request(number, argument);
            follow(
                &mut tables,
                DriverBranch::R580,
                DeviceFile::Rm,
                request,
                argument,
                parameters,
            );
            tables.channels.clone()
        };
        ask(0x2b, &fields(&[1, 1, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0]), &[]);
        ask(0x2b, &fields(&[1, 2, 3, 0xa06c, 0, 0, 0, 0, 0, 0, 0, 0]), &[]);
        let mut parameters = vec![0; 368];
        parameters[8..20].copy_from_slice(&fields(&[0x20_0000, 2, 1024]));
        parameters[32..36].copy_from_slice(&fields(&[7]));
        parameters[64..68].copy_from_slice(&fields(&[0x2000]));
        let allocation = |status| fields(&[1, 3, 4, 0xc86f, 0x5000, 0, 0, 0, 368, 0, status, 0]);
        assert!(ask(0x2b, &allocation(0x1f), &parameters).is_empty());
        let channel = &ask(0x2b, &allocation(0), &parameters)[0];
        let userd = ObjectKey { client: 1, handle: 7 };
        assert_eq!(
            (channel.device, channel.ring, channel.entries),
            (2, GpuVa(0x2_0020_0000), 1024)
        );
        assert_eq!(
            (channel.userd, channel.userd_offset, channel.token),
            (userd, 0x2000, None)
        );
        let token = fields(&[1, 4, 0xc36f_0108, 0, 0x6000, 0, 4, 0]);
        assert_eq!(ask(0x2a, &token, &fields(&[0x1_0005]))[0].token, Some(0x1_0005));
        assert!(ask(0x29, &fields(&[1, 2, 3, 0]), &[]).is_empty());
    }
}
