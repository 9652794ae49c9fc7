//! Answers of control commands that do not depend on a client's objects.

use crate::caller::Caller;
use crate::card;
use crate::gpu::kernels::HOPPER_CLASSES;
use crate::record::Record;
use crate::settings::Settings;
use crate::status::{RmResult, RmStatus};

const SYSTEM_GET_BUILD_VERSION: u32 = 0x101;
const SYSTEM_GET_FEATURES: u32 = 0x1f0;
const GPU_GET_ATTACHED_IDS: u32 = 0x201;
const GPU_GET_ID_INFO: u32 = 0x202;
const GPU_GET_ID_INFO_V2: u32 = 0x205;
const GPU_GET_PROBED_IDS: u32 = 0x214;
const GPU_ATTACH_IDS: u32 = 0x215;
const GPU_GET_ACTIVE_DEVICE_IDS: u32 = 0x288;
const GPU_GET_VIRTUALIZATION_MODE: u32 = 0x80_0289;
const GR_GET_CTX_BUFFER_SIZE: u32 = 0x2080_1218;
const GSP_GET_FEATURES: u32 = 0x2080_3601;
const REGISTER_VA_SPACE: u32 = 0x503c_0102;
const GET_ERROR_MASKS: u32 = 0x90e6_0102;
const CONFIDENTIAL_GET_CAPABILITIES: u32 = 0xcb33_0101;
const GPU_GET_NUM_SUBDEVICES: u32 = 0x80_0280;
const GPU_GET_CLASSLIST_V2: u32 = 0x80_0292;
const GPU_GET_NAME_STRING: u32 = 0x2080_0110;
const GPU_GET_SHORT_NAME_STRING: u32 = 0x2080_0111;
const GPU_GET_GID_INFO: u32 = 0x2080_014a;
const GR_GET_INFO: u32 = 0x2080_1201;
const FB_GET_INFO_V2: u32 = 0x2080_1303;
const MC_GET_ARCH_INFO: u32 = 0x2080_1701;
const BUS_GET_PCI_INFO: u32 = 0x2080_1801;

/// Commands that succeed and change nothing that a program can see here.
const WITHOUT_EFFECT: [u32; 23] = [
    0x0000_013a,
    0x0000_027b,
    0x0000_0a04,
    0x0000_0d04,
    0x0080_1402,
    0x0080_170d,
    0x0080_1909,
    0x2080_0119,
    0x2080_0131,
    0x2080_0145,
    0x2080_0146,
    0x2080_01a3,
    0x2080_1210,
    0x2080_1230,
    0x2080_182a,
    0x2080_182b,
    0x2080_200a,
    0x2080_220c,
    0x2080_2210,
    0x2080_3002,
    0x2080_9038,
    0x503c_0104,
    0x503c_0105,
];

/// The end of a list of GPUs.
const INVALID_GPU: u64 = 0xffff_ffff;
/// Maximum number of pairs in a list of `GR_GET_INFO`.
const MAX_INFO_PAIRS: u64 = 256;
/// Index of the size of memory in `FB_GET_INFO_V2`, and of its parts, KiB.
const FB_SIZES: [u32; 5] = [0x0f, 0x06, 0x07, 0x08, 0x09];

/// Returns the value of an entry of `GR_GET_INFO`, or 0.
fn graphics_info(index: u32) -> u32 {
    match index {
        // Version of the multiprocessors, warps of each.
        0x0c => 0x900,
        0x0d => 64,
        // Clusters, texture processors of each, multiprocessors of each.
        0x14 => 8,
        0x17 => 9,
        0x20 => 2,
        _ => 0,
    }
}

/// Returns whether a command succeeds without an effect.
pub fn is_accepted_without_effect(command: u32) -> bool {
    WITHOUT_EFFECT.contains(&command) || command == 0x83de_0309
}

