//! The calls of the kernel's VFIO: each a number, and a form that both sides fill in.
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
use vfio_bindings::bindings::vfio as form;

/// Maximum number of bytes of an answer that tells how many it has.
const MAX_BYTES: usize = 1 << 16;

/// A call of VFIO's failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}{}", hint(doing, .source))]
pub struct VfioError {
    /// What was tried.
    pub doing: &'static str,
    /// What the operating system said.
    pub source: io::Error,
}

/// What is tried when a device's group is joined to an IOMMU.
const SET_IOMMU: &str = "setting up the IOMMU";
/// What is tried when memory is mapped for a device.
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

/// The `n`th call.
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

/// A call whose argument is a number or a pointer, and whose answer is a number.
struct Call {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: what the argument of each opcode is stands at the functions below, the only ones that make a `Call`; the
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

/// A call with a number.
fn with_number(of: impl AsFd, opcode: Opcode, number: u32) -> rustix::io::Result<i32> {
    let argument = std::ptr::without_provenance_mut(number as usize);
    // SAFETY: the calls that this is used for take a number and touch no memory of this program.
    unsafe { ioctl(of, Call { opcode, argument }) }
}

/// A call with a form, which tells its own size in its first word.
///
/// # Safety
/// The call must take a form of this type, write no more than its size, and keep no pointer to it. What else the form
/// makes the kernel do is for the caller to answer for.
unsafe fn with_form<T>(of: impl AsFd, opcode: Opcode, form: &mut T) -> rustix::io::Result<i32> {
    let argument = std::ptr::from_mut(form).cast();
    // SAFETY: the form is borrowed for as long as the call takes.
    unsafe { ioctl(of, Call { opcode, argument }) }
}

/// Bytes of a form, as it tells the kernel.
const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

/// The IOMMU as one or several groups of devices have it.
#[derive(Debug)]
pub(super) struct Container(File);

impl Container {
    /// A new one, without an IOMMU yet.
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

    /// Puts the IOMMU behind the groups that were added.
    pub fn set_up(&self) -> Result<(), VfioError> {
        let done = with_number(&self.0, SET_IOMMU_TYPE, form::VFIO_TYPE1v2_IOMMU);
        done.map(|_| ()).map_err(vfio_error(SET_IOMMU))
    }

    /// Ranges of addresses that may be mapped, first and last address of each; all where the kernel does not tell.
    pub fn ranges(&self) -> Result<Vec<(u64, u64)>, VfioError> {
        let doing = "asking for the IOMMU's addresses";
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
            // SAFETY: the form begins the buffer and tells its whole size, which the kernel does not go beyond; a
            // buffer of words of 64 bits is aligned as the form is, and it is at least as large.
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

    /// Lets the devices reach a mapping's memory, at an address of the bus.
    pub fn map(&self, mapping: &Mapping, at: u64) -> Result<(), VfioError> {
        let mut form = form::vfio_iommu_type1_dma_map {
            argsz: size::<form::vfio_iommu_type1_dma_map>(),
            flags: form::VFIO_DMA_MAP_FLAG_READ | form::VFIO_DMA_MAP_FLAG_WRITE,
            vaddr: mapping.address(),
            iova: at,
            size: mapping.bytes(),
        };
        // SAFETY: what a device writes there is memory of a `Mapping`, which is reached by volatile accesses alone; the
        // kernel holds its pages for as long as they are mapped for the device, whatever happens to the mapping.
        let done = unsafe { with_form(&self.0, IOMMU_MAP, &mut form) };
        done.map(|_| ()).map_err(vfio_error(MAP))
    }

    /// Keeps the devices from memory at addresses of the bus.
    pub fn unmap(&self, at: u64, bytes: u64) -> Result<(), VfioError> {
        let mut form = form::vfio_iommu_type1_dma_unmap {
            argsz: size::<form::vfio_iommu_type1_dma_unmap>(),
            iova: at,
            size: bytes,
            ..Default::default()
        };
        // SAFETY: it takes this form, and touches no memory of this program beside it.
        let done = unsafe { with_form(&self.0, IOMMU_UNMAP, &mut form) };
        done.map(|_| ()).map_err(vfio_error("unmapping memory in the IOMMU"))
    }
}

/// Two words of 32 bits as they lie in memory.
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

/// The ranges in an answer of the kernel's: its head (size, flags, page sizes, place of the first capability), then
/// capabilities, each with its number, its version and the place of the next. `None` for one of another form.
#[must_use]
pub fn ranges(answer: &[u8]) -> Option<Vec<(u64, u64)>> {
    let all = Some(vec![(0, u64::MAX)]);
    if word(answer, 4)? & form::VFIO_IOMMU_INFO_CAPS == 0 {
        return all;
    }
    let mut at = word(answer, 16)? as usize;
    // More capabilities than these lead round in a circle.
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
                let range = (long(answer, first + n * 16)?, long(answer, first + n * 16 + 8)?);
                (range.0 <= range.1).then_some(range)
            };
            return (0..count).map(range).collect();
        }
        at = word(answer, at.checked_add(4)?)? as usize;
    }
    None
}

