//! Targets as people write them: an address, a buffer, a register or a field of it, a pixel.

use super::driver_trace::{self, BufferName};
use super::reference::XrefTarget;
use crate::api_trace::ApiTrace;
use crate::driver_trace::DriverTrace;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Recording, SpaceKind};
use crate::registers::{Half, RecordedRegisters, Register};
use crate::screen::Display;
use crate::{GpuVa, RegOffset};

/// Why a text is not a target of a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No buffer of a driver trace has this handle or number and an address.
    #[error("no buffer of the trace has an address and is named '{0}'; `kinescope objects` lists the buffers")]
    UnknownBuffer(String),
    /// The text is no address, and no buffer or register has this name.
    #[error("'{0}' is neither an address (0x…) nor a buffer, a register or a pixel (X,Y) of the recording")]
    Unknown(String),
    /// An offset is beyond the end of a buffer.
    #[error("{offset:#x} is beyond the end of '{name}', which has {bytes} bytes")]
    BeyondEnd {
        /// Name of the buffer.
        name: String,
        /// Size of the buffer, bytes.
        bytes: u64,
        /// The offset.
        offset: u64,
    },
    /// The register has no field of this name.
    #[error("{register} has no field '{field}' (it has: {})", .fields.join(", "))]
    NoField {
        /// The register.
        register: String,
        /// The field.
        field: String,
        /// The fields that it has.
        fields: Vec<String>,
    },
    /// The display registers describe no screen.
    #[error("the display registers of the recording describe no screen, so '{0}' is not a pixel")]
    NoScreen(String),
    /// The pixel is outside the screen.
    #[error("'{text}' is outside the screen of {width}x{height} pixels")]
    OutsideScreen {
        /// The pixel.
        text: String,
        /// Pixels per row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The recording does not hold both calls and submissions.
    #[error(
        "'{0}' needs a recording of calls and of the requests below them; `kinescope record --with cuda,nvidia` makes one"
    )]
    NotJoined(String),
    /// No call or submission has this number.
    #[error("'{text}' does not exist: the recording has {count}, counted from 0")]
    NoEvent {
        /// The text.
        text: String,
        /// How many there are: `24 launches`.
        count: String,
    },
    /// The operation was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Parses a target: `0x…` or decimal, hexadecimal digits without `0x`, `BUFFER`, `BUFFER+OFFSET`, `REGISTER`,
/// `REGISTER.FIELD`, `SPACE+OFFSET`, or `X,Y`. Addresses are in the address space `space`, an index into the recording's
/// list. A buffer takes precedence over a register of the same name. Buffers of driver traces have the names
/// `handle:0x…` and `#NUMBER`. Calls and submissions are `launch:NUMBER`, `submission:NUMBER` and `event:NUMBER`.
///
/// # Errors
/// When the text is none of these, or names something that the recording does not have.
pub fn parse_target(
    recording: &Recording,
    api_trace: Option<&ApiTrace>,
    (space, text): (u32, &str),
    progress: &Progress,
) -> Result<XrefTarget, TargetError> {
    let text = text.trim();
    if let Some(target) = find_driver_buffer(recording, text, progress)? {
        return Ok(target);
    }
    if let Some(target) = find_event(recording, api_trace, text, progress)? {
        return Ok(target);
    }
    if let Some((space, at, bytes)) = find_buffer(recording, api_trace, text) {
        return Ok(XrefTarget::Bytes {
            space,
            va: GpuVa::new(at),
            bytes: bytes.max(1),
        });
    }
    let byte = |space, va| XrefTarget::Bytes {
        space,
        va: GpuVa::new(va),
        bytes: 1,
    };
    if let Some(va) = parse_number(text) {
        return Ok(byte(space, va));
    }
    if let Some((name, offset)) = text.rsplit_once('+')
        && let Some(offset) = parse_number(offset.trim())
    {
        if let Some((space, at, bytes)) = find_buffer(recording, api_trace, name.trim()) {
            return match offset < bytes {
                true => Ok(byte(space, at.saturating_add(offset))),
                false => Err(TargetError::BeyondEnd {
                    name: name.trim().to_owned(),
                    bytes,
                    offset,
                }),
            };
        }
        if let Some(target) = find_location(recording, name.trim(), offset) {
            return Ok(target);
        }
    }
    if let Some((x, y)) = text.split_once(',')
        && let (Ok(x), Ok(y)) = (x.trim().parse(), y.trim().parse())
    {
        return find_pixel(recording, text, (x, y), progress);
    }
    if let Some(target) = find_register(recording, text)? {
        return Ok(target);
    }
    match parse_bare_hex(text) {
        Some(va) => Ok(byte(space, va)),
        None => Err(TargetError::Unknown(text.to_owned())),
    }
}

