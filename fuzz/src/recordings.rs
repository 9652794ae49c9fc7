//! Fuzz targets that make recordings: the container and the importers. Every query runs on what opens.

use crate::folder::in_folder;
use crate::parts;
use std::ops::ControlFlow;
use std::path::Path;
use trace_core::api_trace::ApiTrace;
use trace_core::container::{KineFile, MemorySink, Writer};
use trace_core::families::find_family_with;
use trace_core::memory::GpuMemoryView;
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, MmuFormat, PageId};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::timeline::{AxisKind, Pyramid, Timeline};
use trace_core::{PhysAddr, Recording, container as kine, diff, mmu, timeline};
use trace_import::{
    ImportError, OpenOptions, Opened, core_dumps, driver_log, gpureplay, hrr as hip, iree as hal, mmt as valgrind,
    nvidia_log as klog, panfrostdump as panfrost, raw_memory as raw, rd as freedreno, trace,
};

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Runs what programs do with an open recording, and checks that it survives a round trip through its own container.
fn query_everything(recording: &Recording) {
    if let Some(map) = RegisterMap::by_name("mali-jm")
        && let Ok(derived) = timeline::derive(recording, map, &Progress::new())
    {
        for span in derived.jobs.iter().take(8) {
            for space in recording.metadata.address_spaces.iter().take(2) {
                let view = GpuMemoryView::new(recording.memory.at(span.submit_event), space);
                let _ = find_family_with(recording, Some(map)).read_chain(&view, span.head_va);
            }
        }
    }
    let view = recording.memory.last();
    for space in recording.metadata.address_spaces.iter().take(2) {
        let mut remaining = 100_000;
        let _ = mmu::for_each_leaf(space.format, space.root, &view, &mut |leaf| {
            remaining -= 1;
            let _ = mmu::walk(space.format, space.root, leaf.va, &view);
            if remaining == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    }
    let _ = trace_core::check::check(recording);
    calls(recording);
    for buffer in recording.metadata.buffers.iter().take(4) {
        if let Some(space) = recording.metadata.address_spaces.get(buffer.address_space as usize) {
            let _ = GpuMemoryView::new(view, space).read_range(buffer.va, buffer.bytes.min(1 << 16));
        }
    }
}

/// Runs every query of an API trace.
fn calls(recording: &Recording) {
    let Ok(Some(api_trace)) = ApiTrace::from_recording(recording, &Progress::new()) else {
        return;
    };
    let end = recording.events.len() as u64;
    for (n, l) in (0u32..).zip(api_trace.launches()).take(64) {
        let _ = (
            api_trace.function_name(l.function),
            api_trace.stream_name(l.stream),
            api_trace.launch_at(l.event),
        );
        if let Some(CallEvent::Launch(row)) = usize::try_from(l.event).ok().and_then(|e| recording.events.call(e)) {
            for a in api_trace.arguments(recording, l.event, &row) {
                let _ = a.describe(&api_trace);
            }
        }
        if n < 4 {
            let _ = api_trace.kernel(recording, l.function);
        }
    }
    for b in api_trace.buffers().list().iter().take(16) {
        for event in [0, end / 2, end] {
            let _ = api_trace.read(recording, b.at..b.at.saturating_add(b.bytes.min(4096)), event);
            let _ = api_trace.find_last_writer(recording, b.at, event);
        }
    }
    let _ = api_trace.order().edges_in(0..end).len();
}

/// Checks that an imported recording can be stored.
pub(crate) fn check_storable(recording: &Recording) {
    query_everything(recording);
    check_round_trip(recording);
}

/// Checks that a recording that can be written reads back the same, and is written as the same bytes again.
fn check_round_trip(recording: &Recording) {
    let Ok(bytes) = kine::to_bytes(recording) else { return };
    let reread = kine::from_bytes(bytes.clone()).unwrap_or_else(|e| panic!("a written recording does not open: {e}"));
    let (a, b) = (&recording.events, &reread.events);
    assert_eq!(reread.metadata, recording.metadata);
    assert_eq!(reread.extras, recording.extras);
    assert_eq!((a.len(), &a.marks), (b.len(), &b.marks));
    assert!(a.time.iter().eq(b.time.iter()) && a.thread.iter().eq(b.thread.iter()));
    assert!(a.value.iter().eq(b.value.iter()) && a.offset.iter().eq(b.offset.iter()));
    assert!((0..a.len()).all(|i| a.kind(i) == b.kind(i) && a.access(i) == b.access(i)));
    let (a, b) = (&recording.memory, &reread.memory);
    assert_eq!((a.pages.len(), a.snapshots.len()), (b.pages.len(), b.snapshots.len()));
    for (x, y) in a.snapshots.iter().zip(b.snapshots.iter()).take(20) {
        assert_eq!((x.event, &x.runs), (y.event, &y.runs));
    }
    assert_eq!(
        kine::to_bytes(&reread).ok(),
        Some(bytes),
        "a second write gives another file"
    );
}

/// Reads everything that a recording holds, whether or not it makes sense.
pub(crate) fn read_all(recording: &Recording) {
    let (events, memory) = (&recording.events, &recording.memory);
    let _ = recording.span_ns();
    for i in 0..events.len().min(20_000) {
        let payload = events.payload.get(i).unwrap_or(0) as usize;
        let _ = (
            events.kind(i),
            events.access(i),
            events.interrupt(i),
            events.submits.get(payload),
            events.host_write(i).and_then(|w| w.piece()),
            events.undecoded(i).map(|u| u.describe()),
            events.dma_map(i).map(|d| d.describe()),
        );
    }
    for id in 0..=memory.pages.len().min(5_000) as u32 {
        let _ = (memory.pages.page(PageId(id)), memory.pages.digest(PageId(id)));
    }
    for s in memory.snapshots.iter().take(100) {
        let view = memory.at(s.event);
        for run in s.runs.iter().take(20) {
            let _ = (view.frame(run.first_frame), view.frame(run.end_frame()));
        }
        let _ = view.runs().len();
    }
    if events.len() < 2_000 {
        let device = RecordedRegisters::new(recording);
        for i in 0..events.len() {
            let _ = events.call(i).map(|c| c.describe(recording.api()));
            if let (Some(device), Some(access)) = (device, events.access(i)) {
                let _ = (device.name_of(&access), device.describe(&access));
            }
        }
        assert!(
            diff::diff(recording, recording).is_empty(),
            "a recording differs from itself"
        );
    }
}

/// Fuzzes a `.kine` file.
pub fn container(data: &[u8]) -> bool {
    let report = kine::verify_bytes(data.to_vec());
    // Open the file as programs do: used content is compared with its digest.
    let Ok(recording) = KineFile::from_bytes(data.to_vec()).and_then(|f| f.recording()) else {
        return false;
    };
    read_all(&recording);
    query_everything(&recording);
    check_damage_reported(&recording, report.is_ok_and(|r| r.is_sound()));
    true
}

/// Checks that damaged content has no value and is not written, and that sound content is not reported as damaged.
fn check_damage_reported(recording: &Recording, sound: bool) {
    let found = recording.find_damage(&Progress::new());
    let found = found.unwrap_or_else(|e| panic!("the search for damage failed: {e}"));
    assert!(!(sound && found.is_some()), "a sound file is damaged: {found:?}");
    let events = &recording.events;
    for event in (0..events.len()).step_by(1 + events.len() / 500) {
        if events.is_damaged(event) {
            assert!(found.is_some(), "event {event} is damaged, but no damage is found");
            assert_eq!(events.access(event).filter(|_| events.payload.is_damaged(event)), None);
        }
    }
    if let Some(block) = &found {
        let _ = (block.to_string(), recording.damaged_events(block));
        assert!(
            kine::to_bytes(recording).is_err(),
            "damaged content is written as sound"
        );
    }
}

/// Fuzzes the section `metadata` of a `.kine` file.
pub fn metadata(data: &[u8]) -> bool {
    let Ok(metadata) = kine::decode_metadata(data) else {
        return false;
    };
    let written = kine::encode_metadata(&metadata).unwrap_or_else(|e| panic!("read metadata is not written: {e}"));
    assert_eq!(kine::decode_metadata(&written).as_ref(), Ok(&metadata));
    let recording = Recording {
        metadata,
        ..Recording::default()
    };
    let _ = (recording.expected_screen(), recording.metadata.valid_shapes());
    check_storable(&recording);
    true
}

/// Fuzzes the derived data that a file keeps. The first byte selects the section, the rest is its content. The
/// recording is a small sound one.
pub fn derived(data: &[u8]) -> bool {
    let Some((selector, content)) = data.split_first() else {
        return false;
    };
    let recording = crate::seeds::recording();
    let map = RegisterMap::by_name("mali-jm");
    let (name, version) = if selector & 1 == 0 {
        (timeline::SECTION, timeline::ANALYSIS_VERSION)
    } else {
        (timeline::PYRAMID_SECTION, timeline::PYRAMID_VERSION)
    };
    let write_file = || {
        let mut writer = Writer::begin(MemorySink::default())?;
        writer.put(&recording)?;
        writer.derived(name, version, content)?;
        writer.commit()?;
        KineFile::from_bytes(writer.into_sink().bytes)
    };
    let file = write_file().unwrap_or_else(|e| panic!("the small recording cannot be written: {e}"));
    if let Ok(Some(stored)) = Timeline::read_from(&file) {
        assert_eq!(Timeline::from_bytes(&stored.to_bytes()).as_ref(), Some(&stored));
        return true;
    }
    let Ok(Some(stored)) = Pyramid::stored(&file, &recording, map) else {
        return false;
    };
    for kind in AxisKind::ALL {
        let end = stored.axis().end(kind);
        for range in [(0.0, end), (end / 3.0, end / 2.0), (-5.0, end * 2.0)] {
            let pixels = stored.pixels(&recording.events, kind, range, 50);
            assert!(pixels.len() <= 50);
            let _ = (pixels.events(), pixels.sum(7), pixels.total(0));
        }
    }
    let events = recording.events.len() as u64;
    let _ = stored.count(&recording.events, 0..events);
    for lane in 0..stored.lanes().len() {
        let nearest = stored.nearest(&recording.events, lane, events / 2);
        assert!(nearest.is_none_or(|e| e < events), "an event that does not exist");
    }
    true
}

/// Fuzzes a `.kine` file that is laid out from its parts, with digests that agree; see [`parts`].
pub fn container_resealed(data: &[u8]) -> bool {
    let bytes = parts::lay_out(data);
    let report = kine::verify_bytes(bytes.clone());
    let Ok(file) = KineFile::from_bytes(bytes) else {
        return false;
    };
    for section in file.sections() {
        if let Some(name) = &section.name {
            let _ = file.derived(name).map(|d| d.map(|d| d.bytes().len()));
        }
    }
    let _ = Timeline::read_from(&file);
    let Ok(recording) = file.recording() else { return false };
    read_all(&recording);
    query_everything(&recording);
    check_damage_reported(&recording, report.as_ref().is_ok_and(|r| r.is_sound()));
    // Only the full check finds some damage, such as a page stored twice. Such a file does not have to survive the
    // round trip.
    let sound = report.is_ok_and(|r| r.is_sound());
    if sound {
        check_round_trip(&recording);
    }
    sound
}

/// Fuzzes one file of a GPUReplay folder, with the others sound.
fn gpureplay(name: &str, data: &[u8]) -> bool {
    let mut accepted = false;
    in_folder(|folder| {
        for (file, bytes) in crate::seeds::gpureplay() {
            let path = folder.join(file);
            // The sound files are written once; only the fuzzed file changes, and it is restored at the end.
            if file == name {
                write(&path, data);
            } else if !path.exists() {
                write(&path, &bytes);
            }
        }
        let imported = gpureplay::import(folder, &gpureplay::Options::default(), &Progress::new());
        if let Ok(recording) = imported {
            check_storable(&recording);
            accepted = true;
        }
        let _ = std::fs::remove_file(folder.join(name));
    });
    accepted
}

/// Fuzzes `gr_io_history`, lines of register accesses.
pub fn gpureplay_io(data: &[u8]) -> bool {
    gpureplay("gr_io_history", data)
}

/// Fuzzes `gr_pgt`, page tables.
pub fn gpureplay_pgt(data: &[u8]) -> bool {
    gpureplay("gr_pgt", data)
}

/// Fuzzes `gr_mem_contents`, regions and pages.
pub fn gpureplay_memory(data: &[u8]) -> bool {
    gpureplay("gr_mem_contents", data)
}

/// Fuzzes `gr_sync_as`, shared ranges.
pub fn gpureplay_sync(data: &[u8]) -> bool {
    gpureplay("gr_sync_as", data)
}

/// Fuzzes `*_integrated`, the timeline for people.
pub fn gpureplay_integrated(data: &[u8]) -> bool {
    gpureplay("seed_integrated", data)
}

/// Fuzzes a dump of physical memory; its first 17 bytes give base, root and format.
pub fn raw_memory(data: &[u8]) -> bool {
    let Some((head, dump)) = data.split_at_checked(17) else {
        return false;
    };
    let mut accepted = false;
    let word = |at: usize| {
        let bytes = head
            .get(at..at + 8)
            .and_then(|b| <[u8; 8]>::try_from(b).ok())
            .unwrap_or_default();
        PhysAddr::new(u64::from_le_bytes(bytes))
    };
    let format = if head.last().is_some_and(|b| b & 1 == 1) {
        MmuFormat::MaliLpae
    } else {
        MmuFormat::Aarch64_4k
    };
    let options = raw::Options {
        base: Some(word(0)),
        root: word(8),
        format,
        memattr: 0,
        gpu_id: 0x60a0_0002,
    };
    in_folder(|folder| {
        let path = folder.join("dump");
        write(&path, dump);
        if let Ok(recording) = raw::import(&path, &options, &Progress::new()) {
            check_storable(&recording);
            accepted = true;
        }
        let _ = std::fs::remove_file(path);
    });
    accepted
}

/// Fuzzes one file with its importer, and runs every query on the recording.
fn file(name: &str, data: &[u8], import: fn(&Path, &Progress) -> Result<Recording, ImportError>) -> bool {
    let mut accepted = false;
    in_folder(|folder| {
        let path = folder.join(name);
        write(&path, data);
        if let Ok(recording) = import(&path, &Progress::new()) {
            check_storable(&recording);
            accepted = true;
        }
    });
    accepted
}

/// Fuzzes a log of valgrind's tool mmt, compressed or not.
pub fn mmt(data: &[u8]) -> bool {
    file("a.mmt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = valgrind::fits(path);
        valgrind::import(path, progress)
    })
}

/// Fuzzes a log of requests to NVIDIA's kernel driver, packed or not.
pub fn nvidia_log(data: &[u8]) -> bool {
    file("a.klog", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = klog::fits(path);
        klog::import(path, progress)
    })
}

