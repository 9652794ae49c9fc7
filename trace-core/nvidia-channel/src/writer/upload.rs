//! Uploads: bytes of the push buffer that the compute engine writes to memory.

use super::{EncodeError, EngineKind, PushBufferWriter, address_words, check_methods};
use crate::GpuVa;
use crate::methods::upload::{LAUNCH_DMA, LINE_LENGTH_IN, LOAD_INLINE_DATA, OFFSET_OUT_UPPER};

/// Maximum number of bytes in one upload: the largest multiple of 256 whose words fit one header.
pub const MAX_UPLOAD_BYTES: usize = 32_512;
/// Address bits of an upload since Hopper. The older classes have 40.
const ADDRESS_BITS: u32 = 57;
/// `LAUNCH_DMA`: the destination has lines one after the other.
const PITCH: u32 = 1;

/// What the GPU does at the end of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadFlush {
    /// The bytes are visible to later work of the channel. CUDA's driver uses this before a launch.
    Channel,
    /// The bytes are visible to everything, the CPU included.
    System,
}

impl PushBufferWriter {
    /// Writes an upload of bytes to an address. More than [`MAX_UPLOAD_BYTES`] become several uploads; no bytes write
    /// nothing.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if the end of the bytes is beyond the address space, [`EncodeError::UnboundEngine`]
    /// without a compute class.
    pub fn upload(&mut self, address: GpuVa, bytes: &[u8], flush: UploadFlush) -> Result<(), EncodeError> {
        let (subchannel, class) = self.engine(EngineKind::Compute)?;
        check_methods(class, [OFFSET_OUT_UPPER, LAUNCH_DMA, LOAD_INLINE_DATA].into_iter())?;
        let launch = match flush {
            // SYSMEMBAR_DISABLE
            UploadFlush::Channel => PITCH | 1 << 6,
            // COMPLETION_TYPE = FLUSH_ONLY
            UploadFlush::System => PITCH | 1 << 4,
        };
        let bits = if class >= 0xcbc0 { ADDRESS_BITS } else { 40 };
        let beyond = EncodeError::Address {
            what: "the end of the upload to",
            address,
            alignment: 1,
            bits,
        };
        let last = address.checked_add((bytes.len() as u64).saturating_sub(1));
        if last.is_none_or(|last| last.0 >> bits != 0) {
            return Err(beyond);
        }
        let mut at = address;
        for part in bytes.chunks(MAX_UPLOAD_BYTES) {
            let length = u32::try_from(part.len()).map_err(|_| beyond.clone())?;
            let end = at.checked_add(length.into()).ok_or_else(|| beyond.clone())?;
            let [upper, lower] = address_words("the upload to", at, 1, bits)?;
            self.write_engine(EngineKind::Compute, OFFSET_OUT_UPPER, &[upper, lower])?;
            self.write_engine(EngineKind::Compute, LINE_LENGTH_IN, &[length, 1])?;
            self.write_engine(EngineKind::Compute, LAUNCH_DMA, &[launch])?;
            self.write_repeated(subchannel, LOAD_INLINE_DATA, &words_of(part))?;
            at = end;
        }
        Ok(())
    }
}

/// Returns bytes as little-endian words. The last word is filled with zeros.
pub(super) fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        u32::from_le_bytes(word)
    });
    words.collect()
}
