//! Tests of the framebuffer against a plain array of bytes, and of recordings of real drivers against their pictures.

use super::framebuffer::Framebuffer;
use super::*;
use crate::RegOffset;
use crate::progress::Progress;
use crate::recording::{Access, EventsBuilder, Recording, Space, SpaceKind, UndecodedRow};

/// The state of bytes without pages and checkpoints.
type Plain = Vec<Option<u8>>;

const BYTES: usize = 5 * 4096;

fn space(name: &str, kind: SpaceKind) -> Space {
    Space {
        name: name.into(),
        kind,
        bytes: BYTES as u64,
    }
}

/// Returns a recording of marks, and of reads and writes of all widths to registers and the framebuffer.
fn recording(events: u64) -> Recording {
    let mut r = Recording::default();
    r.metadata.spaces = vec![
        space("bar2", SpaceKind::Registers),
        space("bar0", SpaceKind::Framebuffer),
    ];
    let mut b = EventsBuilder::new();
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    for time in 0..events {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let width = 1u8 << (x >> 8 & 3);
        let access = Access {
            space: u8::from(x & 7 != 0),
            write: x >> 3 & 7 != 0,
            offset: RegOffset::new((x >> 16) as u32 % (BYTES as u32 - 8)),
            width,
            value: (x >> 20) & (u64::MAX >> (64 - 8 * u32::from(width))),
        };
        match x >> 60 {
            0 => b.mark(time, "here"),
            _ => b.access(time, 0, access),
        }
    }
    r.events = b.finish();
    r
}

/// Returns the bytes before event `end`.
fn plain(r: &Recording, end: usize) -> Plain {
    let mut out = vec![None; BYTES];
    for (_, a) in r.events.accesses(0..end).filter(|(_, a)| a.write && a.space == 1) {
        for (i, b) in a.value.to_le_bytes().iter().take(usize::from(a.width)).enumerate() {
            out[a.offset.get() as usize + i] = Some(*b);
        }
    }
    out
}

fn read_state(state: &FramebufferState) -> Plain {
    let (mut bytes, mut known) = (vec![0; BYTES], vec![StoreState::Never; BYTES]);
    state.read(0, &mut bytes, &mut known);
    let each = bytes.iter().zip(known);
    each.map(|(b, k)| (k == StoreState::Stored).then_some(*b)).collect()
}

#[test]
fn framebuffer_checkpoints_agree_with_step_by_step_replay() {
    let r = recording(2500);
    let n = r.events.len();
    // With room for every page, and with so little that intervals double again and again.
    for budget in [usize::MAX, 40 * 5200, 1] {
        let fb = Framebuffer::with_budget(&r, 1, 64, budget, &Progress::new()).unwrap();
        if budget == 1 {
            assert!(fb.longest_replay() >= 1024, "{fb:?}");
        }
        let mut forward = FramebufferState::default();
        let mut back = FramebufferState::default();
        for end in (0..=n).step_by(37).chain([n]) {
            let truth = plain(&r, end);
            forward.seek(&fb, end as u64);
            assert!(read_state(&forward) == truth, "forward to {end}, budget {budget}");
            back.seek(&fb, (n - end) as u64);
            assert!(
                read_state(&back) == plain(&r, n - end),
                "back to {}, budget {budget}",
                n - end
            );
            let stores = r.events.accesses(0..end).filter(|(_, a)| a.write && a.space == 1);
            assert_eq!(forward.stores(), stores.count() as u64);
        }
        assert_eq!(fb.after(u64::MAX).stores(), fb.stores());
    }
}

