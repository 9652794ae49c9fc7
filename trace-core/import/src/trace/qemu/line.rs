//! Lines of QEMU's log of trace events, with any head in front of the event.
//!
//! ```text
//! [HEAD]memory_region_ops_read|write [cpu N] mr POINTER addr ADDRESS value VALUE size N [name 'NAME']
//! [HEAD]vfio_region_read  (DEVICE:regionN+0xOFFSET, SIZE) = 0xVALUE
//! [HEAD]vfio_region_write  (DEVICE:regionN+0xOFFSET, 0xVALUE, SIZE)
//! [HEAD]vfio_pci_read_config  (DEVICE, @0xREGISTER, len=0xSIZE) 0xVALUE
//! [HEAD]vfio_pci_write_config  (DEVICE, @0xREGISTER, 0xVALUE, len=0xSIZE)
//! [HEAD]vfio_region_setup Device DEVICE, region N "NAME", flags: 0xF, offset: 0xO, size: 0xSIZE
//! ```
//!
//! A line may also be one that `simpletrace.py` prints ([`super::printed`]). A head is `PID@SECONDS.MICROSECONDS:`, a time of ISO 8601 with its zone and perhaps the names of guest, program and
//! thread behind it, the head of syslog or ftrace, or nothing. Sources: QEMU's `docs/devel/tracing.rst`, the
//! `trace-events` files of `system` and `hw/vfio`, `scripts/tracetool/backend/log.py`, and the logs.

use super::super::ftrace;
use super::super::names::Names;
use super::super::text::{self, Line, mask};
use super::printed;
use memchr::memmem;

/// Maximum number of bytes in front of an event.
const MAX_HEAD: usize = 256;
/// Maximum number of words of a head that are read.
const MAX_WORDS: usize = 12;
/// Prefixes of the events that are read.
const REGION: &[u8] = b"memory_region_ops_";
const VFIO: &[u8] = b"vfio_";
/// Number of the region of VFIO that is the configuration space.
pub(super) const CONFIG_REGION: u8 = 7;

/// An event of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QemuEvent {
    /// An access to a region of the machine at an address.
    Region {
        write: bool,
        address: u64,
        value: u64,
        width: u8,
        /// The region: its name, and its pointer in the process.
        name: u16,
        pointer: u64,
    },
    /// An access to a region of a device that is passed through.
    Vfio {
        device: u16,
        region: u8,
        write: bool,
        offset: u64,
        value: u64,
        width: u8,
    },
    /// The size of a region of such a device.
    VfioSize { device: u16, region: u8, bytes: u64 },
    /// An interrupt of such a device, by its vector.
    VfioInterrupt { device: u16, vector: u32 },
    /// A reset of such a device, or another change of its state; the text is a name of the list.
    VfioMark { text: u16 },
}

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Nanoseconds, if the line has a time.
    pub(super) time: Option<u64>,
    /// Thread, or 0.
    pub(super) thread: u32,
    pub(super) event: QemuEvent,
}

/// The result of parsing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParsedLine {
    Item(Item),
    /// An event that is no access and gives no window.
    Other,
    /// A line of these events with something missing: what is missing.
    Incomplete(&'static str),
    /// Not a line of the log.
    Foreign,
}

/// Parses a line.
pub(super) fn parse_line(line: &[u8], names: &mut Names) -> ParsedLine {
    let Some((head, text)) = split_head(line) else {
        return ParsedLine::Foreign;
    };
    let event = match text.strip_prefix(REGION) {
        Some(rest) => region(rest, names).map(Some),
        None => vfio(text, names),
    };
    match event {
        Ok(Some(event)) => {
            let (time, thread) = parse_head(head);
            ParsedLine::Item(Item { time, thread, event })
        }
        Ok(None) => ParsedLine::Other,
        Err(missing) => ParsedLine::Incomplete(missing),
    }
}

