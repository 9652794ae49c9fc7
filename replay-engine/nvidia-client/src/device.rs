//! What the client asks a GPU for: its classes, and the numbers that set up its local memory.

use crate::argument::{Argument, put, u32_at};
use crate::calls::{Calls, number};
use crate::{ClientError, File, Kernel, Operation};

/// Maximum number of GPUs that the driver lists.
const MAX_CARDS: usize = 32;
/// Bytes of an entry of the list of GPUs.
const CARD_BYTES: usize = 72;
/// Maximum number of classes that the client reads.
const MAX_CLASSES: usize = 200;
/// Control command that lists the classes of a device.
const GET_CLASS_LIST: u32 = 0x0080_0292;
/// Control command that returns numbers of the graphics engine.
const GET_GRAPHICS_INFO: u32 = 0x2080_1201;
/// Control command that returns the GPU's name.
const GET_NAME: u32 = 0x2080_0110;

/// The classes of a GPU's channel, doorbell page and engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Class of channels.
    pub channel: u16,
    /// Class of the user-mode page with the doorbell.
    pub user_mode: u16,
    /// Class of the compute engine.
    pub compute: u16,
    /// Class of the copy engines.
    pub copy: u16,
}

impl Classes {
    /// Classes of each architecture from the newest to the oldest, from the driver's class lists. A GPU lists old classes
    /// too, so the first match is its own.
    const KNOWN: [Self; 8] = [
        Self::new(0xca6f, 0xc761, 0xcec0, 0xcab5),
        Self::new(0xc96f, 0xc661, 0xcdc0, 0xc9b5),
        Self::new(0xc86f, 0xc661, 0xcbc0, 0xc8b5),
        Self::new(0xc56f, 0xc561, 0xc9c0, 0xc7b5),
        Self::new(0xc56f, 0xc561, 0xc7c0, 0xc7b5),
        Self::new(0xc56f, 0xc561, 0xc6c0, 0xc6b5),
        Self::new(0xc46f, 0xc461, 0xc5c0, 0xc5b5),
        Self::new(0xc36f, 0xc361, 0xc3c0, 0xc3b5),
    ];

    const fn new(channel: u16, user_mode: u16, compute: u16, copy: u16) -> Self {
        Self {
            channel,
            user_mode,
            compute,
            copy,
        }
    }

    /// Returns the newest known set whose classes are all in the list.
    fn find(has: impl Fn(u16) -> bool) -> Option<Self> {
        let complete = |c: &Self| has(c.channel) && has(c.user_mode) && has(c.compute) && has(c.copy);
        Self::KNOWN.into_iter().find(complete)
    }
}

/// What the client knows about a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its classes.
    pub classes: Classes,
    /// Its name as the driver has it, ended by zeros.
    pub name: [u8; 64],
    /// Version of its multiprocessors: 0x900 for compute capability 9.0.
    pub sm_version: u32,
    /// Maximum number of graphics clusters.
    pub gpcs: u32,
    /// Maximum number of texture clusters in a graphics cluster.
    pub tpcs_per_gpc: u32,
    /// Number of multiprocessors in a texture cluster.
    pub sms_per_tpc: u32,
    /// Maximum number of warps of a multiprocessor.
    pub warps_per_sm: u32,
}

impl GpuInfo {
    /// Returns the name as text.
    #[must_use]
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|b| *b == 0).unwrap_or(self.name.len());
        let text = self.name.get(..end).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// Returns the local memory that each texture cluster needs for threads with this many bytes, a multiple of 32 KiB.
    #[must_use]
    pub fn local_bytes_per_tpc(&self, bytes_per_thread: u32) -> u64 {
        const GRANULE: u64 = 0x8000;
        let threads = 32 * u64::from(self.warps_per_sm) * u64::from(self.sms_per_tpc);
        (u64::from(bytes_per_thread) * threads).next_multiple_of(GRANULE)
    }

    /// Returns the local memory of the whole GPU for threads with this many bytes.
    #[must_use]
    pub fn local_bytes(&self, bytes_per_thread: u32) -> u64 {
        let tpcs = u64::from(self.gpcs) * u64::from(self.tpcs_per_gpc);
        self.local_bytes_per_tpc(bytes_per_thread).saturating_mul(tpcs)
    }
}

/// A GPU in the driver's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// The driver's number of the GPU.
    pub gpu_id: u32,
    /// Number in the name of the device file.
    pub minor: u32,
}

