//! The journal of changes beside the recording, `FILE.kine-edits`: a line a change, written as it happens, so that
//! nothing is lost when the program dies.

use super::changes::{Change, Changes};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
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
    let stem = name.strip_suffix(".kine").unwrap_or(&name);
    recording.with_file_name(format!("{stem}.{extension}"))
}

/// Reads a journal. `None`: there is none, or it belongs to another recording.
#[must_use]
pub fn read(path: &Path, of: &Of, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Found> {
    let meta = std::fs::metadata(path).ok()?;
    if meta.len() > MOST_BYTES {
        return None;
    }
    parse(&std::fs::read_to_string(path).ok()?, of, recorded)
}

/// The changes that a journal's text tells.
#[must_use]
pub fn parse(text: &str, of: &Of, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Found> {
    let mut lines = text.lines();
    let first = serde_json::from_str::<Line>(lines.next()?).ok()?;
    let Line::Of { events, gpu, source } = first else {
        return None;
    };
    if (Of { events, gpu, source }) != *of {
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
                    let fresh = !path.exists();
                    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
                    let Ok(mut file) = file.inspect_err(|e| tracing::error!("{}: {e}", path.display())) else {
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
}