/// Opens a group of devices and adds it to a container.
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
    // SAFETY: it takes this form, and touches no memory of this program beside it.
    unsafe { with_form(&file, GROUP_GET_STATUS, &mut status) }.map_err(vfio_error(doing))?;
    if status.flags & form::VFIO_GROUP_FLAGS_VIABLE == 0 {
        return Err(odd(doing, "another device of it has a driver of the kernel's"));
    }
    let mut number = container.0.as_raw_fd();
    // SAFETY: the call reads the number of an open file, and keeps the file itself.
    unsafe { with_form(&file, GROUP_SET_CONTAINER, &mut number) }.map_err(vfio_error(doing))?;
    Ok(file)
}

/// Opens a device of a group that has an IOMMU.
pub(super) fn device(group: &File, name: &str) -> Result<File, VfioError> {
    let doing = "opening the device";
    let name = CString::new(name).map_err(|_| odd(doing, "its name holds a zero"))?;
    let call = Call {
        opcode: GROUP_GET_DEVICE,
        argument: name.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the call reads a text that ends in a zero, which lives until after it.
    let number = unsafe { ioctl(group, call) }.map_err(vfio_error(doing))?;
    // SAFETY: the kernel has just opened it for this program, and nobody else knows its number.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Whether the kernel can reset a device.
pub(super) fn can_reset(device: &File) -> Result<bool, VfioError> {
    let mut info = form::vfio_device_info {
        argsz: size::<form::vfio_device_info>(),
        ..Default::default()
    };
    // SAFETY: it takes this form, and touches no memory of this program beside it.
    unsafe { with_form(device, DEVICE_GET_INFO, &mut info) }.map_err(vfio_error("asking for the device"))?;
    Ok(info.flags & form::VFIO_DEVICE_FLAGS_RESET != 0)
}

/// Resets a device.
pub(super) fn reset(device: &File) -> Result<(), VfioError> {
    let done = with_number(device, DEVICE_RESET, 0);
    done.map(|_| ()).map_err(vfio_error("resetting the device"))
}

/// Where a window of a device lies in its file: flags, first byte and bytes.
pub(super) fn region(device: &File, index: u32) -> Result<(u32, u64, u64), VfioError> {
    let mut info = form::vfio_region_info {
        argsz: size::<form::vfio_region_info>(),
        index,
        ..Default::default()
    };
    // SAFETY: it takes this form, and touches no memory of this program beside it.
    unsafe { with_form(device, DEVICE_GET_REGION, &mut info) }.map_err(vfio_error("asking for a window"))?;
    Ok((info.flags, info.offset, info.size))
}

/// How many interrupts of a kind a device has.
pub(super) fn interrupts(device: &File, index: u32) -> Result<u32, VfioError> {
    let mut info = form::vfio_irq_info {
        argsz: size::<form::vfio_irq_info>(),
        index,
        ..Default::default()
    };
    // SAFETY: it takes this form, and touches no memory of this program beside it.
    unsafe { with_form(device, DEVICE_GET_IRQ, &mut info) }.map_err(vfio_error("asking for interrupts"))?;
    Ok(info.count)
}

/// A form for one interrupt, with the number of an event's file behind it.
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

/// Has a device's interrupt counted by an event's file.
pub(super) fn set_interrupt_event(device: &File, index: u32, event: &OwnedFd) -> Result<(), VfioError> {
    let flags = form::VFIO_IRQ_SET_DATA_EVENTFD | form::VFIO_IRQ_SET_ACTION_TRIGGER;
    let mut one = OneInterrupt::new(index, flags, event.as_raw_fd());
    // SAFETY: the form is the kernel's with one number of an open file as its data; it keeps the file itself.
    let done = unsafe { with_form(device, DEVICE_SET_IRQS, &mut one) };
    done.map(|_| ()).map_err(vfio_error("asking for the interrupt"))
}

/// Lets a device's interrupt through again: the kernel masks it when it came.
pub(super) fn unmask(device: &File, index: u32) -> Result<(), VfioError> {
    let flags = form::VFIO_IRQ_SET_DATA_NONE | form::VFIO_IRQ_SET_ACTION_UNMASK;
    let mut one = OneInterrupt::new(index, flags, -1);
    // SAFETY: the form is the kernel's without data.
    let done = unsafe { with_form(device, DEVICE_SET_IRQS, &mut one) };
    done.map(|_| ()).map_err(vfio_error("letting the interrupt through"))
}

/// A file that counts an event.
pub(super) fn create_event() -> Result<OwnedFd, VfioError> {
    use rustix::event::{EventfdFlags, eventfd};
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(vfio_error("making an event"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with capabilities: number, the place of the next, and what follows.
    fn answer(flags: u32, first: u32, rest: &[u32]) -> Vec<u8> {
        let head = [0, flags, 0x1000, 0, first, 0];
        head.iter().chain(rest).flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn ranges_are_read_out_of_any_answer_and_a_broken_one_is_told() {
        let caps = form::VFIO_IOMMU_INFO_CAPS;
        let all = Some(vec![(0, u64::MAX)]);
        assert_eq!(ranges(&answer(0, 0, &[])), all);
        assert_eq!(ranges(&answer(caps, 0, &[])), all);
        // Another capability, then two ranges.
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
        assert_eq!(
            ranges(&answer(caps, 24, &two)),
            Some(vec![(0, 0xfedf_ffff), (0xfef0_0000, 0xff_ffff_ffff)])
        );
        // One that is cut off, one that leads to itself, one of more ranges than bytes, one that runs backwards.
        assert_eq!(ranges(&answer(caps, 24, &two[..14])), None);
        assert_eq!(ranges(&answer(caps, 24, &[7, 24, 0, 0])), None);
        assert_eq!(ranges(&answer(caps, 24, &[1, 0, u32::MAX, 0, 0, 0, 0, 0])), None);
        assert_eq!(ranges(&answer(caps, 24, &[1, 0, 1, 0, 1, 0, 0, 0])), None);
        assert_eq!(ranges(&answer(caps, u32::MAX, &[])), None);
        assert_eq!(ranges(&[0; 3]), None);
    }

    #[test]
    fn a_machine_without_vfio_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let e = Container::open(&Host::with_root(folder.path()))
            .unwrap_err()
            .to_string();
        assert!(e.starts_with("opening /dev/vfio/vfio"), "{e}");
        // A file that is not VFIO's takes none of its calls.
        std::fs::create_dir_all(folder.path().join("dev/vfio")).unwrap();
        std::fs::write(folder.path().join("dev/vfio/vfio"), "").unwrap();
        assert!(Container::open(&Host::with_root(folder.path())).is_err());
    }
}
