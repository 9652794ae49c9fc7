//! The importer of kernel logs of nouveau: faults, and the objects that `debug=...=trace` prints. `Xid` lines of
//! NVIDIA's own driver are read too.
//!
//! ```text
//! [  1.0] nouveau 0000:01:00.0: fifo: fault 01 [WRITE] at 0000000012345000 engine 00 [gr] client 0f [GPC0/PROP] ...
//! [  1.1] nouveau: game[77]:00000000:00000080: ioctl: new vers 0 handle 00000002 class a06f route 00 token 0 object 0
//! [  1.2] nouveau: game[77]:00000000:00000080: ioctl: return 0
//! [  1.3] NVRM: Xid (PCI:0000:01:00): 31, pid=77, name=game, channel 0x00000008, intr 0. MMU Fault: ...
//! ```
//!
//! A line of `debug=trace` begins with the client's name, and the handle and class of the object that it is about.
//! Clients have no handles in a log, so they are numbered.

use super::class_kind::kind_of_class;
use super::kernel_error::{NOUVEAU, XID, describe_error, driver_version, split_nouveau};
use super::kernel_line::KernelLine;
use super::log::DriverLog;
use super::scan::{after, labelled, leading_hex, process};
use super::{LogFormat, has_line};
use crate::error::ImportError;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use trace_core::Recording;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Clock, ObjectAction, ObjectKind, ObjectRow};

/// Value of [`trace_core::recording::Identity::source`] for such a recording.
pub const SOURCE: &str = "nouveau";

/// Start of a line of `debug=trace` about a client.
const TRACE: &str = "nouveau: ";
/// Maximum number of clients that are distinguished.
const MAX_CLIENTS: usize = 4096;

/// Whether a path is a kernel log with messages of nouveau or errors of NVIDIA's driver, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    has_line(path, &[NOUVEAU, TRACE, XID], |line| {
        is_message(KernelLine::parse(line).text)
    })
}

/// Whether a message is one of nouveau about a device or an object, or an error of NVIDIA's driver.
fn is_message(text: &str) -> bool {
    split_nouveau(text).is_some() || TracedObject::parse(text).is_some() || describe_error(text).is_some()
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, has no such message, or the work was cancelled. Errors of the GPU are findings, and so
/// are unusable lines.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    super::import(path, Nouveau::default(), progress)
}

/// A line of `debug=trace`: the object that it is about, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TracedObject<'a> {
    /// Name of the client: `DRM`, or `NAME[PID]`.
    client: &'a str,
    handle: u32,
    class: u32,
    text: &'a str,
}

impl<'a> TracedObject<'a> {
    /// Parses a line: `nouveau: CLIENT:HANDLE:CLASS: TEXT`, both numbers with eight digits.
    fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(TRACE)?;
        let number = |digits: &str| (digits.len() == 8).then(|| u32::from_str_radix(digits, 16).ok())?;
        // The name of a program may hold colons.
        rest.match_indices(": ").find_map(|(at, _)| {
            let (head, text) = rest.split_at_checked(at)?;
            let (head, class) = head.rsplit_once(':')?;
            let (client, handle) = head.rsplit_once(':')?;
            Some(Self {
                client,
                handle: number(handle)?,
                class: number(class)?,
                text: text.strip_prefix(": ")?,
            })
        })
    }
}

/// A client of nouveau in a log.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Number in the order of appearance, from 1.
    number: u32,
    /// Its name, an index.
    name: u32,
}

/// A log of nouveau so far.
#[derive(Debug, Default)]
pub(super) struct Nouveau {
    clients: BTreeMap<String, Client>,
    /// Objects whose creation has begun, by client: the driver has not returned yet.
    begun: BTreeMap<u32, ObjectRow>,
    /// Current objects by client, handle and class.
    current: HashMap<(u32, u32, u32), ObjectRow>,
    /// Whether a line is of nouveau, and of NVIDIA's driver.
    is_nouveau: bool,
    is_nvidia: bool,
    has_objects: bool,
}

