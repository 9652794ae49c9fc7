//! The importer of GPUReplay's logs of Broadcom's V3D: an ftrace log with its own events, above all `v3d_access_reg`.
//!
//! Accesses name a group of registers, and a core if there are several. A group that starts with `~` was recorded for
//! inspection and not for replay. Other events of the recorder (mappings, waits, submits, interrupts, flushes) become
//! notes. The memory dumps that the log names are separate files and are not published with it.

use super::ftrace;
use super::text;
use crate::error::{FilePosition, ImportError};
use std::path::Path;
use trace_core::RegOffset;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, Clock, EventsBuilder, Hardware, Identity, Metadata, PlatformDevice, Recording, Space, SpaceKind,
};

/// Value of [`Identity::source`] for such a recording.
pub const SOURCE: &str = "gpureplay-v3d";

/// Device-tree name of the device of a Raspberry Pi 4.
const COMPATIBLE: &str = "brcm,2711-v3d";

/// Event of an access, and the prefix of the recorder's other events.
const ACCESS: &[u8] = b"v3d_access_reg";
const OWN: &[u8] = b"v3d_";
/// Maximum size of a log, bytes: the recorder replays 65,536 records at most, of some hundred bytes each.
const MAX_BYTES: u64 = 256 << 20;
/// Number of first bytes that identify a log.
const HEAD: usize = 1 << 16;
/// Maximum number of register groups, and the minimum window size of a group.
const MAX_GROUPS: usize = 64;
const WINDOW_BYTES: u64 = 0x4000;

/// Whether a path looks like such a log: its first lines contain an access.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let is_access = |line: &[u8]| ftrace::event(line).is_some_and(|e| e.name == ACCESS);
    path.is_file() && super::source::head(path, HEAD).is_ok_and(|head| text::lines(&head).any(is_access))
}

/// Returns the value of a field `KEY=VALUE`.
fn field<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut words = text.split(u8::is_ascii_whitespace);
    words.find_map(|w| w.strip_prefix(key)?.strip_prefix(b"="))
}

