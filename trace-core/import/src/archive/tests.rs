//! Headers of archives that are not the usual ones.

use super::tar;

fn header(size: &[u8], kind: u8) -> Vec<u8> {
    let mut header = vec![0u8; tar::BLOCK_BYTES];
    header[..4].copy_from_slice(b"name");
    header[124..124 + size.len()].copy_from_slice(size);
    header[148..156].fill(b' ');
    header[156] = kind;
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    header
}

fn sizes(bytes: &[u8]) -> (Vec<(String, u64, bool)>, tar::End) {
    let mut out = Vec::new();
    let mut from = bytes;
    let end = tar::read_members(
        &mut from,
        |_| true,
        |m, _| {
            out.push((m.name.clone(), m.bytes, m.is_file));
            Ok::<(), std::io::Error>(())
        },
        |e| e,
    );
    (out, end.unwrap())
}

#[test]
fn sizes_are_octal_or_binary() {
    let mut binary = [0u8; 12];
    binary[0] = 0x80;
    binary[11] = 3;
    for size in [&b"00000000003\0"[..], b"         3 \0", &binary] {
        let mut bytes = header(size, b'0');
        bytes.extend(b"abc");
        bytes.resize(2 * tar::BLOCK_BYTES, 0);
        assert_eq!(sizes(&bytes), (vec![("name".into(), 3, true)], tar::End::Whole));
    }
    // A link gives a size and has no content.
    let bytes = header(b"00000000003\0", b'2');
    assert_eq!(sizes(&bytes), (vec![("name".into(), 3, false)], tar::End::Whole));
}

#[test]
fn long_attributes_and_wrong_check_values_end_the_archive() {
    let long = header(b"77777777777\0", b'L');
    assert!(matches!(sizes(&long).1, tar::End::Cut(_)));
    let mut wrong = header(b"00000000000\0", b'0');
    wrong.extend(header(b"00000000000\0", b'0'));
    wrong[tar::BLOCK_BYTES] = b'x';
    let (members, end) = sizes(&wrong);
    assert_eq!(
        (members.len(), end),
        (1, tar::End::Cut("a header has a wrong check value".into()))
    );
    assert!(!tar::is_header(&vec![b' '; tar::BLOCK_BYTES]) && !tar::is_header(b"short"));
}
