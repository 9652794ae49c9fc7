//! The copy of a growing recording that a worker of an agent makes: `kinescope --follow` shows it meanwhile.

use crate::lock;
use remote_relay::RelayError;
use remote_relay::record::{Record, read_records};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Suffix of the copy's name, as recorders have it.
const UNFINISHED: &str = ".unfinished.kine";

/// What has arrived.
#[derive(Debug)]
struct State {
    /// The file, which this process holds locked: a reader knows then that it grows. `None` until bytes arrive.
    file: Option<File>,
    bytes: u64,
    is_complete: bool,
    /// Why bytes are missing from the file: the disk is full, for example. The program goes on.
    failure: Option<io::Error>,
}

/// The copy of a recording.
#[derive(Debug)]
pub struct RecordingCopy {
    path: PathBuf,
    state: Mutex<State>,
}

impl RecordingCopy {
    /// Creates the copy of the program with a number, for a recording that will be `file`. There is no file yet.
    pub fn new(file: &Path, number: u64) -> Self {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        Self {
            path: file.with_file_name(format!("{stem}-{number}{UNFINISHED}")),
            state: Mutex::new(State {
                file: None,
                bytes: 0,
                is_complete: false,
                failure: None,
            }),
        }
    }

    /// Returns the path of the copy while it grows.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a frame about the recording. If the file cannot be written, [`RecordingCopy::finish`] returns why.
    ///
    /// # Errors
    /// If the frame is invalid.
    pub fn take_frame(&self, frame: &[u8]) -> Result<(), RelayError> {
        let mut state = lock(&self.state);
        read_records(frame, |record| match record {
            Record::Recording(bytes) if !state.is_complete => {
                if state.failure.is_none() {
                    state.failure = self.append(&mut state, bytes).err();
                }
                state.bytes += bytes.len() as u64;
                Ok(())
            }
            Record::RecordingEnd(bytes) if bytes == state.bytes => {
                state.is_complete = true;
                Ok(())
            }
            _ => Err(RelayError::Unexpected("a record about the recording")),
        })
    }

    fn append(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut state.file {
            Some(file) => file,
            None => {
                let file = File::create_new(&self.path)?;
                file.lock()?;
                state.file.insert(file)
            }
        };
        file.write_all(bytes)
    }

    /// Moves a complete copy to `to`, and removes an incomplete one if the whole recording came in another way. Returns
    /// whether it was complete.
    ///
    /// # Errors
    /// If the file cannot be moved or removed, or could not be written. What was written stays.
    pub fn finish(&self, to: impl FnOnce() -> PathBuf, has_whole: bool) -> io::Result<bool> {
        let mut state = lock(&self.state);
        let has_file = state.file.take().is_some();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        if !has_file {
            return Ok(false);
        }
        if state.is_complete {
            std::fs::rename(&self.path, to())?;
        } else if has_whole {
            std::fs::remove_file(&self.path)?;
        }
        Ok(state.is_complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_relay::record::encode_record;

    #[test]
    fn copy_grows_under_a_lock_and_moves_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("run.kine");
        let copy = RecordingCopy::new(&to, 1);
        let part = |bytes: &[u8]| encode_record(&Record::Recording(bytes));
        copy.take_frame(&part(b"abc")).unwrap();
        let growing = folder.path().join("run-1.unfinished.kine");
        assert_eq!(std::fs::read(&growing).unwrap(), b"abc");
        let reader = File::open(&growing).unwrap();
        assert!(reader.try_lock_shared().is_err(), "the file is being written");
        copy.take_frame(&part(b"de")).unwrap();
        let end = |bytes| encode_record(&Record::RecordingEnd(bytes));
        assert!(copy.take_frame(&end(4)).is_err());
        copy.take_frame(&end(5)).unwrap();
        assert!(copy.take_frame(&part(b"f")).is_err());
        assert!(copy.finish(|| to.clone(), false).unwrap());
        assert_eq!(std::fs::read(&to).unwrap(), b"abcde");
        // A copy that cannot be written ends no program; the end says why.
        let nowhere = RecordingCopy::new(&folder.path().join("missing/run.kine"), 3);
        nowhere.take_frame(&part(b"abc")).unwrap();
        nowhere.take_frame(&end(3)).unwrap();
        let failure = nowhere.finish(|| to.clone(), false).unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::NotFound);
        // An incomplete one stays, unless the whole came.
        for has_whole in [false, true] {
            let copy = RecordingCopy::new(&to, 2);
            copy.take_frame(&part(b"abc")).unwrap();
            assert!(!copy.finish(|| to.clone(), has_whole).unwrap());
            let left = folder.path().join("run-2.unfinished.kine");
            assert_eq!(left.exists(), !has_whole);
            let _ = std::fs::remove_file(left);
        }
    }
}