/// Splits a line at its event, or returns `None` if it has none that is read.
fn split_head(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_end();
    // Most lines begin with the event, or with a head of a few words.
    let start = line.get(..line.len().min(MAX_HEAD))?;
    let at = match start {
        [b'm', ..] if start.starts_with(REGION) => 0,
        _ => {
            let region = memmem::find(start, REGION);
            region.or_else(|| memmem::find(start, VFIO))?
        }
    };
    let (head, text) = line.split_at_checked(at)?;
    let is_word = head.last().is_none_or(|b| matches!(b, b' ' | b'\t' | b':'));
    is_word.then_some((head, text))
}

/// Returns the time and the thread in a head.
fn parse_head(head: &[u8]) -> (Option<u64>, u32) {
    if head.is_empty() {
        return (None, 0);
    }
    if head.ends_with(b": ")
        && let Some(event) = ftrace::event(&[head, b"x"].concat())
    {
        return (Some(event.head.time), event.head.pid);
    }
    let (mut time, mut thread) = (None, 0);
    for word in head.split(|b| matches!(b, b' ' | b'\t')).take(MAX_WORDS) {
        if let Some(at) = memchr::memchr(b'@', word) {
            let (pid, stamp) = (word.get(..at), word.get(at + 1..));
            let stamp = stamp.map(|s| s.strip_suffix(b":").unwrap_or(s));
            if let Some(found) = stamp.and_then(|s| Line::new(s).time()) {
                time = Some(found);
                thread = pid.and_then(|p| Line::new(p).decimal()).unwrap_or(0);
            }
        } else if let [b'(' | b'[', rest @ ..] = word {
            // The thread: its number, and its name after a colon.
            let number = rest.split(|b| matches!(b, b':' | b']' | b')')).next();
            thread = number.and_then(|n| Line::new(n).decimal()).unwrap_or(thread);
        } else if time.is_none() {
            time = text::iso_time(word);
        }
    }
    (time, thread)
}

/// Parses what follows `memory_region_ops_`.
fn region(text: &[u8], names: &mut Names) -> Result<QemuEvent, &'static str> {
    let mut l = Line::new(text);
    let write = match l.word() {
        Some(b"read") => false,
        Some(b"write") => true,
        _ => return Err("the direction `read` or `write`"),
    };
    if printed::is_printed(l.rest()) {
        return printed::region(write, l.rest(), names);
    }
    // Older versions do not name the processor.
    if l.tag(b" cpu ").is_some() {
        l.word();
    }
    let mut number = |tag: &[u8], missing| {
        l.tag(tag).ok_or(missing)?;
        l.hex().ok_or(missing)
    };
    let pointer = number(b" mr ", "the pointer `mr`")?;
    let address = number(b" addr ", "the address `addr`")?;
    let value = number(b" value ", "the value `value`")?;
    l.tag(b" size ").ok_or("the size `size`")?;
    let width = width(l.decimal())?;
    let name = match l.tag(b" name '") {
        Some(()) => l.rest().strip_suffix(b"'").ok_or("the end of the region's name")?,
        None => b"",
    };
    Ok(QemuEvent::Region {
        write,
        address,
        value: value & mask(width),
        width,
        name: names.number(name),
        pointer,
    })
}

fn width(bytes: Option<u32>) -> Result<u8, &'static str> {
    match bytes {
        Some(w @ (1 | 2 | 4 | 8)) => Ok(w as u8),
        _ => Err("a size of 1, 2, 4 or 8 bytes"),
    }
}

/// Returns the text between brackets after the name of an event, and what follows it.
fn in_brackets(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b"(")?;
    let end = memchr::memchr(b')', text)?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// Parses a decimal or, after `0x`, hexadecimal number that fills a field.
fn number(field: &[u8]) -> Option<u64> {
    ftrace::number(field.trim_ascii())
}

