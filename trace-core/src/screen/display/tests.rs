//! Tests of controllers with synthetic register accesses of every width.

use super::*;
use crate::RegOffset;
use crate::recording::{Access, Bar, EventsBuilder, PciFunction, Space};
use crate::screen::{ByteOrder, PixelFormat};

/// Returns a recording of register writes (`true`) and reads to a device.
fn recording(device: (u16, u16), accesses: &[(bool, u32, u8, u64)]) -> Recording {
    let mut r = Recording::default();
    let bar = |number| Bar {
        number,
        ..Bar::default()
    };
    r.set_hardware(&Hardware::Pci(PciFunction {
        vendor: device.0,
        device: device.1,
        bars: vec![bar(0), bar(2)],
        ..PciFunction::default()
    }));
    for (name, kind) in [("bar2", SpaceKind::Registers), ("bar0", SpaceKind::Framebuffer)] {
        r.metadata.spaces.push(Space {
            name: name.into(),
            kind,
            bytes: 1 << 24,
        });
    }
    let mut b = EventsBuilder::new();
    for (i, (write, offset, width, value)) in accesses.iter().enumerate() {
        let access = Access {
            space: 0,
            write: *write,
            offset: RegOffset::new(*offset),
            width: *width,
            value: *value,
        };
        b.access(i as u64, 0, access);
    }
    r.events = b.finish();
    r
}

fn display(device: (u16, u16), accesses: &[(bool, u32, u8, u64)]) -> Display {
    Display::read(&recording(device, accesses), &Progress::new())
        .unwrap()
        .unwrap()
}

const RV100: (u16, u16) = (0x1002, 0x5159);
const BOCHS: (u16, u16) = (0x1234, 0x1111);

/// 640 by 480 of one byte, 640 a row.
const MODE: [(bool, u32, u8, u64); 6] = [
    (true, 0x50, 4, 0x0300_0200),
    (true, 0x200, 4, 0x004f_0063),
    (true, 0x208, 4, 0x01df_020c),
    (true, 0x224, 4, 0x1000),
    (true, 0x228, 4, 0x0001_0000),
    (true, 0x22c, 4, 0x0050_0050),
];

#[test]
fn ati_mode_is_complete_after_its_last_register() {
    let d = display(RV100, &MODE);
    assert_eq!(d.name(), "Radeon RV100");
    assert_eq!(d.framebuffer(), Some(1));
    assert_eq!(d.after(3).mode.screen, Err(ModeError::Unset("CRTC_PITCH")));
    let format = ScreenFormat {
        base: 0x1000,
        pitch: 640,
        width: 640,
        height: 480,
        pixel: PixelFormat::Indexed8,
        order: ByteOrder::Little,
    };
    let shown = d.after(5);
    assert_eq!(shown.mode.screen, Ok(format));
    assert_eq!((shown.since, d.first_screen()), (Some(5), Some(5)));
    assert!(!shown.mode.cursor);
    assert!(shown.palette.is_unknown());
}

#[test]
fn partial_register_writes_change_and_end_the_display_mode() {
    let mut all = MODE.to_vec();
    all.extend([
        (true, 0x51, 1, 0x06),        // 6: four bytes a pixel
        (true, 0x226, 2, 0x0010),     // base 0x101000
        (true, 0x52, 1, 0x01),        // cursor
        (true, 0x22c, 1, 0x60),       // pitch 0x60 * 8 pixels
        (true, 0x50, 4, 0x0300_0100), // four bits a pixel
        (true, 0x53, 1, 0x01),        // off
        (true, 0x53, 1, 0x02),        // VGA
    ]);
    let d = display(RV100, &all);
    let screen = |e| d.after(e).mode.screen;
    assert_eq!(screen(6).unwrap().pixel, PixelFormat::Xrgb8888);
    assert_eq!(screen(6).unwrap().pitch, 640 * 4);
    assert_eq!(screen(7).unwrap().base, 0x10_1000);
    assert!(d.after(8).mode.cursor);
    assert_eq!(screen(9).unwrap().pitch, 0x60 * 8 * 4);
    let what = "the number of bits per pixel";
    assert_eq!(screen(10), Err(ModeError::Unsupported { what, value: 4 }));
    assert!(matches!(screen(11), Err(ModeError::Off(_))));
    assert!(matches!(screen(12), Err(ModeError::Off(_))));
    assert_eq!(d.last_screen(12).unwrap().pitch, 0x60 * 8 * 4);
    assert_eq!(d.last_screen(4), None);
    assert_eq!(d.changes().len(), 4 + 7);
}

#[test]
fn earlier_mode_is_inferred_from_driver_reads() {
    let reads: Vec<_> = MODE.iter().map(|(_, o, w, v)| (false, *o, *w, *v)).collect();
    assert!(display(RV100, &reads).after(5).mode.screen.is_ok());
}

