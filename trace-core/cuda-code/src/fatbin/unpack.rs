//! Unpacking the code of an entry, to the size that its header gives and no further.

use std::io::Read;

use super::Compression;
use crate::{Error, MAX_CODE_BYTES};

/// Most bytes that one byte of an LZ4 block stands for: a run whose length is one more byte of 255.
const LZ4_RATIO: u64 = 255;
/// Most bytes that one byte of a zstd frame stands for: a block of 128 KiB that repeats one byte takes four.
const ZSTD_RATIO: u64 = 128 * 1024 / 4;
/// Window of a zstd frame that is always granted, in bytes. Larger ones have to be within the unpacked size.
const SMALL_WINDOW: u64 = 1 << 20;

/// Unpacks `packed` to exactly `size` bytes. `entry` and `at` are where the entry and the packed bytes are.
pub(super) fn unpack(method: Compression, packed: &[u8], size: u64, entry: u64, at: u64) -> Result<Vec<u8>, Error> {
    let (name, ratio) = match method {
        Compression::Lz4 => ("LZ4", LZ4_RATIO),
        Compression::Zstd => ("zstd", ZSTD_RATIO),
        Compression::None | Compression::Unknown => {
            let reason = "the flags name no known method".into();
            return Err(Error::Unpack {
                at,
                method: "compressed",
                reason,
            });
        }
    };
    let fail = |reason: String| Error::Unpack {
        at,
        method: name,
        reason,
    };
    let least = (packed.len() as u64)
        .saturating_add(1)
        .saturating_mul(ratio)
        .min(MAX_CODE_BYTES);
    if size > least {
        let what = "the unpacked size of an entry";
        let expected = "at most 1 GiB, and what its compressed bytes can hold";
        return Err(Error::Field {
            at: entry.saturating_add(56),
            what,
            found: size,
            expected,
        });
    }
    let out = match method {
        Compression::Lz4 => {
            let room = usize::try_from(size).map_err(|e| fail(e.to_string()))?;
            let mut out = vec![0; room];
            let len = lz4_flex::block::decompress_into(packed, &mut out).map_err(|e| fail(e.to_string()))?;
            out.truncate(len);
            out
        }
        _ => zstd(packed, size).map_err(fail)?,
    };
    if out.len() as u64 != size {
        return Err(fail(format!("{} bytes came out, the header says {size}", out.len())));
    }
    Ok(out)
}

/// One frame of zstd. Memory grows with what comes out, and stops at one byte beyond `size`.
fn zstd(packed: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let window = size.max(SMALL_WINDOW);
    let stream = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(packed, window);
    let stream = stream.map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    stream
        .take(size.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|e| e.to_string())?;
    Ok(out)
}