/// Parses an event of VFIO. Returns `None` for one that is no access.
fn vfio(text: &[u8], names: &mut Names) -> Result<Option<QemuEvent>, &'static str> {
    let end = text.iter().position(|b| *b == b' ').unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
    Ok(Some(match name {
        b"vfio_region_read" | b"vfio_region_write" | b"vfio_bar_read" | b"vfio_bar_write" => {
            let write = name.ends_with(b"_write");
            match printed::is_printed(rest) {
                true => printed::vfio_access(write, rest, names)?,
                false => access(rest, write, names)?,
            }
        }
        b"vfio_pci_read_config" | b"vfio_pci_write_config" => {
            let write = name == b"vfio_pci_write_config";
            match printed::is_printed(rest) {
                true => printed::vfio_config(write, rest, names)?,
                false => config(rest, write, names)?,
            }
        }
        b"vfio_region_setup" | b"vfio_populate_device_region" => return setup(rest, names),
        b"vfio_populate_device_config" => return Ok(config_size(rest, names)),
        b"vfio_msi_interrupt" | b"vfio_intx_interrupt" => return Ok(interrupt(rest, names)),
        b"vfio_get_device"
        | b"vfio_pci_reset"
        | b"vfio_pci_hot_reset"
        | b"vfio_pci_reset_flr"
        | b"vfio_pci_reset_pm" => {
            let text: Vec<u8> = text
                .iter()
                .copied()
                .filter(|b| !b.is_ascii_control())
                .take(200)
                .collect();
            QemuEvent::VfioMark {
                text: names.number(&text),
            }
        }
        _ => return Ok(None),
    }))
}

/// Parses `(DEVICE:regionN+0xOFFSET, SIZE) = 0xVALUE` and `(DEVICE:regionN+0xOFFSET, 0xVALUE, SIZE)`.
fn access(rest: &[u8], write: bool, names: &mut Names) -> Result<QemuEvent, &'static str> {
    let (inside, after) = in_brackets(rest).ok_or("the place in brackets")?;
    let mut fields = inside.split(|b| *b == b',');
    let place = fields.next().unwrap_or_default();
    let plus = memchr::memrchr(b'+', place).ok_or("the offset behind `+`")?;
    let (region, offset) = (place.get(..plus), place.get(plus + 1..));
    let offset = offset.and_then(number).ok_or("the offset behind `+`")?;
    let region = region.unwrap_or_default();
    let colon = memchr::memrchr(b':', region).ok_or("the region behind the device")?;
    let digits = region.get(colon + 1..).unwrap_or_default();
    // Older versions call it BAR.
    let digits = digits.strip_prefix(b"region").or_else(|| digits.strip_prefix(b"BAR"));
    let region_number = digits.and_then(number).and_then(|n| u8::try_from(n).ok());
    let device = region.get(..colon).filter(|d| !d.is_empty()).ok_or("the device")?;
    let (value, size) = match write {
        true => (fields.next(), fields.next()),
        false => {
            let size = fields.next();
            (after.trim_ascii().strip_prefix(b"="), size)
        }
    };
    let width = width(size.and_then(number).and_then(|n| u32::try_from(n).ok()))?;
    Ok(QemuEvent::Vfio {
        device: names.number(device),
        region: region_number.ok_or("the number of the region")?,
        write,
        offset,
        value: value.and_then(number).ok_or("the value")? & mask(width),
        width,
    })
}

/// Parses `(DEVICE, @0xREGISTER, len=0xSIZE) 0xVALUE` and `(DEVICE, @0xREGISTER, 0xVALUE, len=0xSIZE)`.
fn config(rest: &[u8], write: bool, names: &mut Names) -> Result<QemuEvent, &'static str> {
    let (inside, after) = in_brackets(rest).ok_or("the place in brackets")?;
    let mut fields = inside.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let device = fields.next().filter(|d| !d.is_empty()).ok_or("the device")?;
    let register = fields.next().and_then(|f| number(f.strip_prefix(b"@")?));
    let value = match write {
        true => fields.next().and_then(number),
        false => number(after),
    };
    let size = fields.next().and_then(|f| number(f.strip_prefix(b"len=").unwrap_or(f)));
    let width = width(size.and_then(|n| u32::try_from(n).ok()))?;
    Ok(QemuEvent::Vfio {
        device: names.number(device),
        region: CONFIG_REGION,
        write,
        offset: register.ok_or("the register behind `@`")?,
        value: value.ok_or("the value")? & mask(width),
        width,
    })
}