impl Nouveau {
    /// Handles a message, whose text is the mark `mark`. Returns whether it is a message of a driver.
    pub(super) fn apply(&mut self, text: &str, mark: u64, log: &mut DriverLog) -> bool {
        if let Some(version) = driver_version(text) {
            log.metadata.driver_version = version.to_owned();
        }
        if let Some(message) = describe_error(text) {
            log.driver_error(mark, message);
            self.is_nouveau |= text.starts_with(NOUVEAU);
            self.is_nvidia |= text.starts_with(XID);
            return true;
        }
        let Some(object) = TracedObject::parse(text) else {
            let is_nouveau = split_nouveau(text).is_some();
            self.is_nouveau |= is_nouveau;
            return is_nouveau;
        };
        self.is_nouveau = true;
        if let Some(client) = self.client(object.client, log) {
            self.trace(client, object, log);
        }
        true
    }

    /// Returns the client of a name, or `None` if there are too many.
    fn client(&mut self, name: &str, log: &mut DriverLog) -> Option<Client> {
        if let Some(client) = self.clients.get(name) {
            return Some(*client);
        }
        if self.clients.len() >= MAX_CLIENTS {
            log.unusable();
            return None;
        }
        let client = Client {
            number: self.clients.len() as u32 + 1,
            name: log.name(name),
        };
        self.clients.insert(name.to_owned(), client);
        Some(client)
    }

    /// Handles a line of `debug=trace`.
    fn trace(&mut self, client: Client, object: TracedObject<'_>, log: &mut DriverLog) {
        log.set_thread(process(object.client).map_or(0, |(_, pid)| pid));
        let key = (client.number, object.handle, object.class);
        let ioctl = object.text.strip_prefix("ioctl: ");
        match ioctl {
            Some(text) if text.starts_with("new vers ") => {
                let number = |key: &str| u32::try_from(leading_hex(labelled(text, key)?.word)?).ok();
                let Some((handle, class)) = number("handle ").zip(number("class ")) else {
                    log.unusable();
                    return;
                };
                self.finish_begun(client.number, 0, log);
                let row = ObjectRow {
                    parent: object.handle,
                    ..new_row(client, handle, class)
                };
                self.begun.insert(client.number, row);
            }
            Some(text) if text.starts_with("return ") => {
                let result = after(text, "return ").and_then(|n| n.trim().parse::<i32>().ok());
                match result {
                    // Zero and one are success.
                    Some(result) => self.finish_begun(client.number, result.min(0).unsigned_abs(), log),
                    None => log.unusable(),
                }
            }
            Some(text) if text.starts_with("delete") => self.free(key, log),
            Some(_) => {}
            None if object.text.starts_with("init completed") => {
                let is_begun = self
                    .begun
                    .get(&client.number)
                    .is_some_and(|row| (row.handle, row.class) == (key.1, key.2));
                if !is_begun && !self.current.contains_key(&key) {
                    self.create(new_row(client, object.handle, object.class), log);
                }
            }
            None if object.text.starts_with("fini completed") || object.text.starts_with("destroy ") => {
                self.free(key, log);
            }
            None => {}
        }
    }

    /// Adds the object whose creation a client has begun.
    fn finish_begun(&mut self, client: u32, result: u32, log: &mut DriverLog) {
        if let Some(row) = self.begun.remove(&client) {
            self.create(ObjectRow { result, ..row }, log);
        }
    }

    fn create(&mut self, row: ObjectRow, log: &mut DriverLog) {
        self.has_objects = true;
        log.object(ObjectAction::Create, row);
        if row.result == 0 {
            self.current.insert((row.client, row.handle, row.class), row);
        }
    }

    fn free(&mut self, key: (u32, u32, u32), log: &mut DriverLog) {
        if let Some(row) = self.current.remove(&key) {
            log.object(ObjectAction::Free, row);
        }
    }