/// Returns the bytes of a buffer of a driver trace, by its handle or number and an offset: `handle:0xcaf00005+0x100`.
/// Returns `None` if the text has another form.
fn find_driver_buffer(
    recording: &Recording,
    text: &str,
    progress: &Progress,
) -> Result<Option<XrefTarget>, TargetError> {
    let (name, offset) = match text.rsplit_once('+') {
        Some((name, offset)) => (name.trim(), parse_number(offset.trim())),
        None => (text, None),
    };
    let handle = name.strip_prefix("handle:").and_then(parse_number);
    let number = name.strip_prefix('#').and_then(parse_number);
    let buffer = match (handle, number) {
        (Some(handle), _) => u32::try_from(handle).ok().map(BufferName::Handle),
        (None, Some(number)) => usize::try_from(number).ok().map(BufferName::Number),
        (None, None) => return Ok(None),
    };
    let Some(trace) = DriverTrace::from_recording(recording, progress)? else {
        return Ok(None);
    };
    let found = buffer.and_then(|b| driver_trace::find_buffer(&trace, b));
    let (at, bytes) = found.ok_or_else(|| TargetError::UnknownBuffer(name.to_owned()))?;
    let (va, bytes) = match offset {
        Some(offset) if offset >= bytes => {
            return Err(TargetError::BeyondEnd {
                name: name.to_owned(),
                bytes,
                offset,
            });
        }
        Some(offset) => (at.saturating_add(offset), 1),
        None => (at, bytes.max(1)),
    };
    Ok(Some(XrefTarget::Bytes { space: 0, va, bytes }))
}

/// Returns the event of a call or a submission: `launch:3`, `submission:12`, `event:1182`. Returns `None` if the text has
/// another form.
fn find_event(
    recording: &Recording,
    api_trace: Option<&ApiTrace>,
    text: &str,
    progress: &Progress,
) -> Result<Option<XrefTarget>, TargetError> {
    let Some((kind, number)) = text.split_once(':') else {
        return Ok(None);
    };
    let Some(number) = parse_number(number.trim()).filter(|_| ["launch", "submission", "event"].contains(&kind)) else {
        return Ok(None);
    };
    let trace = match api_trace {
        Some(_) => DriverTrace::from_recording(recording, progress)?,
        None => None,
    };
    let (Some(api_trace), Some(trace)) = (api_trace, trace) else {
        return Err(TargetError::NotJoined(text.to_owned()));
    };
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let (event, count) = match kind {
        "launch" => {
            let launches = api_trace.launches();
            (
                launches.get(index).map(|l| l.event),
                format!("{} launches", launches.len()),
            )
        }
        "submission" => {
            let all = trace.submissions();
            (all.get(index).map(|s| s.event), format!("{} submissions", all.len()))
        }
        _ => {
            let count = recording.events.len();
            ((index < count).then_some(number), format!("{count} events"))
        }
    };
    let missing = || TargetError::NoEvent {
        text: text.to_owned(),
        count,
    };
    event.map(|event| Some(XrefTarget::Event { event })).ok_or_else(missing)
}

/// Returns address space, address and size of a named buffer.
fn find_buffer(recording: &Recording, api_trace: Option<&ApiTrace>, name: &str) -> Option<(u32, u64, u64)> {
    if let Some(b) = recording.buffer(name) {
        return Some((b.address_space, b.va.get(), b.bytes));
    }
    let buffers = api_trace?.buffers();
    let b = buffers.get(buffers.find(name)?)?;
    Some((0, b.at.get(), b.bytes))
}

