//! The messages that this worker has, in a file: after it was killed, its next process returns them to the queue at once,
//! and nobody waits for the end of their lease.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Name of the file in the worker's folder.
const FILE: &str = "held";
/// Maximum size of a file that is read, bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of messages that are returned.
const MAX_MESSAGES: usize = 64 << 10;
/// Maximum length of a subject, bytes.
const MAX_SUBJECT: usize = 512;
/// Beginning of the subjects that answers to a message go to.
const PREFIX: &str = "$JS.ACK.";
/// Size from which the file is written anew, if little of it counts, bytes.
const COMPACT_BYTES: u64 = 16 << 10;

/// The messages that this worker has. Each has its number in the queue of runs, and the subject that answers go to.
pub struct HeldList {
    state: Mutex<State>,
}

struct State {
    path: PathBuf,
    /// First line: address of the broker, because numbers of another broker mean other messages.
    head: String,
    /// `None` after it could not be written: the end of the lease returns messages then.
    file: Option<File>,
    /// Size of the file, bytes.
    bytes: u64,
    held: BTreeMap<u64, String>,
}

/// Returns whether a text can be the subject of answers to a message.
pub(crate) fn is_subject(text: &str) -> bool {
    text.starts_with(PREFIX) && text.len() <= MAX_SUBJECT && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Reads the subjects of messages that a file lists and that were not dropped. A damaged line is left out. There is none if
/// the file does not begin with `head`.
pub(crate) fn parse(head: &str, text: &str) -> Vec<String> {
    let mut held = BTreeMap::new();
    for line in text.strip_prefix(head).unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let number = |word: Option<&str>| word.and_then(|w| w.parse::<u64>().ok());
        match (words.next(), number(words.next()), words.next()) {
            (Some("+"), Some(sequence), Some(subject)) if is_subject(subject) && held.len() < MAX_MESSAGES => {
                held.insert(sequence, subject.to_owned());
            }
            (Some("-"), Some(sequence), None) => drop(held.remove(&sequence)),
            _ => {}
        }
    }
    held.into_values().collect()
}

/// Reads what an earlier process had. A file that is older than a lease is of no use: others have those messages.
fn read_earlier(path: &Path, head: &str, lease: Duration) -> io::Result<Vec<String>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let age = SystemTime::now().duration_since(file.metadata()?.modified()?);
    if age.map_or(true, |age| age >= lease) {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(parse(head, &String::from_utf8_lossy(&bytes)))
}

impl HeldList {
    /// Opens the list in a worker's folder, which no other process uses. Also returns the subjects of the messages of this
    /// broker that an earlier process had when it was killed, if their lease of this duration has not ended.
    ///
    /// # Errors
    /// If the file cannot be created or read.
    pub fn open(folder: &Path, broker: &str, lease: Duration) -> io::Result<(Self, Vec<String>)> {
        let path = folder.join(FILE);
        let head = format!("broker {broker:?}\n");
        let earlier = read_earlier(&path, &head, lease)?;
        let mut state = State {
            file: None,
            path,
            head,
            bytes: 0,
            held: BTreeMap::new(),
        };
        state.compact()?;
        let state = Mutex::new(state);
        Ok((Self { state }, earlier))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message. Returns `false` if the list has it: the broker delivered it again.
    pub fn add(&self, sequence: u64, subject: &str) -> bool {
        let mut state = self.lock();
        let is_new = state.held.insert(sequence, subject.to_owned()).is_none();
        if is_subject(subject) {
            state.append(&format!("+ {sequence} {subject}\n"));
        }
        is_new
    }

    /// Removes a message that was acknowledged, returned or dropped.
    pub fn remove(&self, sequence: u64) {
        let mut state = self.lock();
        if state.held.remove(&sequence).is_some() {
            state.append(&format!("- {sequence}\n"));
        }
    }

    /// Notes that the leases of all messages were extended.
    pub fn touch(&self) {
        let mut state = self.lock();
        let touched = state.file.as_ref().map(|f| f.set_modified(SystemTime::now()));
        state.check(touched.unwrap_or(Ok(())));
    }
}

impl State {
    fn append(&mut self, line: &str) {
        let Some(file) = &mut self.file else { return };
        let written = file.write_all(line.as_bytes());
        self.bytes = self.bytes.saturating_add(line.len() as u64);
        self.check(written);
        let live: usize = self.held.values().map(|subject| subject.len() + 24).sum();
        if self.bytes > COMPACT_BYTES.max(4 * live as u64) {
            let compacted = self.compact();
            self.check(compacted);
        }
    }