/// Maximum size of what an input of [`unpack`] unpacks to, bytes.
const MAX_UNPACKED_BYTES: u64 = 4 << 20;

/// Fuzzes a packed file or an archive, whatever it holds.
pub fn unpack(data: &[u8]) -> bool {
    file("input", data, |path, progress| {
        progress.limit_unpacked(MAX_UNPACKED_BYTES);
        // The format check by content must accept any file.
        let _ = trace_import::fits(path);
        trace_import::open(path, &OpenOptions::default(), progress).and_then(Opened::into_recording)
    })
}

/// Fuzzes a dump of physical memory that states its addresses: an ELF core or a LiME image.
pub fn memory_dump(data: &[u8]) -> bool {
    file("memory", data, raw::import_dump)
}

/// Fuzzes the calls of an archive of HIP's record and replay, without its other files.
pub fn hrr(data: &[u8]) -> bool {
    file("events.bin", data, |path, progress| {
        let _ = (hip::fits(path), hip::parts(path));
        hip::import(path, progress)
    })
}

/// Fuzzes a HAL replay of IREE.
pub fn iree_replay(data: &[u8]) -> bool {
    file("a.ireereplay", data, |path, progress| {
        let _ = hal::fits(path);
        hal::import(path, progress)
    })
}

/// Fuzzes a device core dump of panfrost.
pub fn panfrostdump(data: &[u8]) -> bool {
    file("a.panfrostdump", data, panfrost::import)
}