/// Returns the target at an offset of a space: framebuffer bytes, or a register without a name.
fn find_location(recording: &Recording, name: &str, offset: u64) -> Option<XrefTarget> {
    let spaces = (0..=u8::MAX).zip(&recording.metadata.spaces);
    let (space, kind) = spaces
        .filter(|(_, s)| s.name.eq_ignore_ascii_case(name))
        .map(|(n, s)| (n, s.kind))
        .next()?;
    if kind == SpaceKind::Framebuffer {
        return Some(XrefTarget::Framebuffer {
            space,
            offset,
            bytes: 1,
        });
    }
    let device = RecordedRegisters::new(recording);
    let is_register = device.is_none_or(|d| d.space() == space);
    let register = u32::try_from(offset).ok().filter(|_| is_register)?;
    Some(XrefTarget::Register {
        register: RegOffset::new(register),
        bits: None,
    })
}

/// Returns the register of a name, or a field of it.
fn find_register(recording: &Recording, text: &str) -> Result<Option<XrefTarget>, TargetError> {
    let device = RecordedRegisters::new(recording).filter(|d| d.has_map());
    let Some(map) = device.map(RecordedRegisters::map) else {
        return Ok(None);
    };
    let is_low = |r: &Register| !matches!(r.pair, Some(Half::High { .. }));
    let find = |name: &str| {
        let whole = map.find_register(|r| r.name.eq_ignore_ascii_case(name));
        let has_wide = |r: &Register| r.wide.as_ref().is_some_and(|w| w.name.eq_ignore_ascii_case(name));
        let wide = || map.find_register(|r| is_low(r) && has_wide(r));
        whole.map(|r| (r, false)).or_else(|| wide().map(|r| (r, true)))
    };
    let target = |r: &Register, bits| XrefTarget::Register {
        register: r.offset,
        bits,
    };
    if let Some((r, is_wide)) = find(text) {
        return Ok(Some(target(r, is_wide.then_some((0, 63)))));
    }
    let Some((name, field)) = text.rsplit_once('.') else {
        return Ok(None);
    };
    let Some((r, is_wide)) = find(name) else {
        return Ok(None);
    };
    let layout = r.wide.as_deref().filter(|_| is_wide).unwrap_or(&r.layout);
    match layout.fields.iter().find(|f| f.name.eq_ignore_ascii_case(field)) {
        Some(f) => Ok(Some(target(r, Some((f.lo, f.hi))))),
        None => Err(TargetError::NoField {
            register: name.to_owned(),
            field: field.to_owned(),
            fields: layout.fields.iter().map(|f| f.name.clone()).collect(),
        }),
    }
}

/// Returns the bytes of a pixel of the last screen.
fn find_pixel(
    recording: &Recording,
    text: &str,
    (x, y): (u32, u32),
    progress: &Progress,
) -> Result<XrefTarget, TargetError> {
    let display = Display::read(recording, progress).ok().flatten();
    progress.check()?;
    let screen = display.and_then(|d| Some((d.framebuffer()?, d.last_screen(u64::MAX)?)));
    let Some((space, format)) = screen else {
        return Err(TargetError::NoScreen(text.to_owned()));
    };
    match format.offset(x, y) {
        Some(offset) => Ok(XrefTarget::Framebuffer {
            space,
            offset,
            bytes: u64::from(format.pixel.bytes()),
        }),
        None => Err(TargetError::OutsideScreen {
            text: text.to_owned(),
            width: format.width,
            height: format.height,
        }),
    }
}

/// Parses `0x…` or a decimal number, with underscores between digits.
#[must_use]
pub fn parse_number(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Parses an address without `0x`. Rejects short ones, which may be a mistyped name, and those that could be decimal.
#[must_use]
pub fn parse_bare_hex(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    let has_letter = digits.bytes().any(|b| b.is_ascii_alphabetic());
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    (digits.len() >= 4 && has_letter && is_hex).then(|| u64::from_str_radix(&digits, 16).ok())?
}