/// Returns the GPU of this number in the driver's list.
pub(crate) fn find_card<K: Kernel>(calls: &mut Calls<K>, number_of_gpu: u32) -> Result<Card, ClientError> {
    let mut list = [0u8; MAX_CARDS * CARD_BYTES];
    let file = calls.control_file;
    calls.ioctl(file, number::CARD_INFO, Operation::CardInfo, &mut list)?;
    let mut count = 0;
    for entry in list.chunks_exact(CARD_BYTES).filter(|e| e.first() != Some(&0)) {
        if count == number_of_gpu {
            return Ok(Card {
                gpu_id: u32_at(entry, 16),
                minor: u32_at(entry, 56),
            });
        }
        count += 1;
    }
    Err(ClientError::NoGpu {
        number: number_of_gpu,
        count,
    })
}

/// Opens the device file of a GPU and binds it to the client.
pub(crate) fn open_device<K: Kernel>(calls: &mut Calls<K>, minor: u32) -> Result<File, ClientError> {
    let mut path = *b"/dev/nvidia\0\0\0\0";
    let mut digits = [0u8; 3];
    let mut count = 0;
    let mut rest = minor;
    loop {
        if let Some(slot) = digits.get_mut(count) {
            *slot = b'0' + (rest % 10) as u8;
        }
        count += 1;
        rest /= 10;
        if rest == 0 || count == digits.len() {
            break;
        }
    }
    for (n, digit) in digits.iter().take(count).rev().enumerate() {
        put(&mut path, 11 + n, &[*digit]);
    }
    let name = core::ffi::CStr::from_bytes_until_nul(&path).unwrap_or_default();
    let opened = calls.kernel.open(name);
    let file = opened.map_err(|error| ClientError::System {
        operation: Operation::Open,
        error,
    })?;
    let mut argument = Argument::<4>::new().with_u32(0, calls.control_file.0 as u32);
    let bound = calls.ioctl(file, number::REGISTER_FD, Operation::RegisterFile, &mut argument.0);
    if bound.is_err() {
        calls.kernel.close(file);
    }
    bound.map(|()| file)
}

/// Asks a GPU for its classes and numbers.
pub(crate) fn query_gpu<K: Kernel>(calls: &mut Calls<K>, device: u32, subdevice: u32) -> Result<GpuInfo, ClientError> {
    let mut list = [0u8; 4 + 4 * MAX_CLASSES];
    let entries = calls.branch.class_list_entries();
    let sized = list.get_mut(..4 + 4 * entries).unwrap_or_default();
    calls.control(device, GET_CLASS_LIST, sized)?;
    let count = u32_at(&list, 0);
    let (words, _) = list.get(4..).unwrap_or_default().as_chunks::<4>();
    let known = words.get(..(count as usize).min(entries)).unwrap_or_default();
    let has = |class: u16| known.iter().any(|w| u32::from_le_bytes(*w) == u32::from(class));
    let classes = Classes::find(has).ok_or(ClientError::UnknownGpu { classes: count })?;

    // Pairs of index and value follow the parameters {count, pointer}.
    const INDICES: [u32; 5] = [0x0c, 0x0d, 0x14, 0x17, 0x20];
    const PARAMETERS: usize = 32;
    let mut info = Argument::<{ PARAMETERS + 8 * INDICES.len() }>::new().with_u32(0, INDICES.len() as u32);
    for (n, index) in INDICES.iter().enumerate() {
        info.put(PARAMETERS + 8 * n, &index.to_le_bytes());
    }
    calls.control_with_list(subdevice, GET_GRAPHICS_INFO, PARAMETERS, 8, &mut info.0)?;
    let value = |n: usize| info.u32(PARAMETERS + 8 * n + 4);

    let mut text = [0u8; 132];
    let sized = text.get_mut(..calls.branch.name_bytes()).unwrap_or_default();
    calls.control(subdevice, GET_NAME, sized)?;
    let mut name = [0u8; 64];
    name.copy_from_slice(text.get(4..68).unwrap_or(&[0; 64]));
    Ok(GpuInfo {
        classes,
        name,
        sm_version: value(0),
        warps_per_sm: value(1),
        gpcs: value(2),
        tpcs_per_gpc: value(3),
        sms_per_tpc: value(4),
    })
}