/// Fills in the answer of a command.
///
/// # Errors
/// `NOT_SUPPORTED` for commands that the model does not have.
pub fn fill(caller: Caller, settings: &Settings, command: u32, parameters: &mut Record) -> RmResult {
    match command {
        SYSTEM_GET_BUILD_VERSION => build_version(caller, settings, parameters),
        SYSTEM_GET_FEATURES => {
            parameters.set("featuresMask", 8);
            Ok(())
        }
        GPU_GET_ATTACHED_IDS => {
            list_gpus(parameters, INVALID_GPU);
            Ok(())
        }
        GPU_GET_PROBED_IDS => {
            list_gpus(parameters, INVALID_GPU);
            for n in 0..32 {
                parameters.set_element("excludedGpuIds", n, INVALID_GPU);
            }
            Ok(())
        }
        GPU_ATTACH_IDS => {
            // The list ends with the invalid number, or names all GPUs with it.
            let known = [u64::from(card::GPU_ID), INVALID_GPU];
            let id = parameters.element("gpuIds", 0);
            match known.contains(&id) || id == 0xffff {
                true => Ok(()),
                false => {
                    parameters.set("failedId", id);
                    Err(RmStatus::INVALID_ARGUMENT)
                }
            }
        }
        GPU_GET_ID_INFO | GPU_GET_ID_INFO_V2 => id_info(parameters),
        GPU_GET_ACTIVE_DEVICE_IDS => {
            parameters.set("numDevices", 1);
            // The GPU's number, and no instance of a partition.
            let device = [card::GPU_ID, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat();
            parameters.set_bytes("devices", &device);
            Ok(())
        }
        GPU_GET_VIRTUALIZATION_MODE => {
            parameters.set("virtualizationMode", 1);
            Ok(())
        }
        GR_GET_CTX_BUFFER_SIZE => {
            parameters.set("totalBufferSize", 0x52_c000);
            Ok(())
        }
        GSP_GET_FEATURES => {
            for name in ["gspFeatures", "bValid", "bDefaultGspRmGpu"] {
                parameters.set(name, 1);
            }
            parameters.set_bytes("firmwareVersion", settings.version.as_bytes());
            Ok(())
        }
        REGISTER_VA_SPACE => {
            parameters.set("vaSpaceToken", 1);
            Ok(())
        }
        GET_ERROR_MASKS => {
            parameters.set("eccMask", 0x180);
            parameters.set("nvlinkMask", 0x40_0000);
            Ok(())
        }
        CONFIDENTIAL_GET_CAPABILITIES => {
            parameters.set("gpusCapability", 2);
            Ok(())
        }
        GPU_GET_NUM_SUBDEVICES => {
            parameters.set("numSubDevices", 1);
            Ok(())
        }
        GPU_GET_CLASSLIST_V2 => {
            // The list of branch 570 is shorter than the classes of the GPU.
            let classes = HOPPER_CLASSES.iter().take(parameters.len("classList"));
            parameters.set("numClasses", classes.len() as u64);
            for (n, class) in classes.enumerate() {
                parameters.set_element("classList", n, u64::from(*class));
            }
            Ok(())
        }
        GPU_GET_NAME_STRING => {
            // Branch 595 has a union in place of the text.
            parameters.set_bytes("gpuNameString", card::NAME.as_bytes());
            parameters.set_bytes("gpuNameString.ascii", card::NAME.as_bytes());
            Ok(())
        }
        GPU_GET_SHORT_NAME_STRING => {
            parameters.set_bytes("gpuShortNameString", b"GH100GL-A");
            Ok(())
        }
        GPU_GET_GID_INFO => {
            parameters.set("length", card::UUID.len() as u64);
            parameters.set_bytes("data", &card::UUID);
            Ok(())
        }
        GR_GET_INFO => info_list(caller, parameters),
        FB_GET_INFO_V2 => {
            memory_info(settings, parameters);
            Ok(())
        }
        MC_GET_ARCH_INFO => {
            for (name, value) in [
                ("architecture", 0x180),
                ("implementation", 0),
                ("revision", 0xa1),
                ("subRevision", 3),
            ] {
                parameters.set(name, value);
            }
            Ok(())
        }
        BUS_GET_PCI_INFO => {
            parameters.set("pciDeviceId", u64::from(card::PCI_DEVICE));
            parameters.set("pciSubSystemId", 0x16c1_10de);
            parameters.set("pciRevisionId", 0xa1);
            parameters.set("pciExtDeviceId", u64::from(card::PCI_DEVICE >> 16));
            Ok(())
        }
        command if is_accepted_without_effect(command) => Ok(()),
        _ => Err(RmStatus::NOT_SUPPORTED),
    }
}

/// Lists the one GPU.
fn list_gpus(parameters: &mut Record, end: u64) {
    parameters.set_element("gpuIds", 0, u64::from(card::GPU_ID));
    for n in 1..32 {
        parameters.set_element("gpuIds", n, end);
    }
}

fn id_info(parameters: &mut Record) -> RmResult {
    if parameters.word("gpuId") != card::GPU_ID {
        return Err(RmStatus::INVALID_ARGUMENT);
    }
    for (name, value) in [
        ("deviceInstance", 0),
        ("subDeviceInstance", 0),
        ("sliStatus", 0x41),
        ("boardId", u64::from(card::GPU_ID)),
        ("gpuInstance", 0),
        ("numaId", u64::MAX),
    ] {
        parameters.set(name, value);
    }
    Ok(())
}

/// Writes the pairs of index and value that a program asks for.
fn info_list(caller: Caller, parameters: &Record) -> RmResult {
    let count = parameters.get("grInfoListSize");
    if count > MAX_INFO_PAIRS {
        return Err(RmStatus::INVALID_ARGUMENT);
    }
    let address = parameters.get("grInfoList");
    let invalid = |_| RmStatus::INVALID_ADDRESS;
    let mut pairs = caller.read_vec(address, count as usize * 8).map_err(invalid)?;
    for pair in pairs.chunks_exact_mut(8) {
        let (index, value) = pair.split_at_mut(4);
        let index = index.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte));
        value.copy_from_slice(&graphics_info(index).to_le_bytes());
    }
    caller.write(address, &pairs).map_err(invalid)
}