/// Fuzzes a device core dump of amdgpu.
pub fn amdgpu_dump(data: &[u8]) -> bool {
    file("data", data, |path, progress| {
        let _ = core_dumps::amdgpu::fits(path);
        core_dumps::amdgpu::import(path, progress)
    })
}

/// Fuzzes a device core dump of etnaviv.
pub fn etnaviv_dump(data: &[u8]) -> bool {
    file("data", data, |path, progress| {
        let _ = core_dumps::etnaviv::fits(path);
        core_dumps::etnaviv::import(path, progress)
    })
}

/// Fuzzes an error state of i915.
pub fn i915_state(data: &[u8]) -> bool {
    file("data", data, |path, progress| {
        let _ = core_dumps::i915::fits(path);
        core_dumps::i915::import(path, progress)
    })
}

/// Fuzzes a device core dump of msm.
pub fn msm_dump(data: &[u8]) -> bool {
    file("data", data, |path, progress| {
        let _ = core_dumps::msm::fits(path);
        core_dumps::msm::import(path, progress)
    })
}

/// Fuzzes a device core dump of panthor.
pub fn panthor_dump(data: &[u8]) -> bool {
    file("data", data, |path, progress| {
        let _ = core_dumps::panthor::fits(path);
        core_dumps::panthor::import(path, progress)
    })
}

