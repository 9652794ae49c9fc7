//! How long does a page table of a real size take to walk, against reading its words once?

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

use std::ops::ControlFlow;
use trace_core::mmu::{self, PAGE_BYTES, PhysMemory, Rights};
use trace_core::recording::{MmuFormat, Page};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

const FORMAT: MmuFormat = MmuFormat::Aarch64_4k;
/// As many pages as the largest published recording maps.
const PAGES: u64 = 137_698;
const ROOT: PhysAddr = PhysAddr::new(0x1000);
const FIRST: u64 = 0xffff_8000_0000;

/// Tables by frame: a look-up costs an index, so that the walker is what is measured.
struct Tables(Vec<Box<Page>>);

impl PhysMemory for Tables {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let bytes = self.0.get(at.frame() as usize)?.get(at.in_page()..at.in_page() + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.0.get(frame as usize).map(|p| &**p)
    }
}

/// Consecutive pages in frames that are not.
fn tables() -> Tables {
    let mut frames: Vec<Box<Page>> = vec![Box::new([0; PAGE_SIZE]), Box::new([0; PAGE_SIZE])];
    for page in 0..PAGES {
        let va = FIRST + page * PAGE_BYTES;
        let mut at = ROOT.frame() as usize;
        for level in 0..4 {
            let index = usize::from(mmu::index_at(level, GpuVa::new(va))) * 8;
            let entry: [u8; 8] = frames[at][index..index + 8].try_into().unwrap();
            let raw = u64::from_le_bytes(entry);
            at = if level == 3 {
                let leaf = mmu::encode_leaf(FORMAT, PhysAddr::new((0x10_0000 + (page ^ 5)) << 12), Rights::RW, 0);
                frames[at][index..index + 8].copy_from_slice(&leaf.to_le_bytes());
                continue;
            } else if raw == 0 {
                let entry = mmu::encode_table(FORMAT, PhysAddr::new((frames.len() as u64) << 12));
                frames[at][index..index + 8].copy_from_slice(&entry.to_le_bytes());
                frames.push(Box::new([0; PAGE_SIZE]));
                frames.len() - 1
            } else {
                mmu::entry_address(raw).frame() as usize
            };
        }
    }
    Tables(frames)
}

#[divan::bench]
fn mappings(b: divan::Bencher<'_, '_>) {
    let t = tables();
    b.bench(|| mmu::mappings(FORMAT, ROOT, &t).unwrap());
}

#[divan::bench]
fn every_leaf(b: divan::Bencher<'_, '_>) {
    let t = tables();
    b.bench(|| {
        let mut n = 0u64;
        mmu::for_each_leaf(FORMAT, ROOT, &t, &mut |l| {
            n ^= l.pa.get();
            ControlFlow::Continue(())
        })
        .unwrap();
        n
    });
}

/// The measure: every word of every table, added up.
#[divan::bench]
fn reading_the_words_once(b: divan::Bencher<'_, '_>) {
    let t = tables();
    b.bench(|| {
        t.0.iter()
            .flat_map(|p| p.as_chunks::<8>().0)
            .fold(0u64, |n, w| n ^ u64::from_le_bytes(*w))
    });
}

#[divan::bench]
fn translating_every_page(b: divan::Bencher<'_, '_>) {
    let t = tables();
    b.bench(|| {
        (0..PAGES)
            .map(|p| {
                mmu::translate(FORMAT, ROOT, GpuVa::new(FIRST + p * PAGE_BYTES), &t)
                    .unwrap()
                    .pa
                    .get()
            })
            .fold(0, |n, pa| n ^ pa)
    });
}

fn main() {
    divan::main();
}
