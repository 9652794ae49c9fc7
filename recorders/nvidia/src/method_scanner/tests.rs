//! Tests of the scanner of methods.

use super::*;

fn increasing(subchannel: u32, method: u32, values: &[u32]) -> Vec<u32> {
    let header = 1 << 29 | (values.len() as u32) << 16 | subchannel << 13 | method >> 2;
    [&[header], values].concat()
}

fn sources(scanner: &mut MethodScanner, words: &[u32]) -> Vec<(u64, u64)> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut found = Vec::new();
    scanner.scan(&bytes, &mut |memory| {
        if let MemoryUse::CopySource(s) = memory {
            found.push((s.va.0, s.bytes));
        }
    });
    found
}

#[test]
fn copy_of_one_line() {
    let mut scanner = MethodScanner::default();
    let words = [
        increasing(4, 0, &[0xc8b5]),
        increasing(4, 0x400, &[0x7f, 0x1000, 0, 0x9000]),
        increasing(4, 0x418, &[0x64, 7]),
        increasing(4, 0x300, &[0x182]),
    ]
    .concat();
    assert_eq!(sources(&mut scanner, &words), [(0x7f_0000_1000, 0x64)]);
    // The values stay: an immediate launch with another length.
    let again = [
        increasing(4, 0x418, &[8]),
        vec![4 << 29 | 0x182 << 16 | 4 << 13 | 0x300 >> 2],
    ]
    .concat();
    assert_eq!(sources(&mut scanner, &again), [(0x7f_0000_1000, 8)]);
    // A semaphore without transfer, and a physical source.
    assert_eq!(sources(&mut scanner, &increasing(4, 0x300, &[0x14])), []);
    assert_eq!(sources(&mut scanner, &increasing(4, 0x300, &[0x1182])), []);
}

#[test]
fn copies_of_lines() {
    let mut scanner = MethodScanner::default();
    let copy = |pitch: u32, line: u32, lines: u32| {
        [
            increasing(4, 0x400, &[0, 0x1000]),
            increasing(4, 0x410, &[pitch, 0, line, lines]),
            increasing(4, 0x300, &[0x382]),
        ]
        .concat()
    };
    assert_eq!(sources(&mut scanner, &copy(16, 16, 4)), [(0x1000, 64)]);
    assert_eq!(sources(&mut scanner, &copy(0x100, 16, 2)), [(0x1000, 16), (0x1100, 16)]);
    assert_eq!(sources(&mut scanner, &copy(0x100, 16, 0)), []);
    assert_eq!(
        sources(&mut scanner, &copy(16_u32.wrapping_neg(), 16, 2)),
        [(0x1000, 16), (0xff0, 16)]
    );
    let span = 0x100 * 0x1_ffff + 16;
    assert_eq!(sources(&mut scanner, &copy(0x100, 16, 0x2_0000)), [(0x1000, span)]);
}

#[test]
fn fills_read_nothing() {
    let mut scanner = MethodScanner::default();
    let with_components = |components: u32| {
        [
            increasing(4, 0x404, &[0x1000]),
            increasing(4, 0x418, &[16]),
            increasing(4, 0x708, &[components]),
            increasing(4, 0x300, &[0x582]),
        ]
        .concat()
    };
    // One component of four bytes: a constant, then the first one of the source.
    assert_eq!(sources(&mut scanner, &with_components(0x0003_0004)), []);
    assert_eq!(sources(&mut scanner, &with_components(0x0003_0000)), [(0x1000, 64)]);
}

#[test]
fn methods_of_other_classes_are_no_copies() {
    let mut scanner = MethodScanner::default();
    let launch = |s| {
        [
            increasing(s, 0x404, &[0x1000]),
            increasing(s, 0x418, &[16]),
            increasing(s, 0x300, &[0x182]),
        ]
    };
    assert_eq!(sources(&mut scanner, &launch(1).concat()), []);
    assert_eq!(sources(&mut scanner, &increasing(1, 0, &[0xc8b5])), []);
    assert_eq!(sources(&mut scanner, &launch(1).concat()), [(0x1000, 16)]);
    assert_eq!(sources(&mut scanner, &increasing(4, 0, &[0xcbc0])), []);
    assert_eq!(sources(&mut scanner, &launch(4).concat()), []);
}