/// Fills in sizes of memory, KiB.
fn memory_info(settings: &Settings, parameters: &mut Record) {
    let pairs = parameters.get("fbInfoListSize").min(128) as usize;
    for pair in 0..pairs {
        let byte = |at: usize| parameters.element("fbInfoList", pair * 8 + at) as u32;
        let index = (0..4).rev().fold(0, |n, at| n << 8 | byte(at));
        let value = match FB_SIZES.contains(&index) {
            true => (settings.memory >> 10) as u32,
            false => 0,
        };
        for (at, byte) in value.to_le_bytes().into_iter().enumerate() {
            parameters.set_element("fbInfoList", pair * 8 + 4 + at, u64::from(byte));
        }
    }
}

/// Writes the version of the driver into the buffers of a program.
fn build_version(caller: Caller, settings: &Settings, parameters: &mut Record) -> RmResult {
    let size = parameters.get("sizeOfStrings");
    let mut version = settings.version.clone().into_bytes();
    version.push(0);
    if size < version.len() as u64 {
        return Err(RmStatus::INVALID_ARGUMENT);
    }
    for (name, text) in [
        ("pDriverVersionBuffer", version.as_slice()),
        ("pVersionBuffer", b"model\0"),
        ("pTitleBuffer", b"NVIDIA UNIX Open Kernel Module\0"),
    ] {
        let address = parameters.get(name);
        let fits = text.len() as u64 <= size && address != 0;
        if fits && caller.write(address, text).is_err() {
            return Err(RmStatus::INVALID_ADDRESS);
        }
    }
    Ok(())
}