/// Returns the number behind a label such as `size:`.
fn labelled(text: &[u8], label: &[u8]) -> Option<u64> {
    let at = memmem::find(text, label)? + label.len();
    let field = text.get(at..)?.trim_ascii_start();
    let end = field
        .iter()
        .position(|b| matches!(b, b',' | b' '))
        .unwrap_or(field.len());
    number(field.get(..end)?)
}

/// Returns the device after `Device`, which ends at a comma or a blank.
fn device_of(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"Device ").unwrap_or(text);
    let end = text.iter().position(|b| matches!(b, b',' | b' '))?;
    text.get(..end).filter(|d| !d.is_empty())
}

/// Parses the size of a region: `Device DEVICE, region N "NAME", flags: 0xF, offset: 0xO, size: 0xSIZE`.
fn setup(rest: &[u8], names: &mut Names) -> Result<Option<QemuEvent>, &'static str> {
    let device = device_of(rest).ok_or("the device")?;
    let region = labelled(rest, b"region ").or_else(|| {
        // The number ends at a colon in older versions.
        let at = memmem::find(rest, b"region ")? + 7;
        let digits = rest.get(at..)?;
        number(digits.get(..memchr::memchr(b':', digits)?)?)
    });
    let region = region
        .and_then(|n| u8::try_from(n).ok())
        .ok_or("the number of the region")?;
    // Older versions print the size in the next line.
    let Some(bytes) = labelled(rest, b"size:") else {
        return Ok(None);
    };
    Ok(Some(QemuEvent::VfioSize {
        device: names.number(device),
        region,
        bytes,
    }))
}

/// Parses the size of configuration space: `Device DEVICE config: size: 0xSIZE, …`.
fn config_size(rest: &[u8], names: &mut Names) -> Option<QemuEvent> {
    Some(QemuEvent::VfioSize {
        device: names.number(device_of(rest)?),
        region: CONFIG_REGION,
        bytes: labelled(rest, b"size:")?,
    })
}

