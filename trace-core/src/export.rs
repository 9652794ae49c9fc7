//! Export of a recording to other formats: its events as CSV, JSON Lines, or GPUReplay's history. Each event is one
//! line of text, streamed without holding the output in memory.

use crate::progress::Progress;
use crate::recording::{Access, EventKind, Recording, UndecodedRow};
use crate::registers::RecordedRegisters;
use std::borrow::Cow;
use std::io::{self, Write};

/// Number of events between two checks for cancellation.
const STEP: usize = 1 << 14;

/// One event as text fields.
struct Row<'a> {
    time: u64,
    thread: u32,
    kind: &'static str,
    space: &'a str,
    access: Option<Access>,
    name: Cow<'a, str>,
    means: String,
    /// Offset of an access without a value.
    undecoded: Option<UndecodedRow>,
}

fn rows<'a>(
    recording: &'a Recording,
    progress: &'a Progress,
    mut each: impl FnMut(usize, Row<'a>) -> io::Result<()>,
) -> io::Result<()> {
    let device = RecordedRegisters::new(recording);
    let calls = recording.api();
    let events = &recording.events;
    progress.set_total(events.len() as u64);
    for event in 0..events.len() {
        if event % STEP == STEP - 1 {
            progress
                .advance(STEP as u64)
                .map_err(|c| io::Error::new(io::ErrorKind::Interrupted, c))?;
        }
        let access = events.access(event);
        let undecoded = events.undecoded(event);
        let payload = events.payload.get(event).unwrap_or(0) as usize;
        let (kind, means) = match events.kind(event) {
            Some(EventKind::Read) => ("read", None),
            Some(EventKind::Write) => ("write", None),
            Some(EventKind::Interrupt) => (
                "interrupt",
                events
                    .interrupts
                    .get(payload)
                    .map(|i| format!("line {} status {:#x}", i.line, i.status)),
            ),
            Some(EventKind::Mark) => ("mark", events.marks.get(payload).cloned()),
            Some(EventKind::Submit) => (
                "submit",
                events
                    .submits
                    .get(payload)
                    .map(|s| format!("slot {} head {:#x}", s.slot, s.head_va)),
            ),
            Some(EventKind::HostWrite) => (
                "host-write",
                events
                    .host_writes
                    .get(payload)
                    .map(|w| format!("{} bytes at {:#x}", w.bytes, w.at)),
            ),
            Some(EventKind::Undecoded) => ("undecoded", undecoded.map(|u| u.describe())),
            Some(EventKind::DmaMap) => ("dma-map", events.dma_map(event).map(|d| d.describe())),
            Some(kind) => (
                kind.call_name().unwrap_or("call"),
                events.call(event).map(|c| c.describe(calls)),
            ),
            None => ("unknown", None),
        };
        let described = || access.and_then(|a| device?.describe(&a));
        let space = events.space.get(event).map_or(0, usize::from);
        each(
            event,
            Row {
                time: events.time.get(event).unwrap_or(0),
                thread: events.thread.get(event).unwrap_or(0),
                kind,
                space: recording
                    .metadata
                    .spaces
                    .get(space)
                    .filter(|_| access.is_some() || undecoded.is_some())
                    .map_or("", |s| s.name.as_str()),
                access,
                name: access.and_then(|a| device?.name_of(&a)).unwrap_or_default(),
                means: means.or_else(described).unwrap_or_default(),
                undecoded,
            },
        )?;
    }
    progress
        .check()
        .map_err(|c| io::Error::new(io::ErrorKind::Interrupted, c))
}

/// Writes the events as CSV (RFC 4180) with a header line: `event,time_ns,thread,kind,space,offset,width,value,
/// register,means`. Offsets and values are `0x…`; a column that an event does not have is empty.
///
/// # Errors
/// I/O errors of the writer, and an error of kind `Interrupted` if the work was cancelled.
pub fn write_csv(recording: &Recording, out: &mut impl Write, progress: &Progress) -> io::Result<()> {
    writeln!(out, "event,time_ns,thread,kind,space,offset,width,value,register,means")?;
    rows(recording, progress, |event, r| {
        write!(out, "{event},{},{},{},{},", r.time, r.thread, r.kind, quoted(r.space))?;
        match (r.access, r.undecoded) {
            (Some(a), _) => write!(out, "{:#x},{},{:#x},", a.offset, a.width, a.value)?,
            (None, Some(u)) => match u.width() {
                Some(width) => write!(out, "{:#x},{width},,", u.offset)?,
                None => write!(out, "{:#x},,,", u.offset)?,
            },
            (None, None) => write!(out, ",,,")?,
        }
        writeln!(out, "{},{}", quoted(&r.name), quoted(&r.means))
    })
}

/// Quotes a CSV field if necessary.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Writes the events as JSON Lines, one object per line, with the column names of [`write_csv`] as keys. A key that
/// an event does not have is omitted. Numbers are JSON numbers; offsets and values are `0x…` strings.
///
/// # Errors
/// The same as [`write_csv`].
pub fn write_json_lines(recording: &Recording, out: &mut impl Write, progress: &Progress) -> io::Result<()> {
    rows(recording, progress, |event, r| {
        let mut object = serde_json::Map::new();
        let mut put = |key: &str, value: serde_json::Value| {
            object.insert(key.to_owned(), value);
        };
        put("event", (event as u64).into());
        put("time_ns", r.time.into());
        put("thread", r.thread.into());
        put("kind", r.kind.into());
        if let Some(a) = r.access {
            put("space", r.space.into());
            put("offset", format!("{:#x}", a.offset).into());
            put("width", a.width.into());
            put("value", format!("{:#x}", a.value).into());
        }
        if let Some(u) = r.undecoded {
            put("space", r.space.into());
            put("offset", format!("{:#x}", u.offset).into());
            if let Some(width) = u.width() {
                put("width", width.into());
            }
        }
        for (key, text) in [("register", &*r.name), ("means", r.means.as_str())] {
            if !text.is_empty() {
                put(key, text.into());
            }
        }
        serde_json::to_writer(&mut *out, &object)?;
        writeln!(out)
    })
}

