//! A recording whose stores draw a picture on a Bochs display.

use trace_core::RegOffset;
use trace_core::recording::{Access, Bar, EventsBuilder, Hardware, PciFunction, Recording, Space, SpaceKind};
use trace_core::screen::Picture;

/// Width of the screen, pixels.
pub const WIDTH: u32 = 160;
pub const HEIGHT: u32 = 120;
/// Rectangle in the middle that no store writes: left, top, right, bottom; the last two are exclusive.
pub const HOLE: [u32; 4] = [64, 48, 96, 72];
/// Pixel with three stores. The last two follow the stores that draw the picture.
pub const TWICE: [u32; 2] = [20, 10];

/// Returns the colour of a drawn pixel.
pub fn color(x: u32, y: u32) -> u32 {
    let stripe = (x / 20 + y / 15) % 4;
    [0x0020_3040, 0x00d0_8030, 0x0040_a070, 0x00e0_e0d0][stripe as usize]
}

/// Returns a recording that sets a mode, draws the screen row by row except [`HOLE`], and stores to [`TWICE`] twice
/// more. It also contains the picture that the device showed at the end, with one pixel that differs.
pub fn screen_recording() -> Recording {
    let mut r = Recording::default();
    let bar = |number| Bar {
        number,
        ..Bar::default()
    };
    r.set_hardware(&Hardware::Pci(PciFunction {
        vendor: 0x1234,
        device: 0x1111,
        bars: vec![bar(0), bar(2)],
        ..PciFunction::default()
    }));
    for (name, kind, bytes) in [
        ("bar2", SpaceKind::Registers, 0x1000),
        ("bar0", SpaceKind::Framebuffer, 1 << 24),
    ] {
        r.metadata.spaces.push(Space {
            name: name.into(),
            kind,
            bytes,
        });
    }
    let mut b = EventsBuilder::new();
    let mut time = 0;
    let mut write = |space, offset, width, value| {
        time += 1000;
        let access = Access {
            space,
            write: true,
            offset,
            width,
            value,
        };
        b.access(time, 0, access);
    };
    for (index, value) in [(1, WIDTH), (2, HEIGHT), (3, 32), (6, WIDTH), (8, 0), (9, 0), (4, 0x41)] {
        write(0, RegOffset::new(0x500 + 2 * index), 2, u64::from(value));
    }
    let [left, top, right, bottom] = HOLE;
    let mut rgb = Vec::new();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let c = color(x, y);
            rgb.extend([(c >> 16) as u8, (c >> 8) as u8, c as u8]);
            if !((left..right).contains(&x) && (top..bottom).contains(&y)) {
                write(1, RegOffset::new((y * WIDTH + x) * 4), 4, u64::from(c));
            }
        }
    }
    let at = (TWICE[1] * WIDTH + TWICE[0]) * 4;
    write(1, RegOffset::new(at), 4, 0x00ff_0000);
    write(1, RegOffset::new(at), 4, 0x0000_ff00);
    r.events = b.finish();
    r.set_expected_screen(&Picture::new(WIDTH, HEIGHT, rgb).unwrap());
    r
}
