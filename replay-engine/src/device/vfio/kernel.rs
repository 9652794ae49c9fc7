//! The calls of the kernel's VFIO interface: each is a number and a structure that both sides fill in.
//!
//! Linux, `include/uapi/linux/vfio.h` and `Documentation/driver-api/vfio.rst`.
#![allow(unsafe_code)]

use crate::device::host::Host;
use crate::device::mapping::Mapping;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::{CString, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use trace_core::BusAddr;
use vfio_bindings::bindings::vfio as form;

/// Maximum size of an answer of variable length, bytes.
const MAX_BYTES: usize = 1 << 16;

/// A VFIO call failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}{}", hint(doing, .source))]
pub struct VfioError {
    /// The failed operation.
    pub doing: &'static str,
    /// The error of the operating system.
    pub source: io::Error,
}

/// The operation of attaching a device's group to an IOMMU.
const SET_IOMMU: &str = "setting up the IOMMU";
/// The operation of mapping memory for a device.
const MAP: &str = "mapping memory in the IOMMU";

fn hint(doing: &str, e: &io::Error) -> &'static str {
    match (doing, e.raw_os_error().map(rustix::io::Errno::from_raw_os_error)) {
        (SET_IOMMU, Some(rustix::io::Errno::PERM)) => {
            "; the IOMMU does not remap interrupts, so that a device could forge them"
        }
        (MAP, Some(rustix::io::Errno::NOMEM)) => "; the limit of locked memory (ulimit -l) or of mappings is reached",
        _ => "",
    }
}

fn vfio_error(doing: &'static str) -> impl Fn(rustix::io::Errno) -> VfioError {
    move |e| VfioError {
        doing,
        source: e.into(),
    }
}

fn odd(doing: &'static str, what: &str) -> VfioError {
    VfioError {
        doing,
        source: io::Error::new(io::ErrorKind::InvalidData, what.to_owned()),
    }
}

/// Returns the opcode of the nth call.
const fn call(n: u8) -> Opcode {
    opcode::none(form::VFIO_TYPE, form::VFIO_BASE as u8 + n)
}

const GET_API_VERSION: Opcode = call(0);
const CHECK_EXTENSION: Opcode = call(1);
const SET_IOMMU_TYPE: Opcode = call(2);
const GROUP_GET_STATUS: Opcode = call(3);
const GROUP_SET_CONTAINER: Opcode = call(4);
const GROUP_GET_DEVICE: Opcode = call(6);
const DEVICE_GET_INFO: Opcode = call(7);
const DEVICE_GET_REGION: Opcode = call(8);
const DEVICE_GET_IRQ: Opcode = call(9);
const DEVICE_SET_IRQS: Opcode = call(10);
const DEVICE_RESET: Opcode = call(11);
const IOMMU_GET_INFO: Opcode = call(12);
const IOMMU_MAP: Opcode = call(13);
const IOMMU_UNMAP: Opcode = call(14);

/// A call with a number or a pointer as argument, and a number as result.
struct Call {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: the functions below are the only ones that create a `Call`, and they document each opcode's argument. The
// kernel may write through it, as `IS_MUTATING` says.
unsafe impl Ioctl for Call {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// Makes a call with a number.
fn with_number(of: impl AsFd, opcode: Opcode, number: u32) -> rustix::io::Result<i32> {
    let argument = std::ptr::without_provenance_mut(number as usize);
    // SAFETY: the calls used here take a number and access no memory of this program.
    unsafe { ioctl(of, Call { opcode, argument }) }
}

/// Makes a call with a structure, whose first word holds its size.
///
/// # Safety
/// The call must take a structure of this type, write no more than its size, and keep no pointer to it. The caller is
/// responsible for all other effects of the structure.
unsafe fn with_form<T>(of: impl AsFd, opcode: Opcode, form: &mut T) -> rustix::io::Result<i32> {
    let argument = std::ptr::from_mut(form).cast();
    // SAFETY: the structure is borrowed for the duration of the call.
    unsafe { ioctl(of, Call { opcode, argument }) }
}

/// Returns the size of a structure in bytes, in the kernel's type.
const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

/// The IOMMU context shared by one or more device groups.
#[derive(Debug)]
pub(super) struct Container(File);

impl Container {
    /// Opens a new one, without an IOMMU yet.
    pub fn open(host: &Host) -> Result<Self, VfioError> {
        let doing = "opening /dev/vfio/vfio";
        let file = host.open("dev/vfio/vfio", true);
        let file = file.map_err(|e| VfioError {
            doing,
            source: e.source,
        })?;
        let asked = |call, number| with_number(&file, call, number).map_err(vfio_error(doing));
        if asked(GET_API_VERSION, 0)? != form::VFIO_API_VERSION as i32 {
            return Err(odd(doing, "this kernel's VFIO has another version than 0"));
        }
        if asked(CHECK_EXTENSION, form::VFIO_TYPE1v2_IOMMU)? == 0 {
            return Err(odd(doing, "this kernel has no vfio_iommu_type1"));
        }
        Ok(Self(file))
    }

