//! Tests of the windows of a log.

use super::*;

const fn bar(bar: u8) -> Owner {
    Owner::Bar { function: 0, bar }
}

fn guess(address: u64) -> (u64, u64, bool) {
    find_mapped_range(&[], address)
}

#[test]
fn addresses_map_to_non_overlapping_mmio_regions() {
    let mut w = MmioRegions::default();
    for (number, base, bytes) in [
        (0, 0xfd00_0000, 0x100_0000),
        (2, 0xfebf_0000, 0x4000),
        (3, 0xfebf_1000, 0x4000),
        (4, 0xfebe_f000, 0x4000),
    ] {
        w.add(bar(number), base, bytes, Extent::Fixed);
    }
    assert_eq!(w.find(0xfd00_0000), Some((0, 0)));
    assert_eq!(w.find(0xfdff_ffff), Some((0, 0xff_ffff)));
    assert_eq!(w.find(0xfebf_3fff), Some((1, 0x3fff)));
    assert_eq!(w.find(0xfebe_ffff), Some((2, 0xfff)));
    assert_eq!((w.find(0xfe00_0000), w.find(0), w.find(u64::MAX)), (None, None, None));
    assert_eq!(
        w.find_or_add(0xfebf_4010, (0xfebf_0000, 0xfebf_ffff, false)),
        Some((3, 0x10))
    );
    assert_eq!(w.find_or_add(u64::MAX, (u64::MAX - 9, u64::MAX, false)), Some((4, 9)));
    let mut finder = Finder::new(&w);
    for address in [0xfebf_4010, 0xfebf_4011, 0xfd00_0001, 0xfebf_0000, 3, u64::MAX] {
        assert_eq!(finder.find(address), w.find(address), "{address:#x}");
    }
}

#[test]
fn a_placed_window_moves_and_ends_older_ones() {
    let mut w = MmioRegions::default();
    w.place(bar(0), 0xfebe_0000, 0x2_0000);
    w.place(bar(1), 0xfebc_0000, 0x2_0000);
    assert_eq!(
        (w.find(0xfebe_0010), w.find(0xfebc_0010)),
        (Some((0, 0x10)), Some((1, 0x10)))
    );
    w.place(bar(0), 0xfebc_0000, 0x2_0000);
    assert_eq!((w.find(0xfebe_0010), w.find(0xfebc_0010)), (None, Some((0, 0x10))));
    // The second window keeps the part that the first one leaves.
    w.place(bar(1), 0xfebb_0000, 0x2_0000);
    assert_eq!(
        (w.find(0xfebc_0010), w.find(0xfebd_0010)),
        (Some((1, 0x1_0010)), Some((0, 0x1_0010)))
    );
    assert_eq!(w.remove(bar(1)), [1]);
    assert_eq!((w.find(0xfebb_0010), w.all().len()), (None, 2));
}

#[test]
fn adjacent_mmio_regions_are_joined() {
    let mut w = MmioRegions::default();
    w.add(Owner::Memory, 0xfb00_0000, 0x1000, Extent::Fixed);
    let addresses = [
        0xfa0f_0008u64,
        0xfa00_0010,
        0x18_003c_0010,
        0xfa9e_0004,
        0xfb10_0000,
        0xfb20_0000,
    ];
    let found: Vec<_> = addresses
        .iter()
        .map(|a| w.find_or_add(*a, guess(*a)).unwrap())
        .collect();
    // A window grows upwards. One further down is another window until they are joined. A mapped region stays
    // separate, and separates its neighbours.
    assert_eq!(
        found,
        [(1, 8), (2, 0x10), (3, 0x10), (1, 0x8f_0004), (4, 0), (4, 0x10_0000)]
    );
    w.count(&found.iter().map(|f| f.0).collect::<Vec<_>>());
    assert_eq!(w.join().unwrap(), [(0, 0), (2, 0xf_0000), (2, 0), (3, 0), (4, 0)]);
    let all: Vec<(u64, u64, u64)> = w.all().iter().map(|w| (w.first, w.last, w.accesses)).collect();
    assert_eq!((all[2], all[1].2), ((0xfa00_0000, 0xfa9e_ffff, 3), 0));
    assert_eq!(all[4], (0xfb10_0000, 0xfb20_ffff, 2));
    assert!(MmioRegions::default().join().is_none());
}

#[test]
fn windows_without_begin_start_at_the_page_of_their_lowest_access() {
    let mut w = MmioRegions::default();
    w.find_or_add(0xffff_c900_0012_3190, guess(0xffff_c900_0012_3190))
        .unwrap();
    let growing = w
        .add_separate(Owner::Accessors { function: None }, 0, 1, Extent::Growing)
        .unwrap();
    let moved = w.fit(&[Some((0x3190, 0x33ff)), Some((0x10, 0x5b57))]).unwrap();
    assert_eq!(moved, [(0, 0x3000u32.wrapping_neg()), (growing, 0)]);
    let all: Vec<_> = w.all().iter().map(|w| (w.first, w.last)).collect();
    assert_eq!(all, [(0xffff_c900_0012_3000, 0xffff_c900_0012_3fff), (0, 0x7fff)]);
}

#[test]
fn a_range_beyond_32_bits_is_cut() {
    let mut w = MmioRegions::default();
    w.add(bar(0), 0x80_0000_0000, 3 * REACH, Extent::Fixed);
    assert_eq!(w.find(0x80_ffff_ffff), Some((0, u32::MAX)));
    assert_eq!(w.find(0x82_0000_0004), Some((2, 4)));
    w.add(Owner::Memory, u64::MAX - 15, 64, Extent::Fixed);
    assert_eq!(w.find(u64::MAX), Some((3, 15)));
    w.add(Owner::Memory, 0, u64::MAX, Extent::Fixed);
    assert_eq!(
        w.all().iter().filter(|w| w.owner == Owner::Memory).count() as u64,
        1 + MAX_PARTS
    );
    for n in 0..10_000 {
        let at = 0x90_0000_0000 + n * 0x1_0000;
        w.find_or_add(at, (at, at, false));
    }
    assert!(w.all().len() <= MAX_WINDOWS);
}

/// An access keeps a window, however many ranges there are.
#[test]
fn guessed_windows_are_enough_for_many_ranges() {
    let mut w = MmioRegions::default();
    for n in 0..6000u64 {
        // From the top down, so that no window grows.
        let at = 0x1000_0000_0000 - n * 0x200_0000;
        let found = w.find_or_add(at, guess(at));
        assert!(found.is_some() || n >= MAX_WINDOWS as u64, "{n}");
    }
    w.join().unwrap();
    assert!(w.all().iter().filter(|w| w.first <= w.last).count() <= MAX_WINDOWS);
}
