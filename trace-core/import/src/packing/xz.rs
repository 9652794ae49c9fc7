//! The unpacker of xz streams, one after another, with padding between them.

use lzma_rust2::{Action, Status, XzStream};
use std::io::{self, BufRead, Read};

/// Maximum memory of the unpacker, KiB: enough for the dictionary of `xz -9`, which has 64 MiB, and for twice of it.
const MAX_MEMORY_KIB: u32 = 192 << 10;

/// A reader of the unpacked bytes of xz streams.
pub(crate) struct XzReader<R> {
    from: R,
    stream: XzStream,
    is_finished: bool,
}

impl<R: BufRead> XzReader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            stream: XzStream::new_mem_limit(true, MAX_MEMORY_KIB),
            is_finished: false,
        }
    }
}

impl<R: BufRead> Read for XzReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while !self.is_finished {
            let bytes = match self.from.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            let at_end = bytes.is_empty();
            let action = if at_end { Action::Finish } else { Action::Run };
            let result = self.stream.process(bytes, out, action).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => e,
                _ => io::Error::new(io::ErrorKind::InvalidData, e.to_string()),
            })?;
            self.from.consume(result.bytes_consumed);
            self.is_finished = result.status == Status::StreamEnd;
            if result.bytes_produced > 0 {
                return Ok(result.bytes_produced);
            }
            if at_end && !self.is_finished {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}
