//! How long the screen at any event takes: building the index for seeks, seeking, scrubbing, drawing, finding the
//! stores of a pixel; next to a memory copy of the framebuffer in the same run.
//!
//! The recording is made up as a text console draws: a screen of 1280 by 800 bytes cleared once, then lines of glyphs
//! four bytes at a time, row after row, and the whole screen anew whenever it is full. 600,000 stores are what the
//! published logs of stock drivers hold; the other length shows what grows with it.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

use divan::Bencher;
use std::hint::black_box;
use trace_core::RegOffset;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, Recording, Space, SpaceKind};
use trace_core::screen::{
    ByteOrder, Framebuffer, FramebufferState, Palette, PixelFormat, RenderedScreen, ScreenFormat,
};

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 800;
const STORES: [u64; 2] = [600_000, 10_000_000];
const FORMAT: ScreenFormat = ScreenFormat {
    base: 0,
    pitch: WIDTH,
    width: WIDTH,
    height: HEIGHT,
    pixel: PixelFormat::Indexed8,
    order: ByteOrder::Little,
};

fn recording(stores: u64) -> Recording {
    let mut r = Recording::default();
    r.metadata.spaces.push(Space {
        name: "bar0".into(),
        kind: SpaceKind::Framebuffer,
        bytes: 1 << 24,
    });
    let mut b = EventsBuilder::new();
    let mut n = 0;
    let mut store = |b: &mut EventsBuilder, offset: u32, value: u64| {
        let access = Access {
            space: 0,
            write: true,
            offset: RegOffset::new(offset),
            width: 4,
            value,
        };
        b.access(n, 0, access);
        n += 1;
        n < stores
    };
    'all: for screen in 0u64.. {
        for offset in (0..WIDTH * HEIGHT).step_by(4) {
            if screen == 0 && !store(&mut b, offset, 0) {
                break 'all;
            }
        }
        for line in 0..HEIGHT / 16 {
            for glyph in 0..WIDTH / 8 {
                for part in 0..32 {
                    let at = (line * 16 + part / 2) * WIDTH + glyph * 8 + part % 2 * 4;
                    let ink = (screen + u64::from(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
                    if !store(&mut b, at, [0, 0x0707_0707, 0x0007_0700][(ink % 3) as usize]) {
                        break 'all;
                    }
                }
            }
        }
    }
    r.events = b.finish();
    r
}

fn framebuffer(stores: u64) -> Framebuffer {
    Framebuffer::build(&recording(stores), 0, &Progress::new()).unwrap()
}

/// Places of a recording in no order.
fn places(stores: u64) -> impl Iterator<Item = u64> {
    (1u64..).map(move |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % stores)
}

/// The measure: as many bytes as the screen has, copied.
#[divan::bench]
fn a_memory_copy_of_the_screen(b: Bencher<'_, '_>) {
    let from = vec![7u8; (WIDTH * HEIGHT) as usize];
    let mut to = vec![0u8; from.len()];
    b.bench_local(|| {
        to.copy_from_slice(black_box(&from));
        black_box(to[9])
    });
}

#[divan::bench(args = STORES, sample_count = 10)]
fn build(b: Bencher<'_, '_>, stores: u64) {
    let r = recording(stores);
    b.bench_local(|| Framebuffer::build(&r, 0, &Progress::new()).unwrap().stores());
}

/// To an event anywhere, from one anywhere.
#[divan::bench(args = STORES)]
fn seek(b: Bencher<'_, '_>, stores: u64) {
    let fb = framebuffer(stores);
    let mut state = FramebufferState::default();
    let mut places = places(stores);
    b.bench_local(|| {
        state.seek(&fb, places.next().unwrap());
        state.stores()
    });
}

/// A hundredth of a screen's stores further, as dragging along the timeline does.
#[divan::bench(args = STORES)]
fn scrub(b: Bencher<'_, '_>, stores: u64) {
    let fb = framebuffer(stores);
    let mut state = FramebufferState::default();
    b.bench_local(|| {
        let next = state.next_event() + 2560;
        state.seek(&fb, if next < stores { next } else { 0 });
        state.stores()
    });
}

/// Bytes into colours.
#[divan::bench]
fn draw(b: Bencher<'_, '_>) {
    let fb = framebuffer(STORES[0]);
    let state = fb.after(STORES[0]);
    let palette = Palette::grey();
    b.bench_local(|| RenderedScreen::new(&state, &FORMAT, &palette).known().len());
}

/// Every store to one pixel.
#[divan::bench(args = STORES)]
fn stores_to_a_pixel(b: Bencher<'_, '_>, stores: u64) {
    let fb = framebuffer(stores);
    b.bench_local(|| {
        fb.stores_to(500_000..500_001, 1 << 20, &Progress::new())
            .unwrap()
            .list
            .len()
    });
}

/// The last store to a pixel before an event anywhere.
#[divan::bench(args = STORES)]
fn last_store(b: Bencher<'_, '_>, stores: u64) {
    let fb = framebuffer(stores);
    let mut places = places(stores);
    b.bench_local(|| fb.last_store(500_000..500_001, places.next().unwrap()));
}

fn main() {
    divan::main();
}
