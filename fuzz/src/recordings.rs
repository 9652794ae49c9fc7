//! Targets that make recordings: the container and the importers. What opens is then asked everything.

use crate::seeds;
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trace_core::import::{gpureplay, raw_memory as raw};
use trace_core::memory::GpuMemoryView;
use trace_core::progress::Progress;
use trace_core::recording::MmuFormat;
use trace_core::registers::RegisterMap;
use trace_core::{PhysAddr, Recording, container as kine, jobs, mmu, timeline};

thread_local! {
    /// Importers read files; one folder a thread, in memory where the system has such a place.
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

fn in_folder(run: impl FnOnce(&Path)) {
    FOLDER.with(|cell| {
        let made = cell.get_or_init(|| {
            let shm = PathBuf::from("/dev/shm");
            let dir = if shm.is_dir() {
                TempDir::new_in(shm)
            } else {
                TempDir::new()
            };
            dir.unwrap_or_else(|e| panic!("no temporary folder: {e}"))
        });
        run(made.path());
    });
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// What programs do with a recording that opened. It must come back from its own container as it was.
fn ask_everything(recording: &Recording) {
    if let Some(map) = RegisterMap::by_name("mali-jm")
        && let Ok(derived) = timeline::derive(recording, map, &Progress::new())
    {
        for span in derived.jobs.iter().take(8) {
            for space in recording.facts.address_spaces.iter().take(2) {
                let view = GpuMemoryView::new(recording.memory.at(span.submit_event), space);
                let _ = jobs::chain(&view, span.head_va);
            }
        }
    }
    let view = recording.memory.last();
    for space in recording.facts.address_spaces.iter().take(2) {
        let mut left = 100_000;
        let _ = mmu::for_each_leaf(space.format, space.root, &view, &mut |leaf| {
            left -= 1;
            let _ = mmu::walk(space.format, space.root, leaf.va, &view);
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    }
    let _ = trace_core::check::check(recording);
    for buffer in recording.facts.buffers.iter().take(4) {
        if let Some(space) = recording.facts.address_spaces.get(buffer.address_space as usize) {
            let _ = GpuMemoryView::new(view, space).read_range(buffer.va, buffer.bytes.min(1 << 16));
        }
    }
}

/// What an importer made can be kept: it comes back from the container with the same facts and events.
fn survives(recording: &Recording) {
    ask_everything(recording);
    let Ok(bytes) = kine::to_bytes(recording) else { return };
    let again = kine::from_bytes(bytes).unwrap_or_else(|e| panic!("a written recording does not open: {e}"));
    assert_eq!(again.facts, recording.facts);
    assert_eq!(again.events.len(), recording.events.len());
    assert!(again.events.value.iter().eq(recording.events.value.iter()));
}

/// A `.kine` file.
pub fn container(data: &[u8]) {
    let _ = kine::verify_bytes(data.to_vec());
    if let Ok(recording) = kine::from_bytes(data.to_vec()) {
        ask_everything(&recording);
    }
}

/// One file of a GPUReplay folder, the others sound.
fn gpureplay(name: &str, data: &[u8]) {
    in_folder(|folder| {
        for (file, bytes) in seeds::gpureplay() {
            let path = folder.join(file);
            // The sound files are written once; only the one that is tried changes, and is put back at the end.
            if file == name {
                write(&path, data);
            } else if !path.exists() {
                write(&path, &bytes);
            }
        }
        let imported = gpureplay::import(folder, &gpureplay::Options::default(), &Progress::new());
        if let Ok(recording) = imported {
            survives(&recording);
        }
        let _ = std::fs::remove_file(folder.join(name));
    });
}

/// `gr_io_history`, lines of register accesses.
pub fn gpureplay_io(data: &[u8]) {
    gpureplay("gr_io_history", data);
}

/// `gr_pgt`, page tables.
pub fn gpureplay_pgt(data: &[u8]) {
    gpureplay("gr_pgt", data);
}

/// `gr_mem_contents`, regions and pages.
pub fn gpureplay_memory(data: &[u8]) {
    gpureplay("gr_mem_contents", data);
}

/// `gr_sync_as`, shared ranges.
pub fn gpureplay_sync(data: &[u8]) {
    gpureplay("gr_sync_as", data);
}

/// `*_integrated`, the timeline for people.
pub fn gpureplay_integrated(data: &[u8]) {
    gpureplay("seed_integrated", data);
}

/// A dump of physical memory; its first 17 bytes tell base, root and format.
pub fn raw_memory(data: &[u8]) {
    let Some((head, dump)) = data.split_at_checked(17) else {
        return;
    };
    let word = |at: usize| {
        let bytes = head
            .get(at..at + 8)
            .and_then(|b| <[u8; 8]>::try_from(b).ok())
            .unwrap_or_default();
        PhysAddr(u64::from_le_bytes(bytes))
    };
    let format = if head.last().is_some_and(|b| b & 1 == 1) {
        MmuFormat::MaliLpae
    } else {
        MmuFormat::Aarch64_4k
    };
    let options = raw::Options {
        base: word(0),
        root: word(8),
        format,
        memattr: 0,
        gpu_id: 0x60a0_0002,
    };
    in_folder(|folder| {
        let path = folder.join("dump");
        write(&path, dump);
        if let Ok(recording) = raw::import(&path, &options, &Progress::new()) {
            survives(&recording);
        }
        let _ = std::fs::remove_file(path);
    });
}