    /// Attaches the IOMMU to the added groups.
    pub fn set_up(&self) -> Result<(), VfioError> {
        let done = with_number(&self.0, SET_IOMMU_TYPE, form::VFIO_TYPE1v2_IOMMU);
        done.map(|_| ()).map_err(vfio_error(SET_IOMMU))
    }

    /// Returns the address ranges that can be mapped, each as first and last address. Returns the full range if the
    /// kernel does not report them.
    pub fn ranges(&self) -> Result<Vec<(BusAddr, BusAddr)>, VfioError> {
        let doing = "reading the IOMMU's address ranges";
        let mut bytes = size::<form::vfio_iommu_type1_info>() as usize;
        loop {
            let mut answer = vec![0u64; bytes.div_ceil(8)];
            let reported = (answer.len() * 8) as u32;
            if let Some(first) = answer.first_mut() {
                // Its size, and no flags.
                *first = u64::from_ne_bytes(pair(reported, 0));
            }
            let call = Call {
                opcode: IOMMU_GET_INFO,
                argument: answer.as_mut_ptr().cast(),
            };
            // SAFETY: the structure starts the buffer and holds its whole size, which the kernel does not exceed. A
            // buffer of 64-bit words has sufficient alignment and size.
            let asked = unsafe { ioctl(&self.0, call) };
            asked.map_err(vfio_error(doing))?;
            let answer: Vec<u8> = answer.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let wanted = word(&answer, 0).unwrap_or(0) as usize;
            if wanted <= bytes || wanted > MAX_BYTES {
                return ranges(&answer).ok_or_else(|| odd(doing, "the kernel's answer has an unknown form"));
            }
            bytes = wanted;
        }
    }

    /// Maps memory for the devices at a bus address.
    pub fn map(&self, mapping: &Mapping, at: BusAddr) -> Result<(), VfioError> {
        let mut form = form::vfio_iommu_type1_dma_map {
            argsz: size::<form::vfio_iommu_type1_dma_map>(),
            flags: form::VFIO_DMA_MAP_FLAG_READ | form::VFIO_DMA_MAP_FLAG_WRITE,
            vaddr: mapping.address(),
            iova: at.get(),
            size: mapping.bytes(),
        };
        // SAFETY: a device writes only to memory of a `Mapping`, which is accessed only with volatile accesses. The
        // kernel holds its pages while they are mapped for the device, whatever happens to the mapping.
        let done = unsafe { with_form(&self.0, IOMMU_MAP, &mut form) };
        done.map(|_| ()).map_err(vfio_error(MAP))
    }

