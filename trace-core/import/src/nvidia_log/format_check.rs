//! The check whether a file is a log: it has no magic, so its first records must be sound.

use super::records::{Content, End, Records};

/// Number of first bytes that identify a log.
pub(super) const HEAD_BYTES: u64 = 1 << 14;

/// Type of a record with a text.
const MARK: u32 = 7;

/// Whether the first bytes of a file are those of a log: all records have known types and forms, and one of them names
/// a device file of NVIDIA's driver. The last one may be cut.
pub(super) fn is_log(head: &[u8]) -> bool {
    let mut records = Records::new(head, None);
    let mut names_a_device = false;
    loop {
        match records.next() {
            Ok(Ok(header)) => {
                let bytes = records.content();
                let is_sound = header.kind != MARK || std::str::from_utf8(bytes).is_ok();
                let Some(content) = Content::parse(header.kind, bytes).filter(|_| is_sound) else {
                    return false;
                };
                names_a_device |= content.file().is_some_and(|f| f.starts_with("nvidia"));
                names_a_device |= matches!(content, Content::Recorder { .. });
            }
            Ok(Err(End::Whole | End::Cut(..))) => return names_a_device,
            Ok(Err(End::Damaged(_))) | Err(_) => return false,
        }
    }
}
