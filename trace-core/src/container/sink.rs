//! Destinations of a writer's bytes: a file, a buffer, or a test double.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

/// A destination for the bytes of a writer. Bytes between two writes that nobody wrote are zero.
pub trait Sink {
    /// Writes bytes at an offset after everything that was synced.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything written is durable across a power cut.
    ///
    /// # Errors
    /// If that cannot be guaranteed.
    fn sync(&mut self) -> io::Result<()>;
}

/// A sink that writes to a file.
#[derive(Debug)]
pub struct FileSink {
    file: File,
    /// The folder that contains the file, synced together with it the first time.
    folder: Option<File>,
}

impl FileSink {
    /// Creates a sink for a file that is locked for its writer. `folder` is the folder that lists it, if the file is
    /// new.
    pub(super) fn new(file: File, folder: Option<File>) -> Self {
        Self { file, folder }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl AsRawFd for FileSink {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// The lock belongs to the open file, which every forked child process shares until it executes its own program.
/// Closing alone would keep the file locked until such a child has started.
impl Drop for FileSink {
    fn drop(&mut self) {
        // A failure here cannot be handled, and closing also unlocks.
        let _ = self.file.unlock();
    }
}

impl Sink for FileSink {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if let Some(folder) = self.folder.take() {
            folder.sync_all()?;
        }
        Ok(())
    }
}

/// A sink that writes to a buffer.
#[derive(Debug, Default)]
pub struct MemorySink {
    /// The written bytes.
    pub bytes: Vec<u8>,
}

impl Sink for MemorySink {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).map_err(|e| io::Error::new(io::ErrorKind::FileTooLarge, e))?;
        let end = at
            .checked_add(bytes.len())
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if at == self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        match self.bytes.get_mut(at..end) {
            Some(target) => target.copy_from_slice(bytes),
            None => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_releases_the_lock_despite_a_forked_child() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held.kine");
        let file = File::create_new(&path).unwrap();
        file.try_lock().unwrap();
        // The same open file, as a child process has it between fork and exec.
        let child = file.try_clone().unwrap();
        drop(FileSink::new(file, None));
        let again = File::open(&path).unwrap();
        assert!(again.try_lock().is_ok());
        drop(child);
    }
}
