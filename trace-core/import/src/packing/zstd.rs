//! The unpacker of zstd frames, one after another. Frames to skip are skipped.

use std::io::{self, BufRead, Read};
use zstd::stream::read::Decoder;

/// Maximum size of a window, as a power of two: that of `zstd --long=27`, and what its reader accepts unasked.
const MAX_WINDOW_BITS: u32 = 27;

/// A reader of the unpacked bytes of zstd frames.
pub(crate) struct ZstdReader<R: BufRead> {
    /// An error if there was no memory for the decoder. The first read reports it.
    decoder: io::Result<Decoder<'static, R>>,
}

impl<R: BufRead> ZstdReader<R> {
    pub(crate) fn new(from: R) -> Self {
        let decoder = Decoder::with_buffer(from).and_then(|mut decoder| {
            decoder.window_log_max(MAX_WINDOW_BITS)?;
            Ok(decoder)
        });
        Self { decoder }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let decoder = match &mut self.decoder {
            Ok(decoder) => decoder,
            Err(e) => return Err(io::Error::new(e.kind(), e.to_string())),
        };
        decoder.read(out).map_err(|e| match e.kind() {
            // The library gives its own errors this kind; those of the system have a number.
            io::ErrorKind::Other if e.raw_os_error().is_none() => {
                io::Error::new(io::ErrorKind::InvalidData, e.to_string())
            }
            _ => e,
        })
    }
}