/// Parses an access: its group and the access itself.
fn access(text: &[u8]) -> Option<(String, Access)> {
    let number = |key: &[u8]| u32::try_from(ftrace::number(field(text, key)?)?).ok();
    let group = field(text, b"group")?;
    let group = group.strip_prefix(b"~").unwrap_or(group);
    let core = field(text, b"core")
        .filter(|c| c.iter().all(u8::is_ascii_digit))
        .unwrap_or_default();
    let name = String::from_utf8([group, core].concat()).ok()?;
    let write = match field(text, b"rw")? {
        b"w" => true,
        b"r" | b"R" => false,
        _ => return None,
    };
    let access = Access {
        space: 0,
        write,
        offset: RegOffset::new(number(b"offset")?),
        width: 4,
        value: u64::from(number(b"val")?),
    };
    (!name.is_empty() && name.len() <= 64).then_some((name, access))
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, is larger than any such log, has no access, or the work was cancelled. Unusable lines
/// are findings.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let wrong = |message: String| ImportError::malformed(path, FilePosition::Whole, message);
    let bytes = super::source::read_file(path, MAX_BYTES).map_err(|e| ImportError::io(path, e))?;
    let bytes = bytes.ok_or_else(|| wrong(format!("the log has more than {MAX_BYTES} bytes")))?;
    progress.set_total(bytes.len().max(1) as u64);
    let mut events = EventsBuilder::new();
    let mut spaces: Vec<Space> = Vec::new();
    let (mut odd, mut first_odd, mut accesses) = (0u64, 0, 0u64);
    for (number, line) in (1u64..).zip(text::lines(&bytes)) {
        progress.advance(line.len() as u64 + 1)?;
        let Some(event) = ftrace::event(line).filter(|e| e.name.starts_with(OWN)) else {
            if !line.is_empty() && !line.starts_with(b"#") {
                (odd, first_odd) = (odd + 1, if odd == 0 { number } else { first_odd });
            }
            continue;
        };
        if event.name != ACCESS {
            let note = [event.name, b" ", event.text].concat();
            events.mark(
                event.head.time,
                String::from_utf8_lossy(&note).chars().take(200).collect::<String>(),
            );
            continue;
        }
        let found = access(event.text).and_then(|(name, access)| {
            let known = spaces.iter().position(|s| s.name == name);
            let at = known.or_else(|| {
                let new = Space {
                    name,
                    kind: SpaceKind::Registers,
                    bytes: WINDOW_BYTES,
                };
                (spaces.len() < MAX_GROUPS).then(|| spaces.push(new))?;
                Some(spaces.len() - 1)
            })?;
            let space = spaces.get_mut(at)?;
            space.bytes = space
                .bytes
                .max((u64::from(access.offset.get()) + 4).next_power_of_two());
            let space = u8::try_from(at).ok()?;
            Some(Access { space, ..access })
        });
        match found {
            Some(access) => {
                accesses += 1;
                events.access(event.head.time, event.head.pid, access);
            }
            None => (odd, first_odd) = (odd + 1, if odd == 0 { number } else { first_odd }),
        }
    }
    if accesses == 0 {
        return Err(wrong("the log has no register access".to_owned()));
    }
    let mut findings = Vec::new();
    if odd > 0 {
        let message = format!("{odd} lines from here on are not events of the recorder and were not used");
        findings.push(Finding::new(FindingKind::NotUsed, format!("line {first_odd}"), message));
    }
    let message = "the log does not state the size of the register groups; each is shown as large as its accessed part";
    findings.push(Finding::new(FindingKind::Assumed, "spaces", message));
    let message = "the log does not state the chip: the BCM2711 of a Raspberry Pi 4 is assumed, for which the recorder \
                   was written. Registers of its core have names, those of the hub have none";
    findings.push(Finding::new(FindingKind::Assumed, "device", message));
    let metadata = Metadata {
        identity: Identity {
            gpu_name: "Broadcom V3D".into(),
            driver: "v3d".into(),
            tool: "GPUReplay recorder".into(),
            source: SOURCE.into(),
            clock: Clock::Monotonic,
            ..Identity::default()
        },
        spaces,
        findings,
        ..Metadata::default()
    };
    let mut recording = Recording {
        metadata,
        events: events.finish(),
        ..Recording::default()
    };
    recording.set_hardware(&Hardware::Platform(PlatformDevice {
        compatible: vec![COMPATIBLE.to_owned()],
        ..PlatformDevice::default()
    }));
    Ok(recording)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_recordings::recordings;
    use trace_core::RegOffset;

    #[test]
    fn published_log_matches_the_authors_access_list() {
        let Some(folder) = recordings("v3d") else { return };
        let path = folder.join("py-videocore6-mininput.ftrace.txt");
        assert!(fits(&path) && !fits(&folder.join("py-videocore6-mininput.replay-py.txt")));
        let r = import(&path, &Progress::new()).unwrap();
        // The authors' own parser made this list: a record for each replayed access, a comment for the others.
        let list = std::fs::read_to_string(folder.join("py-videocore6-mininput.records-py.h")).unwrap();
        let replayed: Vec<(bool, u32, u64)> = list
            .lines()
            .filter_map(|l| l.split_once(".entry_access_reg = {"))
            .map(|(_, l)| {
                let fields: Vec<&str> = l.split(',').map(str::trim).collect();
                let hex = |n: usize| {
                    let digits = fields[n].trim_start_matches("0x");
                    u64::from_str_radix(digits.split('/').next().unwrap(), 16).unwrap()
                };
                (fields[1] == "'w'", hex(2) as u32, hex(3))
            })
            .collect();
        let skipped = list
            .lines()
            .filter(|l| l.contains("(skipped)") && l.contains("v3d_access_reg"))
            .count();
        let accesses: Vec<Access> = r.events.accesses(0..r.events.len()).map(|(_, a)| a).collect();
        assert_eq!((accesses.len(), replayed.len(), skipped), (30, 11, 19));
        let core = accesses
            .iter()
            .filter(|a| a.write && a.space == 1)
            .map(|a| (a.write, a.offset.get(), a.value));
        let entries: Vec<_> = core.collect();
        assert!(
            replayed.iter().all(|r| entries.contains(r)),
            "{replayed:x?} {entries:x?}"
        );
        let names: Vec<&str> = r.metadata.spaces.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((names, r.events.marks.len()), (vec!["hub", "core0"], 14));
        assert!(r.events.marks[0].starts_with("v3d_map_gpu_region start_page=0x00000020"));
        // Registers of the core have names, and those of the hub have different ones.
        let device = trace_core::registers::RecordedRegisters::new(&r).unwrap();
        assert_eq!((device.map().name(), device.space()), ("v3d", 1));
        for access in &accesses {
            assert_eq!(device.name_of(access).is_some(), access.space == 1, "{access:?}");
        }
        let dispatch = accesses
            .iter()
            .find(|a| a.space == 1 && a.offset == RegOffset::new(0x908))
            .unwrap();
        assert_eq!(device.name_of(dispatch).unwrap(), "CSD_QUEUED_CFG1");
        assert_eq!(device.describe(dispatch).unwrap(), "WG_Y_OFFSET 0 · NUM_WGS_Y 1");
    }

    #[test]
    fn unusable_v3d_lines_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        let line = |text: &str| format!(" a b-7 [001] .... 1.000001: v3d_access_reg: {text}\n");
        let sound = line("group=core rw=w offset=0x10 val=0x2 core=0");
        let write = |text: String| std::fs::write(&path, text).unwrap();
        let odd = [
            "group=core rw=x offset=0x10 val=0x2 core=0",
            "rw=w offset=0x10 val=1",
            "group=core rw=w offset=0x100000000 val=0",
        ];
        write(sound.clone() + &odd.map(line).concat() + "garbage\n");
        assert!(fits(&path));
        let r = import(&path, &Progress::new()).unwrap();
        assert_eq!(r.events.len(), 1);
        assert!(
            r.metadata.findings[0].message.starts_with("4 lines"),
            "{:?}",
            r.metadata.findings
        );
        write(line(odd[0]));
        assert!(
            import(&path, &Progress::new())
                .unwrap_err()
                .to_string()
                .contains("no register access")
        );
    }
}
