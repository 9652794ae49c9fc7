//! What the worker prints, such as the output of kernels: a pipe that is read without waiting.

use crate::lock;
use std::io::{ErrorKind, Read};
use std::sync::Mutex;

/// Size of the parts that are read, bytes.
const PART_BYTES: usize = 4096;

/// The output of a worker.
#[derive(Default)]
pub struct PrintedOutput(Mutex<Option<Box<dyn Read + Send>>>);

impl PrintedOutput {
    /// Sets the pipe. Its reads do not block.
    pub fn set(&self, pipe: impl Read + Send + 'static) {
        *lock(&self.0) = Some(Box::new(pipe));
    }

    /// Returns whether more can come.
    pub fn is_open(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Calls `take` with what was printed since the last call.
    pub fn read(&self, mut take: impl FnMut(&[u8])) {
        let mut output = lock(&self.0);
        let Some(pipe) = output.as_mut() else { return };
        let mut buffer = [0; PART_BYTES];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => take(buffer.get(..count).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // What was printed before was taken.
                Err(_) => break,
            }
        }
        *output = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn output_is_read_without_waiting_until_its_end() {
        let (mut worker, pipe) = UnixStream::pair().unwrap();
        pipe.set_nonblocking(true).unwrap();
        let output = PrintedOutput::default();
        let read = || {
            let mut all = Vec::new();
            output.read(|part| all.extend_from_slice(part));
            all
        };
        assert!(!output.is_open() && read().is_empty());
        output.set(pipe);
        assert!(output.is_open() && read().is_empty());
        worker.write_all(&[7; 5000]).unwrap();
        assert_eq!(read(), [7; 5000]);
        worker.write_all(b"end").unwrap();
        drop(worker);
        assert_eq!(read(), b"end");
        assert!(!output.is_open());
    }
}
