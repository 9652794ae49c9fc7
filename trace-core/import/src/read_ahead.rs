//! A reader that reads on a thread of its own, ahead of the one that takes the bytes.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Size of a block, bytes.
const BLOCK_BYTES: usize = 1 << 18;
/// Maximum number of blocks that wait to be taken.
const MAX_WAITING: usize = 8;

/// Bytes that a thread reads ahead. The thread ends when the reader is dropped.
pub(crate) struct ReadAhead {
    blocks: Receiver<io::Result<Vec<u8>>>,
    used: Sender<Vec<u8>>,
    block: Vec<u8>,
    /// Number of bytes of the block that were taken.
    taken: usize,
    is_finished: bool,
}

impl ReadAhead {
    /// Starts to read ahead.
    pub(crate) fn new(from: impl Read + Send + 'static) -> Self {
        let (give, blocks) = sync_channel(MAX_WAITING);
        let (used, free) = channel();
        std::thread::spawn(move || read_blocks(from, &give, &free));
        Self {
            blocks,
            used,
            block: Vec::new(),
            taken: 0,
            is_finished: false,
        }
    }
}

/// Reads blocks until the end, an error, or the loss of their receiver.
fn read_blocks(mut from: impl Read, give: &SyncSender<io::Result<Vec<u8>>>, free: &Receiver<Vec<u8>>) {
    loop {
        let mut block = free.try_recv().unwrap_or_default();
        block.resize(BLOCK_BYTES, 0);
        let mut filled = 0;
        let mut end = None;
        while let Some(room) = block.get_mut(filled..).filter(|r| !r.is_empty()) {
            match from.read(room) {
                Ok(0) => {
                    end = Some(None);
                    break;
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    end = Some(Some(e));
                    break;
                }
            }
        }
        block.truncate(filled);
        // Without a receiver, nobody needs the rest.
        if filled > 0 && give.send(Ok(block)).is_err() {
            return;
        }
        match end {
            Some(Some(error)) => {
                let _ = give.send(Err(error));
                return;
            }
            Some(None) => return,
            None => {}
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.taken == self.block.len() {
            if self.is_finished {
                return Ok(0);
            }
            let next = match self.blocks.recv() {
                Ok(Ok(block)) => block,
                Ok(Err(error)) => {
                    self.is_finished = true;
                    return Err(error);
                }
                Err(_) => {
                    self.is_finished = true;
                    return Ok(0);
                }
            };
            // Nobody receives it once everything is read.
            let _ = self.used.send(std::mem::replace(&mut self.block, next));
            self.taken = 0;
        }
        let left = self.block.get(self.taken..).unwrap_or_default();
        let count = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(from);
        }
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_order_and_the_error_after_them() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES as u32 + 7).map(|n| (n % 251) as u8).collect();
        let mut read = Vec::new();
        let from = io::Cursor::new(bytes.clone());
        ReadAhead::new(from).read_to_end(&mut read).unwrap();
        assert!(read == bytes);

        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::new(io::ErrorKind::InvalidData, "broken"))
            }
        }
        let mut read = Vec::new();
        let from = io::Cursor::new(b"before".to_vec()).chain(Broken);
        let error = ReadAhead::new(from).read_to_end(&mut read).unwrap_err();
        assert_eq!(
            (read.as_slice(), error.to_string()),
            (&b"before"[..], "broken".to_owned())
        );
    }

    #[test]
    fn a_dropped_reader_ends_an_endless_source() {
        let mut ahead = ReadAhead::new(io::repeat(7));
        let mut one = [0];
        ahead.read_exact(&mut one).unwrap();
        assert_eq!(one, [7]);
    }
}