    /// Handles the end of the log.
    pub(super) fn finish(&mut self, log: &mut DriverLog) {
        for (_, row) in std::mem::take(&mut self.begun) {
            self.create(row, log);
        }
        log.identity.tool = "kernel log".to_owned();
        let drivers = [(self.is_nouveau, "nouveau"), (self.is_nvidia, "NVIDIA")];
        let drivers: Vec<&str> = drivers.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        log.identity.driver = drivers.join(", ");
        if self.has_objects {
            let message = "the log has names of clients and no handles of them: clients are numbered from 1 in the order \
                           in which they appear. Sizes and addresses of objects are unknown";
            log.finding(FindingKind::Assumed, "clients", message);
        }
    }
}

/// Returns the row of an object of a client.
fn new_row(client: Client, handle: u32, class: u32) -> ObjectRow {
    let kind = kind_of_class(class);
    ObjectRow {
        client: client.number,
        // A client is an object of its own.
        handle: if kind == ObjectKind::Client && handle == 0 {
            client.number
        } else {
            handle
        },
        class,
        kind: kind as u32,
        caller: client.name,
        ..ObjectRow::default()
    }
}

impl LogFormat for Nouveau {
    const SOURCE: &'static str = SOURCE;
    const NEEDED: &'static str = "a message of nouveau or an Xid error";

    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let parsed = KernelLine::parse(line);
        log.set_time(parsed.time, Clock::Monotonic);
        let mark = log.mark(line);
        self.apply(parsed.text, mark, log)
    }

    fn finish(&mut self, log: &mut DriverLog) {
        Self::finish(self, log);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_logs::{describe_events, import_as, messages, objects, open_as, write};
    use super::*;
    use crate::test_recordings::recordings;
    use trace_core::recording::EventKind;

    const TRACED: &str = "\
[   20.000001] nouveau 0000:01:00.0: fifo: init completed in 100us
[   20.000002] nouveau: app:x[88]:00000000:00000000: init completed in 1us
[   20.000003] nouveau: app:x[88]:00000000:00000000: ioctl: new size 32
[   20.000004] nouveau: app:x[88]:00000002:00000080: ioctl: new vers 0 handle 00000003 class 0000a06f route 00 token 0 object 0
[   20.000005] nouveau: app:x[88]:00000003:0000a06f: init running...
[   20.000006] nouveau: app:x[88]:00000003:0000a06f: init completed in 9us
[   20.000007] nouveau: app:x[88]:00000000:00000000: ioctl: return 0
[   20.000008] nouveau: app:x[88]:00000003:0000a06f: ioctl: new vers 0 handle 00000004 class 0000a097 route 00 token 0 object 0
[   20.000009] nouveau: app:x[88]:00000000:00000000: ioctl: return -22
[   20.000010] nouveau: DRM:00000000:8000900d: init completed in 3us
[   20.000011] nouveau: app:x[88]:00000003:0000a06f: ioctl: delete size 0
[   20.000012] nouveau: app:x[88]:00000003:0000a06f: fini completed in 4us
[   20.000013] nouveau: app:x[88]:00000000:00000000: ioctl: return 1
[   20.000014] nouveau: DRM:00000000:00000080: ioctl: new vers 0 handle 00000009 class 0000c661 route 00 token 0 object 0
";

    #[test]
    fn traced_objects_have_handles_classes_and_results() {
        let r = import_as("nouveau", TRACED);
        let events: Vec<String> = describe_events(&r)
            .into_iter()
            .filter(|t| !t.starts_with('['))
            .collect();
        assert_eq!(
            events,
            [
                "created client 0x1, asked for by app:x[88]",
                "created channel 0x3 of class 0xa06f, asked for by app:x[88]",
                "created engine 0x4 of class 0xa097, asked for by app:x[88], failed with 0x16",
                "created address space of class 0x8000900d, asked for by DRM",
                "freed channel 0x3 of class 0xa06f, asked for by app:x[88]",
                "created registers 0x9 of class 0xc661, asked for by DRM",
            ]
        );
        let rows = objects(&r);
        assert_eq!((rows[1].client, rows[1].parent, rows[5].client), (1, 2, 2));
        let threads: Vec<u32> = (0..r.events.len())
            .filter(|e| r.events.kind(*e) == Some(EventKind::Object))
            .filter_map(|e| r.events.thread.get(e))
            .collect();
        assert_eq!(threads, [88, 88, 88, 0, 88, 0]);
        assert_eq!(messages(&r, FindingKind::NotUsed), Vec::<&str>::new());
    }

    #[test]
    fn faults_are_findings_at_their_lines() {
        let text = "\
kernel: unrelated
[    7.1] nouveau 0000:03:00.0: fifo: fault 00 [VIRT_READ] at 0000000000abc000 engine 40 [gr] client 11 [GPC3/GCC] reason 02 [PTE] on channel 5 [05fe930000 game[66]]
[    7.2] nouveau 0000:03:00.0: fifo: channel 5: killed
[    7.3] nouveau 0000:03:00.0: fifo: runlist 0: scheduled for recovery
";
        let r = import_as("nouveau", text);
        let [finding] = &r.metadata.findings[..] else {
            panic!("{:?}", r.metadata.findings)
        };
        assert_eq!(
            (finding.kind, finding.place.as_str(), finding.event),
            (FindingKind::DriverError, "line 2", Some(1))
        );
        assert_eq!(
            finding.message,
            "MMU fault: VIRT_READ at 0xabc000, engine gr, client GPC3/GCC, reason PTE, channel 5 of game (process 66)"
        );
        assert_eq!(r.events.marks.len(), 4);
        assert_eq!(r.metadata.identity.driver, "nouveau");
    }

    #[test]
    fn many_faults_are_counted() {
        let line = "[ 7.1] nouveau 0000:03:00.0: fifo: SCHED_ERROR 0a [CTXSW_TIMEOUT]\n";
        let r = import_as("nouveau", line.repeat(1500));
        assert_eq!(messages(&r, FindingKind::DriverError).len(), 1000);
        assert_eq!(
            messages(&r, FindingKind::NotUsed),
            ["500 further errors of the driver are only marks"]
        );
        assert_eq!(r.events.len(), 1500);
    }

    #[test]
    fn other_texts_do_not_fit() {
        for text in [
            "nouveau: x\n",
            "NVRM: Xid (x\n",
            "the nouveau 0000:01:00.0: fifo: x\n",
            "nouveau: a:b:c: d\n",
        ] {
            let (_folder, path) = write(text);
            assert!(!fits(&path), "{text}");
            assert!(import(&path, &Progress::new()).is_err(), "{text}");
        }
    }

    #[test]
    fn packed_log_gives_the_same_recording() {
        use std::io::Write as _;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(TRACED.as_bytes()).unwrap();
        let packed = import_as("nouveau", packer.finish().unwrap());
        assert_eq!(describe_events(&packed), describe_events(&import_as("nouveau", TRACED)));
    }

    #[test]
    fn published_logs_have_their_errors() {
        let Some(folder) = recordings("gdev") else { return };
        let r = open_as("nouveau", &folder.join("h100-xid.txt"));
        let errors = messages(&r, FindingKind::DriverError);
        assert_eq!(errors.len(), 4);
        assert_eq!(
            errors[0],
            "Xid 31, MMU fault: VIRT_WRITE at 0x7f00000000, engine GRAPHICS, client GPC1 GPCCLIENT_T1_8, reason PDE, \
             channel 0x8 of python3 (process 463)"
        );
        assert!(
            errors[1].starts_with("Xid 13: ") && errors[1].ends_with("Misaligned Address"),
            "{}",
            errors[1]
        );
        assert!(
            errors[3].contains("HOPPER_COMPUTE_A") && errors[3].contains("channel 0x0000000b"),
            "{}",
            errors[3]
        );
        let r = open_as("nouveau", &folder.join("public/nouveau-trace-gt710.txt"));
        let errors = messages(&r, FindingKind::DriverError);
        assert_eq!(errors.len(), 2);
        assert!(errors[1].contains("WRITE at 0x69f000, engine CE0") && errors[1].ends_with("channel 1 of DRM"));
        let rows = objects(&r);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0].class, 0x8000_9009);
    }
}
