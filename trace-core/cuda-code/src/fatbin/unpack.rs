//! Decompression of an entry's code, limited to the size in its header.

use std::io::Read;

use super::Compression;
use crate::{Error, MAX_CODE_BYTES};

/// Maximum number of bytes that one byte of an LZ4 block expands to: a run whose length has one more byte of 255.
const LZ4_RATIO: u64 = 255;
/// Maximum number of bytes that one byte of a zstd frame expands to: a block of 128 KiB that repeats one byte takes
/// four.
const ZSTD_RATIO: u64 = 128 * 1024 / 4;
/// Window size of a zstd frame that is always allowed, bytes. Larger windows must be within the unpacked size.
const SMALL_WINDOW: u64 = 1 << 20;

/// Unpacks `packed` to exactly `size` bytes. `entry` and `at` are the offsets of the entry and of the packed bytes.
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
    let min = (packed.len() as u64)
        .saturating_add(1)
        .saturating_mul(ratio)
        .min(MAX_CODE_BYTES);
    if size > min {
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
        return Err(fail(format!(
            "the result has {} bytes, but the header states {size}",
            out.len()
        )));
    }
    Ok(out)
}

/// Unpacks one zstd frame. Memory grows with the output and stops at one byte more than `size`.
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
