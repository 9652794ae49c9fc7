//! The journal of changes beside the recording, `FILE.kine-edits`: a line a change, written as it happens, so that
//! nothing is lost when the program dies.

use super::changes::{Change, Changes};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Longest journal that is read, bytes.
const MOST_BYTES: u64 = 1 << 30;

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// Which recording the changes belong to.
    Of { events: u64, gpu: u32, source: String },
    /// A change was made.
    Do(Change),
    /// The last change was taken back.
    Undo,
    /// It was made again.
    Redo,
    /// The program ended in good order.
    Closed,
}

/// The recording that a journal belongs to, as far as it must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// Number of events.
    pub events: u64,
    /// Raw GPU id.
    pub gpu: u32,
    /// Form of the source.
    pub source: String,
}

/// What a journal held.
#[derive(Debug, Default)]
pub struct Found {
    /// The changes, as they stood at the end.
    pub changes: Changes,
    /// Whether the program ended in good order.
    pub closed: bool,
    /// Lines that could not be used.
    pub unusable: usize,
}

/// The journal's file for a recording.
#[must_use]
pub fn path_for(recording: &Path) -> PathBuf {
    beside(recording, "kine-edits")
}

/// A file beside the recording with this extension.
#[must_use]
pub fn beside(recording: &Path, extension: &str) -> PathBuf {
    let name = recording
        .file_name()
        .map_or_else(|| "recording".into(), |n| n.to_string_lossy().into_owned());
    let stem = name
        .strip_suffix(".kine")
        .or_else(|| name.strip_suffix(".kine-edits"))
        .unwrap_or(&name);
    recording.with_file_name(format!("{stem}.{extension}"))
}

