//! What it costs to compare two raw images of 4 GiB: against a copy of the same bytes in memory by as many threads, in
//! the same run.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark without its files has nothing to measure, and says so"
)]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use trace_core::diff::{self, Rules};
use trace_core::progress::Progress;
use trace_core::recording::ElementType;

fn main() {
    // Made once, and gone with the run.
    divan::main();
    if let Some((dir, ..)) = IMAGES.get()
        && let Err(e) = std::fs::remove_dir_all(dir)
    {
        println!("{} stays: {e}", dir.display());
    }
}

/// Bytes of each image; `KINESCOPE_BENCH_IMAGE` in mebibytes where there is less room.
fn size() -> u64 {
    let reported = std::env::var("KINESCOPE_BENCH_IMAGE")
        .ok()
        .and_then(|m| m.parse::<u64>().ok());
    reported.unwrap_or(4096) << 20
}

static IMAGES: OnceLock<(PathBuf, PathBuf, PathBuf)> = OnceLock::new();

/// Two images next to the build, the same but for a float in every 16 MiB.
fn images() -> &'static (PathBuf, PathBuf, PathBuf) {
    IMAGES.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images");
        std::fs::create_dir_all(&dir).expect("a folder for the images");
        let (a, b) = (dir.join("a"), dir.join("b"));
        write(&a, 0).expect("room for an image");
        write(&b, 1).expect("room for another");
        (dir, a, b)
    })
}

fn write(path: &Path, change: u8) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut piece: Vec<u8> = (0..16u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    if let Some(last) = piece.last_mut() {
        *last ^= change;
    }
    for _ in 0..size() / piece.len() as u64 {
        file.write_all(&piece)?;
    }
    Ok(())
}

/// Both images compared.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn compared(bencher: Bencher<'_, '_>) {
    let (_, a, b) = images();
    bencher.counter(BytesCount::new(2 * size())).bench(|| {
        let d = diff::compare_images((a, b), 0, ElementType::F32, &Rules::default(), &Progress::new());
        let d = d.expect("images that can be read");
        assert_eq!(d.bytes_differ, size() >> 24);
        d
    });
}

/// An image, in memory, copied to other memory by all threads, 1 MiB at a time.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn copied(bencher: Bencher<'_, '_>) {
    let (_, a, _) = images();
    let from = std::fs::read(a).expect("an image that can be read");
    let mut to = vec![1u8; from.len()];
    bencher.counter(BytesCount::new(size())).bench_local(|| {
        to.par_chunks_mut(1 << 20)
            .zip(from.par_chunks(1 << 20))
            .for_each(|(to, from)| to.copy_from_slice(from));
        black_box(to.last().copied())
    });
}