    /// Writes the file anew with the messages that count.
    fn compact(&mut self) -> io::Result<()> {
        let held = self.held.iter().filter(|(_, subject)| is_subject(subject));
        let lines = held.map(|(n, subject)| format!("+ {n} {subject}\n"));
        let text: String = std::iter::once(self.head.clone()).chain(lines).collect();
        let mut file = File::create(&self.path)?;
        file.write_all(text.as_bytes())?;
        self.bytes = text.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    fn check(&mut self, done: io::Result<()>) {
        if let Err(e) = done {
            tracing::warn!(
                "{}: the messages that this worker has are not listed: {e}",
                self.path.display()
            );
            // A list without some of its lines would return messages that another worker has.
            self.file = None;
            if let Err(e) = std::fs::remove_file(&self.path) {
                tracing::debug!("{}: {e}", self.path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);
    const BROKER: &str = "nats://127.0.0.1:4222";

    #[test]
    fn the_next_process_knows_what_a_killed_one_had() {
        let folder = tempfile::tempdir().unwrap();
        let (list, earlier) = HeldList::open(folder.path(), BROKER, LEASE).unwrap();
        assert!(earlier.is_empty());
        assert!(list.add(7, "$JS.ACK.runs.a.1.7.1.0.9") && list.add(8, "$JS.ACK.runs.a.1.8.2.0.8"));
        // A second delivery replaces the subject.
        assert!(!list.add(8, "$JS.ACK.runs.a.2.8.3.0.8"));
        list.remove(7);
        list.touch();
        // As if the process was killed: nothing is written at its end.
        let (_, earlier) = HeldList::open(folder.path(), BROKER, LEASE).unwrap();
        assert_eq!(earlier, ["$JS.ACK.runs.a.2.8.3.0.8"]);
        let (_, earlier) = HeldList::open(folder.path(), BROKER, LEASE).unwrap();
        assert!(earlier.is_empty(), "it returns them once: {earlier:?}");
    }

    #[test]
    fn the_list_of_another_broker_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (list, _) = HeldList::open(folder.path(), BROKER, LEASE).unwrap();
        list.add(1, "$JS.ACK.runs.a.1.1.1.0.0");
        let (_, earlier) = HeldList::open(folder.path(), "nats://127.0.0.1", LEASE).unwrap();
        assert!(earlier.is_empty(), "{earlier:?}");
    }

    #[test]
    fn an_old_list_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (list, _) = HeldList::open(folder.path(), BROKER, LEASE).unwrap();
        list.add(1, "$JS.ACK.runs.a.1.1.1.0.0");
        let file = File::options().append(true).open(folder.path().join(FILE)).unwrap();
        file.set_modified(SystemTime::now() - LEASE).unwrap();
        assert!(HeldList::open(folder.path(), BROKER, LEASE).unwrap().1.is_empty());
    }

    #[test]
    fn the_file_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let (list, _) = HeldList::open(folder.path(), BROKER, LEASE).unwrap();
        list.add(0, "$JS.ACK.runs.a.1.0.1.0.0");
        for n in 1..10_000 {
            list.add(n, "$JS.ACK.runs.a.1.1.1.0.0");
            list.remove(n);
        }
        let bytes = folder.path().join(FILE).metadata().unwrap().len();
        assert!(bytes <= COMPACT_BYTES, "{bytes}");
        assert_eq!(HeldList::open(folder.path(), BROKER, LEASE).unwrap().1.len(), 1);
    }

    #[test]
    fn damaged_lines_are_left_out() {
        let text =
            "+ 1 $JS.ACK.a\n+ x $JS.ACK.b\n+ 2 $JS.API.STREAM.DELETE.x\n+ 3 $JS.ACK.\u{7f}\n- 9\n\n+ 4 $JS.ACK.c extra";
        assert_eq!(parse("", text), ["$JS.ACK.a", "$JS.ACK.c"]);
        assert!(parse("", &format!("+ 1 $JS.ACK.{}", "a".repeat(MAX_SUBJECT))).is_empty());
    }
}