/// Fuzzes a device core dump of xe.
pub fn xe_dump(data: &[u8]) -> bool {
    file("data", data, |path, progress| {
        let _ = core_dumps::xe::fits(path);
        core_dumps::xe::import(path, progress)
    })
}

/// Fuzzes a recording of freedreno's tools, compressed or not.
pub fn rd(data: &[u8]) -> bool {
    file("a.rd", data, freedreno::import)
}

/// Fuzzes a register history, or a kernel log that contains one. The first byte selects whether the base is given; its
/// bits give the base.
pub fn regs_history(data: &[u8]) -> bool {
    let (base_address, text) = match data.split_first_chunk::<9>() {
        Some(([1, base @ ..], text)) => (Some(u64::from_le_bytes(*base)), text),
        _ => (None, data),
    };
    let mut accepted = false;
    in_folder(|folder| {
        let path = folder.join("history.txt");
        write(&path, text);
        let options = trace::regs_history::Options {
            base: base_address.map(PhysAddr::new),
            gpu_id: base_address.map(|_| 0x6000_0000),
        };
        // The format check by content must accept any file.
        let _ = trace::regs_history::fits(&path);
        if let Ok(recording) = trace::regs_history::import(&path, &options, &Progress::new()) {
            check_storable(&recording);
            accepted = true;
        }
    });
    accepted
}

