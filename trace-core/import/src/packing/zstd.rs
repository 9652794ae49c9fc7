//! The unpacker of zstd frames, one after another. Frames to skip are skipped.
//!
//! Blocks are read whole before they are unpacked, so that a file that ends in a block gives all blocks before it.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// First bytes of a frame, little endian, and of a frame to skip, without its lowest four bits.
const FRAME: u32 = 0xfd2f_b528;
const SKIPPED: u32 = 0x184d_2a50;
/// Maximum size of a window, bytes: that of `zstd --long=27`, and what its reader accepts unasked.
const MAX_WINDOW_BYTES: u64 = 1 << 27;
/// Maximum size of a packed block, bytes.
const MAX_BLOCK_BYTES: usize = 1 << 17;
/// A last block without content, and room for the frame's check value.
const EMPTY_LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// A reader of the unpacked bytes of zstd frames.
pub(crate) struct ZstdReader<R> {
    from: R,
    decoder: FrameDecoder,
    state: State,
    block: Vec<u8>,
}

enum State {
    /// Before a frame; whether it is the first.
    Frame(bool),
    Blocks,
    /// After the file's early end: what is unpacked is still given.
    Cut,
    End,
}

impl<R: BufRead> ZstdReader<R> {
    pub(crate) fn new(from: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW_BYTES);
        Self {
            from,
            decoder,
            state: State::Frame(true),
            block: Vec::new(),
        }
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        loop {
            match self.from.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(<[u8]>::is_empty),
            }
        }
    }

    fn word(&mut self) -> io::Result<u32> {
        let mut word = [0; 4];
        self.from.read_exact(&mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn begin_frame(&mut self, first: bool) -> io::Result<State> {
        if !first && self.is_at_end()? {
            return Ok(State::End);
        }
        match self.word()? {
            FRAME => {
                let magic = FRAME.to_le_bytes();
                let head = magic.chain(&mut self.from);
                self.decoder.reset(head).map_err(damage)?;
                Ok(State::Blocks)
            }
            word if word & !0xf == SKIPPED => {
                let bytes = u64::from(self.word()?);
                let skipped = io::copy(&mut (&mut self.from).take(bytes), &mut io::sink())?;
                match skipped == bytes {
                    true => Ok(State::Frame(false)),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
            _ => Err(damage("no zstd frame begins here")),
        }
    }

    /// Reads a block and unpacks it.
    fn next_block(&mut self) -> io::Result<()> {
        let mut head = [0; 3];
        self.from.read_exact(&mut head)?;
        let word = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let size = match word >> 1 & 3 {
            1 => 1,
            3 => return Err(damage("a block of a reserved kind")),
            _ => (word >> 3) as usize,
        };
        if size > MAX_BLOCK_BYTES {
            return Err(damage("a block is larger than 128 KiB"));
        }
        // The decoder takes the check value with the last block; it is four bytes or nothing.
        self.block.clear();
        self.block.extend_from_slice(&head);
        (&mut self.from).take(size as u64).read_to_end(&mut self.block)?;
        if self.block.len() != head.len() + size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let source = self.block.as_slice().chain(&mut self.from);
        let one = BlockDecodingStrategy::UptoBlocks(1);
        self.decoder.decode_blocks(source, one).map_err(damage)?;
        Ok(())
    }
}

/// Returns the error of damaged data.
fn damage(reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state {
                State::Frame(first) => self.state = self.begin_frame(first)?,
                State::Blocks if self.decoder.can_collect() > 0 => return self.decoder.read(out),
                State::Blocks if self.decoder.is_finished() => {
                    let expected = self.decoder.get_checksum_from_data();
                    if expected.is_some() && expected != self.decoder.get_calculated_checksum() {
                        return Err(damage("the check value of a frame is wrong"));
                    }
                    self.state = State::Frame(false);
                }
                State::Blocks => match self.next_block() {
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                        let end = &EMPTY_LAST_BLOCK[..];
                        let one = BlockDecodingStrategy::UptoBlocks(1);
                        self.decoder.decode_blocks(end, one).map_err(damage)?;
                        self.state = State::Cut;
                    }
                    other => other?,
                },
                State::Cut if self.decoder.can_collect() > 0 => return self.decoder.read(out),
                State::Cut => return Err(io::ErrorKind::UnexpectedEof.into()),
                State::End => return Ok(0),
            }
        }
    }
}