/// Reads a journal. `None`: there is none, or it belongs to another recording.
#[must_use]
pub fn read(path: &Path, of: &Of, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Found> {
    let meta = std::fs::metadata(path).ok()?;
    if meta.len() > MOST_BYTES {
        return None;
    }
    // A write that a crash tore need not leave text; the lines around it are sound.
    parse(&String::from_utf8_lossy(&std::fs::read(path).ok()?), of, recorded)
}

/// The changes that a journal's text tells.
#[must_use]
pub fn parse(text: &str, of: &Of, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Found> {
    let mut lines = text.lines();
    if !begins(lines.next()?, of) {
        return None;
    }
    let mut found = Found::default();
    for line in lines {
        found.closed = false;
        match serde_json::from_str::<Line>(line) {
            Ok(Line::Do(c)) => found.unusable += usize::from(!found.changes.apply(c, recorded)),
            Ok(Line::Undo) => found.unusable += usize::from(found.changes.undo(recorded).is_none()),
            Ok(Line::Redo) => found.unusable += usize::from(found.changes.redo(recorded).is_none()),
            Ok(Line::Closed) => found.closed = true,
            Ok(Line::Of { .. }) | Err(_) => found.unusable += 1,
        }
    }
    Some(found)
}

/// Whether this is the first line of a journal of the recording.
fn begins(line: &str, of: &Of) -> bool {
    match serde_json::from_str(line) {
        Ok(Line::Of { events, gpu, source }) => Of { events, gpu, source } == *of,
        _ => false,
    }
}

/// Opens the journal to add to it, at the beginning of a line. `true`: it has no first line yet. A file that is not
/// this recording's journal is moved aside, not added to: what it holds and what comes now would both be lost.
fn open(path: &Path, of: &Of) -> io::Result<(File, bool)> {
    let to_add = || OpenOptions::new().append(true).create(true).read(true).open(path);
    let mut file = to_add()?;
    let mut first = Vec::new();
    BufReader::new(&file).take(1 << 20).read_until(b'\n', &mut first)?;
    if first.is_empty() {
        return Ok((file, true));
    }
    if !begins(String::from_utf8_lossy(&first).trim_end(), of) {
        let aside = (1..100)
            .map(|n| beside(path, &format!("kine-edits-other-{n}")))
            .find(|p| !p.exists())
            .ok_or_else(|| io::Error::other("there are too many journals of other recordings beside it"))?;
        std::fs::rename(path, &aside)?;
        tracing::warn!("{}: of another recording, moved to {}", path.display(), aside.display());
        return Ok((to_add()?, true));
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok((file, false))
}

/// Writes the journal, on a thread of its own.
pub struct Journal {
    to: Option<Sender<Line>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    of: Of,
}

impl Journal {
    /// A journal at `path`; the file is made with the first change.
    #[must_use]
    pub fn new(path: PathBuf, of: Of) -> Self {
        Self {
            to: None,
            thread: None,
            path,
            of,
        }
    }

    fn send(&mut self, line: Line) {
        if self.to.is_none() {
            let (to, from) = channel::<Line>();
            let (path, of) = (self.path.clone(), self.of.clone());
            self.thread = std::thread::Builder::new()
                .name("journal".into())
                .spawn(move || {
                    let opened = open(&path, &of).inspect_err(|e| tracing::error!("{}: {e}", path.display()));
                    let Ok((mut file, fresh)) = opened else {
                        return;
                    };
                    let mut put = |line: &Line| {
                        let text = serde_json::to_string(line).unwrap_or_default() + "\n";
                        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
                        if let Err(e) = written {
                            tracing::error!("{}: {e}", path.display());
                        }
                    };
                    if fresh {
                        put(&Line::Of {
                            events: of.events,
                            gpu: of.gpu,
                            source: of.source,
                        });
                    }
                    for line in from {
                        put(&line);
                    }
                })
                .ok();
            self.to = Some(to);
        }
        if let Some(to) = &self.to {
            let _ = to.send(line);
        }
    }

    /// Notes a change.
    pub fn done(&mut self, change: &Change) {
        self.send(Line::Do(change.clone()));
    }

    /// Notes that the last change was taken back.
    pub fn undone(&mut self) {
        self.send(Line::Undo);
    }

    /// Notes that it was made again.
    pub fn redone(&mut self) {
        self.send(Line::Redo);
    }

    /// Removes what the journal holds.
    pub fn discard(&mut self) {
        self.finish();
        let _ = std::fs::remove_file(&self.path);
    }

    fn finish(&mut self) {
        self.to = None;
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }

    /// Ends in good order: waits until everything is written.
    pub fn close(&mut self) {
        if self.to.is_some() {
            self.send(Line::Closed);
        }
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_comes_back_even_when_its_last_line_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_for(&dir.path().join("a.kine"));
        assert!(path.ends_with("a.kine-edits"));
        let of = Of {
            events: 10,
            gpu: 1,
            source: "x".into(),
        };
        let base = |_: &str| Some(vec![0u8; 4]);
        let change = Change::Bytes {
            buffer: "in".into(),
            offset: 1,
            old: vec![0],
            new: vec![7],
        };
        let mut j = Journal::new(path.clone(), of.clone());
        j.done(&change);
        j.done(&Change::Pin { register: 4, on: true });
        j.undone();
        j.finish();
        let found = read(&path, &of, &base).unwrap();
        assert!(!found.closed && found.unusable == 0);
        assert_eq!(found.changes.inputs()["in"], [0, 7, 0, 0]);
        assert!(found.changes.pins().is_empty() && found.changes.next().is_some());
        let text = std::fs::read_to_string(&path).unwrap();
        for cut in 0..text.len() {
            if let Some(f) = parse(&text[..cut], &of, &base) {
                assert!(f.unusable <= 1);
            }
        }
        assert!(
            read(
                &path,
                &Of {
                    events: 11,
                    ..of.clone()
                },
                &base
            )
            .is_none(),
            "another recording"
        );
        let mut j = Journal::new(path.clone(), of.clone());
        j.redone();
        j.close();
        assert!(read(&path, &of, &base).unwrap().closed);
    }

    fn note(event: u64) -> Change {
        Change::Note {
            event,
            old: None,
            new: Some("n".into()),
        }
    }

    fn of(events: u64) -> Of {
        Of {
            events,
            gpu: 1,
            source: "x".into(),
        }
    }

    #[test]
    fn a_line_that_a_crash_cut_does_not_swallow_the_next_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_for(&dir.path().join("a.kine"));
        let nothing = |_: &str| None;
        // Cut in the middle of a change, torn to bytes that are no text, cut before the first line was written.
        let torn: [&[u8]; 3] = [b"{\"do\":{\"no", b"\xff\xfe\x80", b""];
        for tail in torn {
            let mut j = Journal::new(path.clone(), of(10));
            j.done(&note(1));
            j.finish();
            if tail.is_empty() {
                std::fs::write(&path, b"").unwrap();
            } else {
                let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                file.write_all(tail).unwrap();
            }
            let mut j = Journal::new(path.clone(), of(10));
            j.done(&note(2));
            j.finish();
            let found = read(&path, &of(10), &nothing).unwrap();
            assert!(found.changes.notes().contains_key(&2), "{tail:?}");
            assert_eq!(found.changes.notes().contains_key(&1), !tail.is_empty());
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_journal_of_another_recording_is_moved_aside_and_not_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_for(&dir.path().join("a.kine"));
        for events in [10, 11, 12] {
            let mut j = Journal::new(path.clone(), of(events));
            j.done(&note(events));
            j.finish();
            assert_eq!(read(&path, &of(events), &|_| None).unwrap().changes.len(), 1);
        }
        for (n, events) in [(1, 10), (2, 11)] {
            let aside = dir.path().join(format!("a.kine-edits-other-{n}"));
            assert_eq!(read(&aside, &of(events), &|_| None).unwrap().changes.len(), 1);
        }
    }
}
