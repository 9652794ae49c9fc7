//! Lines that QEMU's script `simpletrace.py` prints of a file of the backend `simple`.
//!
//! ```text
//! memory_region_ops_write 12.345 pid=9 cpu_index=0x0 mr=0x55 addr=0xfebf0010 value=0x33 size=0x4 name=b'ati.mmregs'
//! vfio_region_write 0.120 pid=9 name=b'0000:09:00.0' index=0x0 addr=0x8000 data=0x4 size=0x4
//! ```
//!
//! The number behind the name counts microseconds from the event before, also from one that is not read. It is not used.
//! Source: QEMU's `scripts/simpletrace.py`.

use super::super::ftrace;
use super::super::names::Names;
use super::super::text::mask;
use super::line::{CONFIG_REGION, QemuEvent};
use memchr::memmem;

/// Returns whether what follows the name of an event is of this form.
pub(super) fn is_printed(rest: &[u8]) -> bool {
    memmem::find(rest, b" pid=").is_some_and(|at| {
        let delta = rest.get(..at).unwrap_or_default().trim_ascii();
        !delta.is_empty() && delta.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'))
    })
}

fn number(rest: &[u8], key: &[u8], missing: &'static str) -> Result<u64, &'static str> {
    ftrace::field(rest, key).ok_or(missing)
}

fn width(rest: &[u8], key: &[u8]) -> Result<u8, &'static str> {
    match number(rest, key, "the size")? {
        bytes @ (1 | 2 | 4 | 8) => Ok(bytes as u8),
        _ => Err("a size of 1, 2, 4 or 8 bytes"),
    }
}

/// Returns a text argument, which Python may print as bytes.
fn text<'a>(rest: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memmem::find(rest, key)? + key.len();
    let value = rest.get(at..)?;
    match value.strip_prefix(b"b'") {
        Some(quoted) => quoted.get(..memchr::memchr(b'\'', quoted)?),
        None => value.split(u8::is_ascii_whitespace).next(),
    }
}

/// Parses an access to a region of the machine.
pub(super) fn region(write: bool, rest: &[u8], names: &mut Names) -> Result<QemuEvent, &'static str> {
    let width = width(rest, b"size")?;
    Ok(QemuEvent::Region {
        write,
        address: number(rest, b"addr", "the address, addr=")?,
        value: number(rest, b"value", "the value, value=")? & mask(width),
        width,
        name: names.number(text(rest, b" name=").unwrap_or_default()),
        pointer: number(rest, b"mr", "the pointer, mr=")?,
    })
}

/// Parses an access to a region of a device that is passed through.
pub(super) fn vfio_access(write: bool, rest: &[u8], names: &mut Names) -> Result<QemuEvent, &'static str> {
    let width = width(rest, b"size")?;
    let region = number(rest, b"index", "the number of the region, index=")?;
    Ok(QemuEvent::Vfio {
        device: names.number(text(rest, b" name=").ok_or("the device, name=")?),
        region: u8::try_from(region).map_err(|_| "a region below 256, index=")?,
        write,
        offset: number(rest, b"addr", "the offset, addr=")?,
        value: number(rest, b"data", "the value, data=")? & mask(width),
        width,
    })
}

/// Parses an access to the configuration space of such a device.
pub(super) fn vfio_config(write: bool, rest: &[u8], names: &mut Names) -> Result<QemuEvent, &'static str> {
    let width = width(rest, b"len")?;
    Ok(QemuEvent::Vfio {
        device: names.number(text(rest, b" name=").ok_or("the device, name=")?),
        region: CONFIG_REGION,
        write,
        offset: number(rest, b"addr", "the register, addr=")?,
        value: number(rest, b"val", "the value, val=")? & mask(width),
        width,
    })
}