/// Parses an interrupt: `(DEVICE) vector N …`, or `(DEVICE) Pin A`.
fn interrupt(rest: &[u8], names: &mut Names) -> Option<QemuEvent> {
    let (device, after) = in_brackets(rest)?;
    let vector = labelled(after, b"vector ").unwrap_or(0);
    Some(QemuEvent::VfioInterrupt {
        device: names.number(device.trim_ascii()),
        vector: u32::try_from(vector).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: &str, names: &mut Names) -> Item {
        match parse_line(line.as_bytes(), names) {
            ParsedLine::Item(item) => item,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn qemu_trace_line_parses_as_an_access() {
        let mut names = Names::default();
        let line = "memory_region_ops_write cpu -1 mr 0x55f9c3e560a0 addr 0xfee00000 value 0x1122334455 size 4 name 'apic-msi'";
        let a = item(line, &mut names);
        let QemuEvent::Region {
            write,
            address,
            value,
            width,
            name,
            pointer,
        } = a.event
        else {
            panic!("{a:?}");
        };
        assert_eq!(
            (write, address, value, width, a.time, pointer),
            (true, 0xfee0_0000, 0x2233_4455, 4, None, 0x55f9_c3e5_60a0)
        );
        assert_eq!(names.name(name), "apic-msi");
        for (line, missing) in [
            (
                "memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 3 name 'x'",
                "size",
            ),
            ("memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0", "size"),
            (
                "memory_region_ops_look cpu 0 mr 0x1 addr 0x71 value 0x0 size 1 name 'x'",
                "direction",
            ),
            (
                "memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 1 name 'x",
                "name",
            ),
            ("vfio_region_read  (0000:09:00.0:region0+0x500, 4)", "value"),
            ("vfio_region_write  (0000:09:00.0:region0+0x500, 0x4, 3)", "size"),
            ("vfio_region_write  (0000:09:00.0:region0, 0x4, 4)", "offset"),
        ] {
            match parse_line(line.as_bytes(), &mut names) {
                ParsedLine::Incomplete(what) => assert!(what.contains(missing), "{line}: {what}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert_eq!(parse_line(b"", &mut names), ParsedLine::Foreign);
        assert_eq!(parse_line(b"a memory_region_opsy", &mut names), ParsedLine::Foreign);
        assert_eq!(
            parse_line(b"vfio_listener_region_add 0x0", &mut names),
            ParsedLine::Other
        );
    }

    #[test]
    fn heads_of_every_version_give_time_and_thread() {
        const EVENT: &str = "memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 1 name 'rtc'";
        const TIME: Option<u64> = Some(1_773_480_413_589_013_000);
        for (head, time, thread) in [
            ("", None, 0),
            ("1234@1773480413.589013:", TIME, 1234),
            ("1234@1773480413.589013: ", TIME, 1234),
            ("2026-03-14T09:26:53.589013Z ", TIME, 0),
            ("2026-03-14T10:26:53.589013+01:00 ", TIME, 0),
            ("2026-03-14T09:26:53.589013Z guest1 qemu-system-x86_64: ", TIME, 0),
            ("2026-03-14T09:26:53.589013Z (77:CPU 0/KVM): ", TIME, 77),
            ("[77:main] 2026-03-14T09:26:53.589013Z ", TIME, 77),
            ("qemu-system-x86_64: ", None, 0),
            ("Mar 14 09:26:53 host qemu-system-x86_64[77]: ", None, 0),
            (
                "  qemu-system-x86-1234 [001] .....    12.500000: tracing_mark_write: ",
                Some(12_500_000_000),
                1234,
            ),
        ] {
            let a = item(&format!("{head}{EVENT}\r"), &mut Names::default());
            assert_eq!((a.time, a.thread), (time, thread), "{head}");
        }
    }

    #[test]
    fn vfio_events_are_parsed() {
        let mut names = Names::default();
        let read = item(
            "vfio_region_read  (0000:09:00.0:region2+0x8000, 4) = 0x4061973",
            &mut names,
        );
        let write = item("vfio_region_write  (0000:09:00.0:region2+0x510, 0x8, 2)", &mut names);
        let bar = item(" vfio_bar_read  (0000:09:00.0:BAR0+0x10, 1) = 0xff", &mut names);
        let event = |region, write, offset, value, width| QemuEvent::Vfio {
            device: 0,
            region,
            write,
            offset,
            value,
            width,
        };
        assert_eq!(read.event, event(2, false, 0x8000, 0x406_1973, 4));
        assert_eq!(write.event, event(2, true, 0x510, 8, 2));
        assert_eq!(bar.event, event(0, false, 0x10, 0xff, 1));
        let config = item(
            "vfio_pci_read_config  (0000:09:00.0, @0x0, len=0x4) 0x59116666",
            &mut names,
        );
        assert_eq!(config.event, event(CONFIG_REGION, false, 0, 0x5911_6666, 4));
        let config = item("vfio_pci_write_config  (0000:09:00.0, @0x4, 0x7, len=0x2)", &mut names);
        assert_eq!(config.event, event(CONFIG_REGION, true, 4, 7, 2));
        let size = item(
            "vfio_region_setup Device 0000:09:00.0, region 0 \"0000:09:00.0 BAR 0\", flags: 0x7, offset: 0x0, size: 0x10000",
            &mut names,
        );
        assert_eq!(
            size.event,
            QemuEvent::VfioSize {
                device: 0,
                region: 0,
                bytes: 0x1_0000
            }
        );
        let irq = item(
            "vfio_msi_interrupt  (0000:09:00.0) vector 3 0xfee00000/0x4021",
            &mut names,
        );
        assert_eq!(irq.event, QemuEvent::VfioInterrupt { device: 0, vector: 3 });
        assert_eq!(names.name(0), "0000:09:00.0");
    }
}