#[test]
fn stores_to_bytes_are_listed_in_order_with_values() {
    let r = recording(4000);
    let fb = Framebuffer::with_budget(&r, 1, 256, usize::MAX, &Progress::new()).unwrap();
    for range in [0u64..4, 4094..4098, 4096..4097, 9000..9003, 20470..20480] {
        let expected: Vec<u64> = (r.events.accesses(0..r.events.len()))
            .filter(|(_, a)| a.write && a.space == 1)
            .filter(|(_, a)| {
                let at = u64::from(a.offset.get());
                let end = range.end.min(range.start + 8);
                at < end && at + u64::from(a.width) > range.start
            })
            .map(|(e, _)| e as u64)
            .collect();
        let found = fb.stores_to(range.clone(), 1000, &Progress::new()).unwrap();
        assert!(!found.more);
        assert_eq!(found.list.iter().map(|s| s.event).collect::<Vec<_>>(), expected);
        for (i, s) in found.list.iter().enumerate() {
            let truth = plain(&r, s.event as usize + 1);
            for (byte, at) in (range.start..range.end.min(range.start + 8)).enumerate() {
                let now = (s.known[byte] == StoreState::Stored).then_some(s.bytes[byte]);
                assert_eq!(now, truth[at as usize], "byte {at:#x} after event {}", s.event);
            }
            assert_eq!(fb.last_store(range.clone(), s.event + 1), Some(s.event));
            assert_eq!(
                fb.last_store(range.clone(), s.event),
                i.checked_sub(1).map(|i| expected[i])
            );
            assert_eq!(fb.next_store(range.clone(), s.event), expected.get(i + 1).copied());
        }
        if let Some(two) = expected.get(..2) {
            let few = fb.stores_to(range.clone(), 2, &Progress::new()).unwrap();
            assert_eq!(few.list.iter().map(|s| s.event).collect::<Vec<_>>(), two);
            assert_eq!(few.more, expected.len() > 2);
        }
    }
    assert_eq!(fb.last_store(u64::MAX..u64::MAX, 9), None);
    assert_eq!(fb.stores_to(8..8, 9, &Progress::new()), Ok(Stores::default()));
}

#[test]
fn undecoded_bytes_are_lost_until_stored_again() {
    use StoreState::{Lost, Never, Stored};
    let mut r = recording(0);
    let mut b = EventsBuilder::new();
    let store = |b: &mut EventsBuilder, offset, value| {
        let access = Access {
            space: 1,
            write: true,
            offset,
            width: 4,
            value,
        };
        b.access(0, 0, access);
    };
    store(&mut b, RegOffset::ZERO, 0x0403_0201);
    store(&mut b, RegOffset::new(4), 0x0807_0605);
    // Two bytes at 2 and, of unknown width, eight at 4094; a read and another space do not count.
    b.undecoded(0, 0, 1, UndecodedRow::from_access(RegOffset::new(2), true, 2));
    b.undecoded(0, 0, 1, UndecodedRow::from_instruction(RegOffset::new(4094), 0));
    b.undecoded(0, 0, 1, UndecodedRow::from_access(RegOffset::new(4), false, 4));
    b.undecoded(0, 0, 0, UndecodedRow::from_access(RegOffset::new(4), true, 4));
    store(&mut b, RegOffset::new(3), 0x0d0c_0b0a);
    r.events = b.finish();
    for interval in [1, 3, 100] {
        let fb = Framebuffer::with_budget(&r, 1, interval, usize::MAX, &Progress::new()).unwrap();
        let at = |event: u64, offset: u64| {
            let (mut bytes, mut known) = ([0; 8], [Never; 8]);
            fb.after(event).read(offset, &mut bytes, &mut known);
            (bytes, known)
        };
        assert_eq!(at(1, 0), ([1, 2, 3, 4, 5, 6, 7, 8], [Stored; 8]));
        assert_eq!(at(2, 0).1, [Stored, Stored, Lost, Lost, Stored, Stored, Stored, Stored]);
        assert_eq!(at(5, 4092).1, [Never, Never, Lost, Lost, Lost, Lost, Lost, Lost]);
        assert_eq!(at(5, 4100).1, [Lost, Lost, Never, Never, Never, Never, Never, Never]);
        let (bytes, known) = at(6, 0);
        assert_eq!(known, [Stored, Stored, Lost, Stored, Stored, Stored, Stored, Stored]);
        assert_eq!(bytes[3..], [0x0a, 0x0b, 0x0c, 0x0d, 8]);
        let found = fb.stores_to(2..4, 9, &Progress::new()).unwrap().list;
        assert_eq!(
            found.iter().map(|s| (s.event, s.value)).collect::<Vec<_>>(),
            [(0, Some(0x0403_0201)), (2, None), (6, Some(0x0d0c_0b0a))]
        );
        assert_eq!(found[1].known[..2], [Lost, Lost]);
        assert_eq!(fb.last_store(4096..4097, 7), Some(3));
    }
}