    /// Removes the mapping at bus addresses.
    pub fn unmap(&self, at: BusAddr, bytes: u64) -> Result<(), VfioError> {
        let mut form = form::vfio_iommu_type1_dma_unmap {
            argsz: size::<form::vfio_iommu_type1_dma_unmap>(),
            iova: at.get(),
            size: bytes,
            ..Default::default()
        };
        // SAFETY: the call takes this structure and accesses no other memory of this program.
        let done = unsafe { with_form(&self.0, IOMMU_UNMAP, &mut form) };
        done.map(|_| ()).map_err(vfio_error("unmapping memory in the IOMMU"))
    }
}

/// Returns two 32-bit words in memory order.
fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut both = [0; 8];
    let (low, high) = both.split_at_mut(4);
    low.copy_from_slice(&first.to_ne_bytes());
    high.copy_from_slice(&second.to_ne_bytes());
    both
}

fn word(of: &[u8], at: usize) -> Option<u32> {
    let bytes = of.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn long(of: &[u8], at: usize) -> Option<u64> {
    let bytes = of.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Parses the ranges in an answer of the kernel: its header (size, flags, page sizes, offset of the first capability),
/// then capabilities, each with its number, its version and the offset of the next. Returns `None` for another form.
#[must_use]
pub fn ranges(answer: &[u8]) -> Option<Vec<(BusAddr, BusAddr)>> {
    let all = Some(vec![(BusAddr::ZERO, BusAddr::MAX)]);
    if word(answer, 4)? & form::VFIO_IOMMU_INFO_CAPS == 0 {
        return all;
    }
    let mut at = word(answer, 16)? as usize;
    // A longer capability list is circular.
    for _ in 0..64 {
        if at == 0 {
            return all;
        }
        let capability = word(answer, at)? & 0xffff;
        if capability == form::VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE {
            let count = word(answer, at.checked_add(8)?)? as usize;
            let first = at.checked_add(16)?;
            let left = answer.len().checked_sub(first)? / 16;
            if count > left {
                return None;
            }
            let range = |n: usize| {
                let number = |at: usize| long(answer, at).map(BusAddr::new);
                let range = (number(first + n * 16)?, number(first + n * 16 + 8)?);
                (range.0 <= range.1).then_some(range)
            };
            return (0..count).map(range).collect();
        }
        at = word(answer, at.checked_add(4)?)? as usize;
    }
    None
}

/// Opens a device group and adds it to a container.
pub(super) fn join(host: &Host, group: u32, container: &Container) -> Result<File, VfioError> {
    let doing = "opening the device's group";
    let file = host.open(format!("dev/vfio/{group}"), true);
    let file = file.map_err(|e| VfioError {
        doing,
        source: e.source,
    })?;
    let mut status = form::vfio_group_status {
        argsz: size::<form::vfio_group_status>(),
        ..Default::default()
    };
    // SAFETY: the call takes this structure and accesses no other memory of this program.
    unsafe { with_form(&file, GROUP_GET_STATUS, &mut status) }.map_err(vfio_error(doing))?;
    if status.flags & form::VFIO_GROUP_FLAGS_VIABLE == 0 {
        return Err(odd(doing, "another device of the group is bound to a kernel driver"));
    }
    let mut number = container.0.as_raw_fd();
    // SAFETY: the call reads the number of an open file; the kernel keeps the file itself.
    unsafe { with_form(&file, GROUP_SET_CONTAINER, &mut number) }.map_err(vfio_error(doing))?;
    Ok(file)
}

/// Opens a device of a group that has an IOMMU.
pub(super) fn device(group: &File, name: &str) -> Result<File, VfioError> {
    let doing = "opening the device";
    let name = CString::new(name).map_err(|_| odd(doing, "its name contains a zero byte"))?;
    let call = Call {
        opcode: GROUP_GET_DEVICE,
        argument: name.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the call reads a zero-terminated string, which outlives the call.
    let number = unsafe { ioctl(group, call) }.map_err(vfio_error(doing))?;
    // SAFETY: the kernel has just opened it for this program, and no other code knows its number.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Returns whether the kernel can reset a device.
pub(super) fn can_reset(device: &File) -> Result<bool, VfioError> {
    let mut info = form::vfio_device_info {
        argsz: size::<form::vfio_device_info>(),
        ..Default::default()
    };
    // SAFETY: the call takes this structure and accesses no other memory of this program.
    unsafe { with_form(device, DEVICE_GET_INFO, &mut info) }.map_err(vfio_error("reading the device's properties"))?;
    Ok(info.flags & form::VFIO_DEVICE_FLAGS_RESET != 0)
}

/// Resets a device.
pub(super) fn reset(device: &File) -> Result<(), VfioError> {
    let done = with_number(device, DEVICE_RESET, 0);
    done.map(|_| ()).map_err(vfio_error("resetting the device"))
}

/// Returns the location of a window in the device file: flags, offset and length in bytes.
pub(super) fn region(device: &File, index: u32) -> Result<(u32, u64, u64), VfioError> {
    let mut info = form::vfio_region_info {
        argsz: size::<form::vfio_region_info>(),
        index,
        ..Default::default()
    };
    // SAFETY: the call takes this structure and accesses no other memory of this program.
    unsafe { with_form(device, DEVICE_GET_REGION, &mut info) }
        .map_err(vfio_error("reading an MMIO region's properties"))?;
    Ok((info.flags, info.offset, info.size))
}

/// Returns the number of interrupts of a kind that a device has.
pub(super) fn interrupts(device: &File, index: u32) -> Result<u32, VfioError> {
    let mut info = form::vfio_irq_info {
        argsz: size::<form::vfio_irq_info>(),
        index,
        ..Default::default()
    };
    // SAFETY: the call takes this structure and accesses no other memory of this program.
    unsafe { with_form(device, DEVICE_GET_IRQ, &mut info) }
        .map_err(vfio_error("reading the interrupts' properties"))?;
    Ok(info.count)
}

/// A structure for one interrupt, followed by the number of an eventfd.
#[repr(C)]
struct OneInterrupt {
    argsz: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    event: i32,
}

impl OneInterrupt {
    fn new(index: u32, flags: u32, event: i32) -> Self {
        Self {
            argsz: size::<Self>(),
            flags,
            index,
            start: 0,
            count: 1,
            event,
        }
    }
}

/// Connects a device's interrupt to an eventfd, which counts it.
pub(super) fn set_interrupt_event(device: &File, index: u32, event: &OwnedFd) -> Result<(), VfioError> {
    let flags = form::VFIO_IRQ_SET_DATA_EVENTFD | form::VFIO_IRQ_SET_ACTION_TRIGGER;
    let mut one = OneInterrupt::new(index, flags, event.as_raw_fd());
    // SAFETY: the structure is the kernel's, with the number of one open file as data; the kernel keeps the file
    // itself.
    let done = unsafe { with_form(device, DEVICE_SET_IRQS, &mut one) };
    done.map(|_| ()).map_err(vfio_error("enabling the interrupt"))
}

/// Unmasks a device's interrupt, which the kernel masks when it occurs.
pub(super) fn unmask(device: &File, index: u32) -> Result<(), VfioError> {
    let flags = form::VFIO_IRQ_SET_DATA_NONE | form::VFIO_IRQ_SET_ACTION_UNMASK;
    let mut one = OneInterrupt::new(index, flags, -1);
    // SAFETY: the structure is the kernel's, without data.
    let done = unsafe { with_form(device, DEVICE_SET_IRQS, &mut one) };
    done.map(|_| ()).map_err(vfio_error("unmasking the interrupt"))
}

/// Creates an eventfd.
pub(super) fn create_event() -> Result<OwnedFd, VfioError> {
    use rustix::event::{EventfdFlags, eventfd};
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(vfio_error("creating an event"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an answer with capabilities: number, offset of the next, and contents.
    fn answer(flags: u32, first: u32, rest: &[u32]) -> Vec<u8> {
        let head = [0, flags, 0x1000, 0, first, 0];
        head.iter().chain(rest).flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn iommu_ranges_are_parsed_and_truncated_answers_are_errors() {
        let caps = form::VFIO_IOMMU_INFO_CAPS;
        let all = Some(vec![(BusAddr::ZERO, BusAddr::MAX)]);
        assert_eq!(ranges(&answer(0, 0, &[])), all);
        assert_eq!(ranges(&answer(caps, 0, &[])), all);
        // Another capability precedes one with two ranges.
        let two = [
            7,
            36,
            0,
            1,
            0,
            2,
            0,
            0,
            0,
            0xfedf_ffff,
            0,
            0xfef0_0000,
            0,
            0xffff_ffff,
            0xff,
        ];
        let expected = [(0, 0xfedf_ffff), (0xfef0_0000, 0xff_ffff_ffff)];
        let expected = expected.map(|(first, last)| (BusAddr::new(first), BusAddr::new(last)));
        assert_eq!(ranges(&answer(caps, 24, &two)), Some(expected.to_vec()));
        // These answers are truncated, reference themselves, have more ranges than bytes, or have a reversed range.
        assert_eq!(ranges(&answer(caps, 24, &two[..14])), None);
        assert_eq!(ranges(&answer(caps, 24, &[7, 24, 0, 0])), None);
        assert_eq!(ranges(&answer(caps, 24, &[1, 0, u32::MAX, 0, 0, 0, 0, 0])), None);
        assert_eq!(ranges(&answer(caps, 24, &[1, 0, 1, 0, 1, 0, 0, 0])), None);
        assert_eq!(ranges(&answer(caps, u32::MAX, &[])), None);
        assert_eq!(ranges(&[0; 3]), None);
    }

    #[test]
    fn missing_vfio_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let e = Container::open(&Host::with_root(folder.path()))
            .unwrap_err()
            .to_string();
        assert!(e.starts_with("opening /dev/vfio/vfio"), "{e}");
        // A regular file does not accept VFIO's calls.
        std::fs::create_dir_all(folder.path().join("dev/vfio")).unwrap();
        std::fs::write(folder.path().join("dev/vfio/vfio"), "").unwrap();
        assert!(Container::open(&Host::with_root(folder.path())).is_err());
    }
}