#[test]
fn data_words_are_no_headers() {
    let mut scanner = MethodScanner::default();
    let launch = increasing(4, 0x300, &[0x182]);
    // A non-incrementing header takes the words, and so does an old one; the last header is cut.
    let upload = [vec![3 << 29 | 2 << 16 | 1 << 13 | 0x1b4 >> 2], launch.clone()].concat();
    assert_eq!(sources(&mut scanner, &upload), []);
    let old = [vec![2 << 18 | 1 << 13 | 0x100], launch.clone()].concat();
    assert_eq!(sources(&mut scanner, &old), []);
    assert_eq!(sources(&mut scanner, &[0, 1 << 29 | 9 << 16 | 4 << 13 | 0x100, 0]), []);
    // Words after the end of the segment.
    let words = [increasing(4, 0x418, &[16]), vec![7 << 29], launch].concat();
    assert_eq!(sources(&mut scanner, &words), []);
}

/// Returns the ranges that commands write, and the addresses of descriptors, in order.
fn targets(scanner: &mut MethodScanner, words: &[u32]) -> Vec<(u64, Option<u64>)> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut found = Vec::new();
    scanner.scan(&bytes, &mut |memory| match memory {
        MemoryUse::CopySource(_) => {}
        MemoryUse::Written(range) => found.push((range.va.0, Some(range.bytes))),
        MemoryUse::Descriptor(va) => found.push((va.0, None)),
    });
    found
}

#[test]
fn uploads_write_and_launches_name_descriptors() {
    let mut scanner = MethodScanner::default();
    // The end of libcuda's launch: 384 bytes of a descriptor, then its launch. One data word looks like a launch.
    let mut data = vec![3 << 29 | 96 << 16 | 1 << 13 | 0x1b4 >> 2];
    data.extend([0x2001_20ad; 96]);
    let words = [
        increasing(1, 0x188, &[2, 0x04e0_c800]),
        increasing(1, 0x180, &[0x180, 1]),
        increasing(1, 0x1b0, &[0x41]),
        data,
        increasing(1, 0x2b4, &[0x0204_e0c8]),
        increasing(1, 0x2c0, &[0xa]),
    ]
    .concat();
    let upload = (0x2_04e0_c800, Some(0x180));
    assert_eq!(targets(&mut scanner, &words), [upload, (0x2_04e0_c800, None)]);
    let inline = increasing(1, 0x318, &[0x4000_0000, 0x0204_e0c8, 1, 2]);
    assert_eq!(targets(&mut scanner, &inline), [upload]);
    // Another class on the subchannel launches nothing.
    assert_eq!(targets(&mut scanner, &increasing(1, 0, &[0xcb97])), []);
    assert_eq!(targets(&mut scanner, &increasing(1, 0x2b4, &[1])), []);
}

#[test]
fn copies_write_their_targets() {
    let mut scanner = MethodScanner::default();
    let copy = |launch: u32, lines: u32| {
        [
            increasing(4, 0x400, &[0, 0x1000, 0x7f, 0x8000, 0x100, 0x200, 0x40, lines]),
            increasing(4, 0x300, &[launch]),
        ]
        .concat()
    };
    assert_eq!(targets(&mut scanner, &copy(0x182, 9)), [(0x7f_0000_8000, Some(0x40))]);
    assert_eq!(targets(&mut scanner, &copy(0x382, 3)), [(0x7f_0000_8000, Some(0x440))]);
    // A semaphore alone, and a physical target.
    assert_eq!(targets(&mut scanner, &copy(0x14, 1)), []);
    assert_eq!(targets(&mut scanner, &copy(0x2182, 1)), []);
    // A fill with one constant of four bytes.
    let fill = [increasing(4, 0x708, &[0x0003_0004]), copy(0x582, 1)].concat();
    assert_eq!(targets(&mut scanner, &fill), []);
}