/// Fuzzes a log of GPUReplay's recorder for V3D.
pub fn v3d(data: &[u8]) -> bool {
    file("a.txt", data, trace::v3d::import)
}

/// Fuzzes a kernel log with the messages of Gdev, compressed or not.
pub fn gdev(data: &[u8]) -> bool {
    file("a.txt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = driver_log::gdev::fits(path);
        driver_log::gdev::import(path, progress)
    })
}

/// Fuzzes a kernel log of nouveau or of NVIDIA's driver, compressed or not.
pub fn nouveau(data: &[u8]) -> bool {
    file("a.txt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = driver_log::nouveau::fits(path);
        driver_log::nouveau::import(path, progress)
    })
}

/// Fuzzes push buffers of libdrm_nouveau or NVK, compressed or not.
pub fn nouveau_pushbuf(data: &[u8]) -> bool {
    file("a.txt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = driver_log::nouveau_pushbuf::fits(path);
        driver_log::nouveau_pushbuf::import(path, progress)
    })
}

/// Fuzzes strace's output, compressed or not.
pub fn strace(data: &[u8]) -> bool {
    file("a.txt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = driver_log::strace::fits(path);
        driver_log::strace::import(path, progress)
    })
}

/// Fuzzes gVisor's debug log, compressed or not.
pub fn gvisor(data: &[u8]) -> bool {
    file("a.txt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = driver_log::gvisor::fits(path);
        driver_log::gvisor::import(path, progress)
    })
}

/// Fuzzes the text of valgrind's tool mmt, compressed or not.
pub fn mmt_text(data: &[u8]) -> bool {
    file("a.txt", data, |path, progress| {
        // The format check by content must accept any file.
        let _ = driver_log::mmt_text::fits(path);
        driver_log::mmt_text::import(path, progress)
    })
}