#[test]
fn too_many_pages_are_an_error_with_the_event() {
    let mut r = recording(0);
    let mut b = EventsBuilder::new();
    for page in 0..=MAX_PAGES as u32 {
        let access = Access {
            space: 1,
            write: true,
            offset: RegOffset::new(page * 4096),
            width: 1,
            value: 1,
        };
        b.access(0, 0, access);
    }
    r.events = b.finish();
    let e = Framebuffer::build(&r, 1, &Progress::new()).unwrap_err();
    assert_eq!(
        e,
        FramebufferError::Pages {
            event: MAX_PAGES as u64
        }
    );
    let p = Progress::new();
    p.cancel();
    let e = Framebuffer::build(&r, 1, &p).unwrap_err();
    assert!(matches!(e, FramebufferError::Cancelled(_)));
}

#[test]
fn framebuffer_space_with_most_stores_is_first() {
    let mut r = recording(0);
    r.metadata.spaces.push(space("bar1", SpaceKind::Framebuffer));
    let mut b = EventsBuilder::new();
    for (space, write) in [(1, true), (2, true), (2, true), (1, false), (1, false), (0, true)] {
        let access = Access {
            space,
            write,
            offset: RegOffset::ZERO,
            width: 4,
            value: 1,
        };
        b.access(0, 0, access);
    }
    r.events = b.finish();
    assert_eq!(framebuffer_spaces(&r, &Progress::new()), Ok(vec![2, 1]));
    assert_eq!(framebuffer_spaces(&Recording::default(), &Progress::new()), Ok(vec![]));
}

#[test]
fn pixels_are_drawn_where_all_their_bytes_are_known() {
    let mut r = recording(0);
    let mut b = EventsBuilder::new();
    let mut store = |offset, width, value| {
        let access = Access {
            space: 1,
            write: true,
            offset,
            width,
            value,
        };
        b.access(0, 0, access);
    };
    // Two rows of three pixels of two bytes, pitch 8.
    store(RegOffset::new(4094), 8, 0x0000_07e0_f800_ffff);
    store(RegOffset::new(4102), 2, 0x001f);
    store(RegOffset::new(4104), 1, 0x00);
    r.events = b.finish();
    let fb = Framebuffer::build(&r, 1, &Progress::new()).unwrap();
    let format = ScreenFormat {
        base: 4094,
        pitch: 8,
        width: 3,
        height: 2,
        pixel: PixelFormat::Rgb565,
        order: ByteOrder::Little,
    };
    let d = RenderedScreen::new(&fb.after(2), &format, &Palette::default());
    assert_eq!(d.pixel(0, 0), Some([255; 3]));
    assert_eq!(d.pixel(1, 0), Some([255, 0, 0]));
    assert_eq!(d.pixel(2, 0), Some([0, 255, 0]));
    assert_eq!(d.pixel(0, 1), Some([0, 0, 255]));
    assert_eq!((d.pixel(1, 1), d.known_at(1, 1)), (None, Some(StoreState::Never)));
    assert_eq!((d.pixel(3, 0), d.known_at(0, 2)), (None, None));
    let counts = d.counts();
    assert_eq!((counts.known, counts.never, counts.lost), (4, 2, 0));
    let p = d.to_picture([9; 3]).unwrap();
    assert_eq!(p.pixel(1, 1), Some([9; 3]));
    assert_eq!(d.to_rgba()[4 * 4..4 * 4 + 4], [0, 0, 0, 0]);
    let indexed = ScreenFormat {
        pixel: PixelFormat::Indexed8,
        ..format
    };
    assert_eq!(
        RenderedScreen::new(&fb.after(2), &indexed, &Palette::default())
            .counts()
            .known,
        0
    );
    assert_eq!(
        RenderedScreen::new(&fb.after(2), &indexed, &Palette::grey()).pixel(2, 0),
        Some([0; 3])
    );
}
