//! A client: root, device, doorbell page and address space of one GPU.

use crate::argument::Argument;
use crate::calls::Calls;
use crate::device::{Card, find_card, open_device, query_gpu};
use crate::{ClientError, DriverBranch, File, GpuInfo, Kernel, Mapping, Operation};

/// Classes that have the same number on every GPU.
pub(crate) mod class {
    pub const ROOT: u32 = 0x41;
    pub const DEVICE: u32 = 0x80;
    pub const SUBDEVICE: u32 = 0x2080;
    pub const ADDRESS_SPACE: u32 = 0x90f1;
    pub const VIRTUAL_MEMORY: u32 = 0x70;
    pub const VIDEO_MEMORY: u32 = 0x40;
    pub const SYSTEM_MEMORY: u32 = 0x3e;
    pub const CHANNEL_GROUP: u32 = 0xa06c;
    pub const CONTEXT_SHARE: u32 = 0x9067;
    pub const DEBUGGER: u32 = 0x83de;
}

/// Control command that returns the instance of a GPU.
const GET_ID_INFO: u32 = 0x205;
/// Bytes of the user-mode page that are mapped.
const USER_MODE_BYTES: usize = 0x10000;
/// Offset of the doorbell in the user-mode page: `NOTIFY_CHANNEL_PENDING`.
const DOORBELL: usize = 0x90;

/// A client of one GPU. [`Client::close`] frees everything on the GPU; the driver does the same when the process ends.
#[derive(Debug)]
pub struct Client<K: Kernel> {
    pub(crate) calls: Calls<K>,
    /// Number of the GPU's device file.
    pub(crate) minor: u32,
    pub(crate) device_file: File,
    pub(crate) device: u32,
    pub(crate) user_mode: Mapping,
    /// The address space.
    pub(crate) space: u32,
    /// The object that memory is mapped through.
    pub(crate) virtual_memory: u32,
    info: GpuInfo,
}

impl<K: Kernel> Client<K> {
    /// Opens the GPU of this number in the driver's list, with an empty address space.
    ///
    /// # Errors
    /// What the operating system or the driver refused. Nothing stays open or allocated.
    pub fn open(mut kernel: K, branch: DriverBranch, number_of_gpu: u32) -> Result<Self, ClientError> {
        let opened = kernel.open(c"/dev/nvidiactl");
        let control_file = opened.map_err(|error| ClientError::System {
            operation: Operation::Open,
            error,
        })?;
        let mut calls = Calls {
            kernel,
            branch,
            control_file,
            root: 0,
        };
        match open_gpu(&mut calls, number_of_gpu) {
            Ok((card, device_file, objects)) => Ok(Self {
                calls,
                minor: card.minor,
                device_file,
                device: objects.device,
                user_mode: objects.user_mode,
                space: objects.space,
                virtual_memory: objects.virtual_memory,
                info: objects.info,
            }),
            Err(e) => {
                // The first error is the one to report. The driver frees a client with its file too.
                if calls.root != 0 {
                    let _ = calls.free(0, calls.root);
                }
                calls.kernel.close(control_file);
                Err(e)
            }
        }
    }

    /// Returns what the GPU is.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Returns the system calls.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.calls.kernel
    }

    /// Notifies the GPU that a channel has new entries.
    pub(crate) fn ring_doorbell(&mut self, token: u32) {
        self.user_mode.write_u32(DOORBELL, token);
    }

    /// Frees every object of the client, and closes its files. Mappings of [`crate::Memory`] that the caller still has
    /// are removed by [`Client::free_memory`] before.
    ///
    /// # Errors
    /// If the driver refuses to free the client.
    pub fn close(self) -> Result<(), ClientError> {
        let Self {
            mut calls,
            device_file,
            user_mode,
            ..
        } = self;
        calls.kernel.unmap(user_mode);
        let freed = calls.free(0, calls.root);
        calls.kernel.close(device_file);
        calls.kernel.close(calls.control_file);
        freed
    }
}

/// Objects of a client on its GPU.
struct Objects {
    device: u32,
    user_mode: Mapping,
    space: u32,
    virtual_memory: u32,
    info: GpuInfo,
}

/// Creates the root, opens the device file of a GPU and creates the objects on it. After an error, only the root is left.
fn open_gpu<K: Kernel>(calls: &mut Calls<K>, number_of_gpu: u32) -> Result<(Card, File, Objects), ClientError> {
    calls.root = calls.allocate(0, class::ROOT, &mut [])?;
    let card = find_card(calls, number_of_gpu)?;
    let device_file = open_device(calls, card.minor)?;
    match create_objects(calls, card) {
        Ok(objects) => Ok((card, device_file, objects)),
        Err(e) => {
            calls.kernel.close(device_file);
            Err(e)
        }
    }
}

/// Creates the objects of a client. After an error, none of their memory is mapped.
fn create_objects<K: Kernel>(calls: &mut Calls<K>, card: Card) -> Result<Objects, ClientError> {
    let root = calls.root;
    let mut id = Argument::<32>::new().with_u32(0, card.gpu_id);
    calls.control(root, GET_ID_INFO, &mut id.0)?;
    let mut parameters = Argument::<56>::new().with_u32(0, id.u32(8)).with_u32(4, root);
    let device = calls.allocate(root, class::DEVICE, &mut parameters.0)?;
    let subdevice = calls.allocate(device, class::SUBDEVICE, &mut [0; 4])?;
    let info = query_gpu(calls, device, subdevice)?;
    let (space, virtual_memory) = create_address_space(calls, device)?;
    let page = calls.allocate(subdevice, u32::from(info.classes.user_mode), &mut [])?;
    let page_file = open_device(calls, card.minor)?;
    let (user_mode, _) = map_for_cpu(calls, device, page, USER_MODE_BYTES, page_file)?;
    Ok(Objects {
        device,
        user_mode,
        space,
        virtual_memory,
        info,
    })
}

/// Creates an address space, and the object that memory is mapped through. Returns both.
fn create_address_space<K: Kernel>(calls: &mut Calls<K>, device: u32) -> Result<(u32, u32), ClientError> {
    let mut parameters = [0u8; 56];
    let sized = parameters
        .get_mut(..calls.branch.address_space_bytes())
        .unwrap_or_default();
    let space = calls.allocate(device, class::ADDRESS_SPACE, sized)?;
    let mut parameters = Argument::<24>::new().with_u32(16, space);
    let virtual_memory = calls.allocate(device, class::VIRTUAL_MEMORY, &mut parameters.0)?;
    Ok((space, virtual_memory))
}

/// Maps an object's memory for the CPU through a file of its own, which is closed. Returns the driver's address too.
pub(crate) fn map_for_cpu<K: Kernel>(
    calls: &mut Calls<K>,
    device: u32,
    memory: u32,
    bytes: usize,
    file: File,
) -> Result<(Mapping, u64), ClientError> {
    let linear = calls.map_memory(device, memory, bytes as u64, file);
    let mapped = linear.and_then(|linear| {
        let mapped = calls.kernel.map(file, bytes);
        let mapped = mapped.map_err(|error| ClientError::System {
            operation: Operation::MapForCpu,
            error,
        });
        mapped.map(|mapping| (mapping, linear))
    });
    // The mapping keeps what it needs of the file.
    calls.kernel.close(file);
    mapped
}
