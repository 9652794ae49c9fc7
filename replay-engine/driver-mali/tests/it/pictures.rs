//! Tests that run the recorded image and texture programs again with pictures in their empty buffers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::recordings::find_recordings;
use device_mali::texture::{f16_to_f32, f32_to_f16};
use device_mali::{Model, SoftwareMali};
use driver_mali::chains::record_folder;
use std::path::Path;
use trace_core::{GpuVa, Recording, mmu};

const SIDE: usize = 16;
/// Pictures with 8 bits per component.
type Picture = Vec<[u8; 4]>;

/// Returns the index of a texel in a tile of 16x16, bit by bit from the definition of the order.
fn tile_index(x: usize, y: usize) -> usize {
    (0..4).fold(0, |at, b| {
        let (xb, yb) = (x >> b & 1, y >> b & 1);
        at | (xb ^ yb) << (2 * b) | yb << (2 * b + 1)
    })
}

fn picture() -> Picture {
    let mut state = 0x1234_5678u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..SIDE * SIDE).map(|_| std::array::from_fn(|_| next())).collect()
}

/// Copies a folder and puts a picture into the empty buffer at an address.
fn copy_with_picture(folder: &Path, va: &str, picture: &Picture) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let from = entry.unwrap().path();
        let to = copy.path().join(from.file_name().unwrap());
        std::fs::write(to, std::fs::read(&from).unwrap()).unwrap();
    }
    let mut bytes = vec![0; 4096];
    for (y, x) in (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| (y, x))) {
        bytes[4 * tile_index(x, y)..4 * tile_index(x, y) + 4].copy_from_slice(&picture[y * SIDE + x]);
    }
    std::fs::write(copy.path().join("picture.bin"), bytes).unwrap();
    let submit = copy.path().join("submit000.json");
    let text = std::fs::read_to_string(&submit).unwrap();
    let lines: Vec<String> = text
        .lines()
        .map(|l| {
            if l.contains(&format!("\"va\": \"{va}\"")) {
                assert!(l.contains("\"all_zero\": true"), "{l}");
                l.replace("\"all_zero\": true", "\"all_zero\": false")
                    .replace("\"file\": null", "\"file\": \"picture.bin\"")
            } else {
                l.to_owned()
            }
        })
        .collect();
    let changed = lines.join("\n");
    assert_ne!(changed, text.trim_end());
    std::fs::write(submit, changed).unwrap();
    copy
}

fn run(folder: &Path) -> Recording {
    let mut device = SoftwareMali::new(Model::G71);
    let done = record_folder(folder, &mut device).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    done.recording
}

fn bytes(r: &Recording, va: u64, count: u64) -> Vec<u8> {
    let view = r.memory.last();
    let space = &r.metadata.address_spaces[r.metadata.buffers[0].address_space as usize];
    let byte = |at: u64| {
        let va = GpuVa::new(va + at);
        let leaf = mmu::translate(space.format, space.root, va, &view).unwrap();
        let pa = leaf.target(va).unwrap();
        view.frame(pa.frame()).unwrap()[pa.in_page()]
    };
    (0..count).map(byte).collect()
}

#[test]
fn an_image_is_loaded_turned_and_stored() {
    let Some(folder) = find_recordings("panfrost/zoo/g71/image") else {
        return;
    };
    let picture = picture();
    let copy = copy_with_picture(&folder, "0xf7fbb000", &picture);
    let r = run(copy.path());
    let out = bytes(&r, 0xf7fb_a000, 1024);
    for (y, x) in (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| (y, x))) {
        let got = &out[4 * tile_index(x, y)..4 * tile_index(x, y) + 4];
        // The shader computes imageStore(t, g.yx, imageLoad(s, g).bgra * 0.5) for columns 0 to 15 and rows 0 to 7 of s.
        let want = if x < 8 {
            let [r, g, b, a] = picture[x * SIDE + y];
            // The product in the shader is exact. The store rounds it to the nearest step.
            [b, g, r, a].map(|v| (f64::from(f32::from(v) / 255.0) * 0.5 * 255.0).round_ties_even() as u8)
        } else {
            [0; 4]
        };
        assert_eq!(got, want, "({x}, {y})");
    }
}

#[test]
fn texture_is_sampled_with_linear_filtering() {
    let Some(folder) = find_recordings("panfrost/zoo/g71/texsample") else {
        return;
    };
    let picture = picture();
    let copy = copy_with_picture(&folder, "0xf7fbb000", &picture);
    let r = run(copy.path());
    let out = bytes(&r, r.metadata.buffers[0].va.get(), 16 * 16);
    let float = |n: usize| f32::from_le_bytes(out[4 * n..4 * n + 4].try_into().unwrap());
    for x in 0..SIDE {
        // All eight rows store to the same address, and the last writer is undefined.
        let row = |y: usize| -> [f32; 4] {
            std::array::from_fn(|c| {
                // The coordinate is a whole number of texels, so it is the corner of four texels.
                let texel = |dx: usize, dy: usize| {
                    let at = (y + SIDE - dy) % SIDE * SIDE + (x + SIDE - dx) % SIDE;
                    f64::from(f32::from(picture[at][c]) / 255.0)
                };
                let mean = (texel(0, 0) + texel(1, 0) + texel(0, 1) + texel(1, 1)) / 4.0;
                // The shader samples halves and then adds the texture's size.
                f16_to_f32(f32_to_f16(mean as f32)) + 16.0
            })
        };
        let got: [f32; 4] = std::array::from_fn(|c| float(4 * x + c));
        assert!((0..8).any(|y| row(y) == got), "column {x}: {got:?}");
    }
}
