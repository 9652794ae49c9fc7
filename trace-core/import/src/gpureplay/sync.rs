//! `gr_sync_as`: the ranges that CPU and GPU shared, as buffers. The last is the output, the one before it the input.

use super::tally::damage;
use crate::bytes::Reader;
use trace_core::GpuVa;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{Buffer, BufferRole, ElementType};

const FILE: &str = "gr_sync_as";
const ENTRY_BYTES: u64 = 24;

/// Returns the buffers, and the number of bytes used.
pub(super) fn parse(bytes: &[u8], findings: &mut Vec<Finding>) -> (Vec<Buffer>, u64) {
    let mut r = Reader::new(bytes);
    let Some(count) = r.u32() else {
        findings.push(damage(FILE, 0, "the file ends before the number of its ranges"));
        return (Vec::new(), 0);
    };
    let count = u64::from(count);
    if count.saturating_mul(ENTRY_BYTES) > r.left() {
        let there = r.left() / ENTRY_BYTES;
        findings.push(damage(
            FILE,
            0,
            format!("the file states {count} ranges, but has space for {there}"),
        ));
    }
    let mut buffers = Vec::new();
    let mut used = r.at();
    let mut floats = 0;
    for index in 0..count {
        let (Some(start), Some(end), Some(size)) = (r.u64(), r.u64(), r.u64()) else {
            break;
        };
        let at = used;
        used = r.at();
        if end < start || end - start != size || size == 0 {
            findings.push(Finding::new(
                FindingKind::NotUsed,
                format!("{FILE}, byte {at:#x}"),
                format!("range {index} goes from {start:#x} to {end:#x}, but states {size} bytes; it was not used"),
            ));
            continue;
        }
        // Position alone identifies them: the program's last flush is the result, the one before it the input data. The
        // roles only hold if the list is complete.
        let (name, role) = match count - index {
            1 => ("output".to_owned(), BufferRole::Output),
            2 => ("input".to_owned(), BufferRole::Input),
            _ => (format!("sync{index}"), BufferRole::Shared),
        };
        let element = if size % 4 == 0 {
            floats += 1;
            ElementType::F32
        } else {
            ElementType::U8
        };
        buffers.push(Buffer {
            name,
            role,
            address_space: 0,
            va: GpuVa::new(start),
            bytes: size,
            element,
        });
    }
    if r.left() > 0 && count.saturating_mul(ENTRY_BYTES) <= used {
        findings.push(damage(FILE, used, format!("{} bytes follow the last range", r.left())));
    }
    if !buffers.is_empty() {
        let message = format!(
            "the file states neither the role of its {} ranges nor their element types: the last one is assumed to be \
             the output, and the one before it the input. The {floats} ranges whose size is a multiple of 4 are \
             assumed to hold f32, the others bytes",
            buffers.len()
        );
        findings.push(Finding::new(FindingKind::Assumed, FILE, message));
    }
    (buffers, used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ranges: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut b = (ranges.len() as u32).to_le_bytes().to_vec();
        for (s, e, n) in ranges {
            for v in [s, e, n] {
                b.extend(v.to_le_bytes());
            }
        }
        b
    }

    #[test]
    fn last_two_sync_ranges_are_input_and_output() {
        let bytes = file(&[(0x1000, 0x1010, 16), (0x2000, 0x2003, 3), (0x3000, 0x3040, 64)]);
        let mut f = Vec::new();
        let (b, used) = parse(&bytes, &mut f);
        assert_eq!(used, bytes.len() as u64);
        assert_eq!((f.len(), f[0].kind), (1, FindingKind::Assumed));
        assert!(
            f[0].message.contains("its 3 ranges") && f[0].message.contains("The 2 ranges"),
            "{f:?}"
        );
        let got: Vec<_> = b
            .iter()
            .map(|b| (b.name.as_str(), b.role, b.bytes, b.element))
            .collect();
        assert_eq!(
            got,
            [
                ("sync0", BufferRole::Shared, 16, ElementType::F32),
                ("input", BufferRole::Input, 3, ElementType::U8),
                ("output", BufferRole::Output, 64, ElementType::F32),
            ]
        );
    }

    #[test]
    fn sync_history_damage_is_reported_with_its_offset() {
        let valid = file(&[(0x1000, 0x1010, 16), (0x2000, 0x2008, 8)]);
        for cut in 0..valid.len() {
            let mut f = Vec::new();
            let (b, used) = parse(&valid[..cut], &mut f);
            f.retain(|f| f.kind != FindingKind::Assumed);
            assert_eq!(f.len(), 1, "cut at {cut}: {f:?}");
            assert_eq!(f[0].kind, FindingKind::TruncatedSection);
            assert!(used <= cut as u64);
            assert_eq!(b.len(), cut.saturating_sub(4) / 24);
        }
        let mut f = Vec::new();
        parse(&[valid.clone(), vec![1]].concat(), &mut f);
        assert_eq!(f[0].place, "gr_sync_as, byte 0x34");
        let mut f = Vec::new();
        assert!(parse(&file(&[(0x1000, 0x1010, 17)]), &mut f).0.is_empty());
        assert_eq!(
            (f[0].kind, f[0].place.as_str()),
            (FindingKind::NotUsed, "gr_sync_as, byte 0x4")
        );
    }
}