#[test]
fn palette_colours_are_set_in_sequence_with_8_or_6_bits() {
    let mut all = vec![(true, 0x58, 4, 0xff00_0100), (true, 0xb0, 1, 250)];
    all.extend((0..8).map(|i| (true, 0xb4, 4, 0x10_2030 + i)));
    all.push((true, 0x59, 1, 0));
    all.push((true, 0xb0, 4, 0x0007));
    all.push((true, 0xb4, 4, 0x3f_0020));
    // The index register gives access to a palette colour, and to the framebuffer.
    all.extend([(true, 0x0, 4, 0xb4), (true, 0x4, 4, 0x3f_3f3f)]);
    all.extend([(true, 0x0, 4, 0x8000_0000), (true, 0x4, 4, 1)]);
    // These writes go to the second palette of a Radeon.
    all.extend([(true, 0x7c, 4, 0x20), (true, 0xb4, 4, 0)]);
    let d = display(RV100, &all);
    let p = d.after(u64::MAX).palette;
    assert_eq!(p.color(250), Some([0x10, 0x20, 0x30]));
    assert_eq!(p.color(1), Some([0x10, 0x20, 0x37]));
    assert_eq!(p.color(2), None);
    assert_eq!(p.color(7), Some([0xff, 0, 0x82]));
    assert_eq!(p.color(8), Some([0xff; 3]));
    assert_eq!(p.color(9), None);
    assert_eq!(d.after(2).palette.color(251), None);
    assert_eq!(d.after(3).palette.color(251), Some([0x10, 0x20, 0x31]));
    assert_eq!(d.engine_runs(u64::MAX), 1);
}

#[test]
fn palette_is_correct_at_every_event() {
    let mut all = vec![(true, 0x58, 4, 0x100), (true, 0xb0, 1, 0)];
    all.extend((0..3000).map(|i| (true, 0xb4, 4, i)));
    let d = display(RV100, &all);
    for event in [1u64, 2, 3, 257, 258, 513, 514, 515, 1025, 3001] {
        let set = event - 1;
        for index in 0..=255u8 {
            // The last write to this index sets the colour.
            let n = (0..set).rev().find(|n| n % 256 == u64::from(index));
            let color = n.map(|n| [(n >> 16) as u8, (n >> 8) as u8, n as u8]);
            assert_eq!(d.after(event).palette.color(index), color, "{event} {index}");
        }
    }
}

#[test]
fn drawing_engine_commands_are_counted() {
    let d = display(
        RV100,
        &[
            (true, 0x1438, 4, 0x310_0000),
            (true, 0x1598, 4, 0x500_0010),
            (true, 0x140e, 2, 1),
            (false, 0x1598, 4, 0),
            (true, 0x1410, 4, 5),
        ],
    );
    assert_eq!([0, 1, 2, 4].map(|e| d.engine_runs(e)), [0, 1, 2, 2]);
}

#[test]
fn a_mode_of_bochs_follows_its_sixteen_bit_registers() {
    let d = display(
        BOCHS,
        &[
            (true, 0x508, 2, 0),
            (true, 0x506, 2, 32),
            (true, 0x502, 2, 1280),
            (true, 0x504, 2, 800),
            (true, 0x50c, 2, 1600),
            (true, 0x510, 4, 2 << 16 | 16),
            (true, 0x508, 2, 0x41),
            (true, 0x506, 1, 16),
            (true, 0x604, 4, 0xbebe_bebe),
            (true, 0x506, 2, 4),
            (true, 0x508, 1, 0x40),
        ],
    );
    assert!(matches!(d.after(5).mode.screen, Err(ModeError::Off(_))));
    let f = d.after(6).mode.screen.unwrap();
    assert_eq!(
        (f.width, f.height, f.pitch, f.pixel),
        (1280, 800, 6400, PixelFormat::Xrgb8888)
    );
    assert_eq!(f.base, 2 * 6400 + 16 * 4);
    assert_eq!(d.after(7).mode.screen.unwrap().pixel, PixelFormat::Rgb565);
    assert_eq!(d.after(8).mode.screen.unwrap().order, ByteOrder::Big);
    assert!(matches!(
        d.after(9).mode.screen,
        Err(ModeError::Unsupported { value: 4, .. })
    ));
    assert!(matches!(d.after(10).mode.screen, Err(ModeError::Off(_))));
}

#[test]
fn unknown_device_has_no_display() {
    assert!(
        Display::read(&recording((1, 2), &[]), &Progress::new())
            .unwrap()
            .is_none()
    );
    assert!(
        Display::read(&Recording::default(), &Progress::new())
            .unwrap()
            .is_none()
    );
    let p = Progress::new();
    p.cancel();
    let cancelled = Display::read(&recording(BOCHS, &[(true, 0x508, 2, 1)]), &p);
    assert!(matches!(cancelled, Err(DisplayError::Cancelled(_))));
}
