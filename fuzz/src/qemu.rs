//! Fuzz target for QEMU's answers to the target that drives it, and for names of such targets.

use replay_engine::device::qemu::Name;
use replay_engine::device::qemu::answer::{Answer, list_plain_ranges, number};

/// Fuzzes one text. The first byte selects what the rest is: a line of the qtest socket, a listing of memory, the text
/// after `qemu:`.
pub fn qemu(data: &[u8]) -> bool {
    let Some((kind, rest)) = data.split_first() else {
        return false;
    };
    match kind % 3 {
        0 => match Answer::parse(rest) {
            Answer::Done { value } => {
                let _ = number(value);
                true
            }
            Answer::Refused { .. } | Answer::Interrupt { .. } => true,
            Answer::Odd => false,
        },
        1 => {
            let ranges = list_plain_ranges(&String::from_utf8_lossy(rest));
            assert!(ranges.iter().all(|r| r.start < r.end), "a range is empty");
            !ranges.is_empty()
        }
        _ => {
            let Some(name) = std::str::from_utf8(rest).ok().and_then(|t| Name::parse(t).ok()) else {
                return false;
            };
            let sound = |c: char| c.is_ascii_alphanumeric() || "-_.,=:+".contains(c);
            assert!(
                name.text().chars().all(sound),
                "an unexpected character in {:?}",
                name.text()
            );
            assert!(!name.text().starts_with('-') && !name.device().is_empty());
            true
        }
    }
}