/// Writes the accesses as GPUReplay's `gr_io_history`, in its published spelling. That format holds only 32-bit
/// accesses of one space and ascending times. Other events are omitted; a time that goes backwards counts as no time
/// passed. Returns the number of omitted events.
///
/// # Errors
/// The same as [`write_csv`].
pub fn write_io_history(recording: &Recording, out: &mut impl Write, progress: &Progress) -> io::Result<u64> {
    let events = &recording.events;
    let mut before = None;
    let mut written = 0u64;
    progress.set_total(events.len() as u64);
    for (event, a) in events.accesses(0..events.len()) {
        let Ok(value) = u32::try_from(a.value) else { continue };
        if a.space != 0 || a.width != 4 {
            continue;
        }
        let time = events.time.get(event).unwrap_or(0);
        let delta = time.saturating_sub(before.unwrap_or(time));
        before = Some(before.map_or(time, |b: u64| b.max(time)));
        writeln!(
            out,
            "{delta},{},0x{:08x},{value:08x}",
            if a.write { 'W' } else { 'R' },
            a.offset
        )?;
        written += 1;
        if written.is_multiple_of(STEP as u64) {
            progress
                .advance(STEP as u64)
                .map_err(|c| io::Error::new(io::ErrorKind::Interrupted, c))?;
        }
    }
    Ok((events.len() as u64).saturating_sub(written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{DmaKind, DmaMapRow, EventsBuilder, InterruptRow, Space, SpaceKind};
    use crate::{BusAddr, RegOffset};

    fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        let access = |write, offset, value| Access {
            space: 0,
            write,
            offset,
            width: 4,
            value,
        };
        b.access(100, 7, access(false, RegOffset::ZERO, 0x60a0_0002));
        b.access(90, 7, access(true, RegOffset::new(0x18e0), 1));
        b.interrupt(95, InterruptRow { line: 0, status: 2 });
        b.mark(96, "one, \"two\"");
        b.access(120, 7, access(false, RegOffset::new(0x3ff0), 0));
        b.undecoded(130, 7, 0, UndecodedRow::from_access(RegOffset::new(0x3ff4), true, 4));
        let bus = 0x1000;
        let mapping = DmaMapRow {
            bus: BusAddr::new(bus),
            bytes: 64,
            kind: DmaKind::Mapped as u32,
            reserved: 0,
        };
        b.dma_map(140, 7, mapping);
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        r.metadata.identity.gpu_id = 0x60a0_0002;
        r.metadata.spaces.push(Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
        r
    }

    #[test]
    fn csv_has_one_line_per_event() {
        let mut out = Vec::new();
        write_csv(&recording(), &mut out, &Progress::new()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 8);
        assert!(
            lines[1].starts_with("0,100,7,read,gpu,0x0,4,0x60a00002,GPU_ID,"),
            "{}",
            lines[1]
        );
        assert!(
            lines[2].starts_with("1,90,7,write,gpu,0x18e0,4,0x1,JS1_COMMAND_NEXT,"),
            "{}",
            lines[2]
        );
        assert_eq!(lines[3], "2,95,0,interrupt,,,,,,line 0 status 0x2");
        assert_eq!(lines[4], "3,96,0,mark,,,,,,\"one, \"\"two\"\"\"");
        assert_eq!(lines[5], "4,120,7,read,gpu,0x3ff0,4,0x0,,");
        assert_eq!(lines[6], "5,130,7,undecoded,gpu,0x3ff4,4,,,undecoded write of 4 bytes");
        assert_eq!(lines[7], "6,140,7,dma-map,,,,,,mapped 64 bytes at 0x1000");
    }

    #[test]
    fn json_lines_are_json() {
        let mut out = Vec::new();
        write_json_lines(&recording(), &mut out, &Progress::new()).unwrap();
        let lines: Vec<serde_json::Value> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(
            (&lines[1]["register"], &lines[1]["value"]),
            (&"JS1_COMMAND_NEXT".into(), &"0x1".into())
        );
        assert_eq!(lines[3]["means"], "one, \"two\"");
        assert!(lines[3].get("offset").is_none());
        assert_eq!((&lines[5]["offset"], lines[5].get("value")), (&"0x3ff4".into(), None));
    }

    #[test]
    fn io_history_export_counts_omitted_events() {
        let mut out = Vec::new();
        assert_eq!(write_io_history(&recording(), &mut out, &Progress::new()).unwrap(), 4);
        let text = "0,R,0x00000000,60a00002\n0,W,0x000018e0,00000001\n20,R,0x00003ff0,00000000\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn a_cancelled_export_stops() {
        let progress = Progress::new();
        progress.cancel();
        let e = write_csv(&recording(), &mut Vec::new(), &progress).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::Interrupted);
    }
}
