//! Tests of launches whose descriptors the program wrote without a command, as libcuda prepares graphs.

use super::*;
use crate::tables::GpuMapping;
use nvidia_channel::qmd::MAX_QMD_BYTES;

/// Address of the memory for the GPU: descriptors are below 2^40.
const GPU_AT: u64 = 0x2_0000_0000;
const DESCRIPTOR: u64 = 0xa000;
const DEPENDENT: u64 = 0xa200;
const BANK: u64 = 0xb000;
const BANK_BYTES: u32 = 0x300;

/// A recorder and the memory of its channel.
struct Fixture {
    recorder: Recorder,
    ring: Ring,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// Makes a recorder whose memory the GPU sees at [`GPU_AT`].
    fn new(memory: MappedMemory) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mut recorder, ring, log) = recorder_with_ring(folder.path(), "580.159.04");
        recorder.tables.add_host_mapping(HostMapping {
            start: ring.0,
            bytes: MEMORY_BYTES,
            object: MEMORY,
            offset: 0,
            memory,
        });
        let mapping = GpuMapping {
            bytes: MEMORY_BYTES,
            object: MEMORY,
            offset: 0,
        };
        recorder.tables.add_gpu_mapping(GpuVa(GPU_AT), mapping);
        Self {
            recorder,
            ring,
            log,
            _folder: folder,
        }
    }

    /// Submits commands and logs them, without allocation.
    fn submit(&mut self, index: u32, words: &[u32]) {
        self.ring.submit(index, words);
        let before = ALLOCATIONS.with(Cell::get);
        log_all(&mut self.recorder, 1, ScanReason::Doorbell).unwrap();
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "the handler allocates");
    }

    /// Returns the saved memory: address and content.
    fn saved(&self) -> Vec<(u64, Vec<u8>)> {
        let r = import(&self.log);
        let events = kinds(&r).into_iter().enumerate();
        let saved = events.filter(|(_, k)| *k == EventKind::SavedMemory);
        saved
            .map(|(e, _)| (r.events.stored_content(e).unwrap().va.get(), stored(&r, e)))
            .collect()
    }

    /// Returns the message of the finding about missing descriptors.
    fn gap(&self) -> Option<String> {
        let r = import(&self.log);
        let mut messages = r.metadata.findings.iter().map(|f| f.message.clone());
        messages.find(|m| m.contains("launch descriptors"))
    }
}

fn increasing(method: u32, values: &[u32]) -> Vec<u32> {
    let header = 1 << 29 | (values.len() as u32) << 16 | 1 << 13 | method >> 2;
    [&[header], values].concat()
}

fn launch(offset: u64) -> Vec<u32> {
    let va = ((GPU_AT + offset) >> 8) as u32;
    [increasing(0x2b4, &[va]), increasing(0x2c0, &[0xa])].concat()
}

/// Returns a descriptor with a bank, and a dependent if its offset is not 0.
fn descriptor(bank: u64, dependent: u64) -> Vec<u8> {
    let mut words = [0_u32; MAX_QMD_BYTES / 4];
    words[13] = 1;
    words[18] = 0x40;
    words[48] = ((GPU_AT + bank) >> 6) as u32;
    words[49] = (BANK_BYTES >> 4) << 19;
    if dependent != 0 {
        words[11] = 1 << 16;
        words[14] = ((GPU_AT + dependent) >> 8) as u32;
    }
    fields(&words)
}

#[test]
fn descriptors_of_the_program_are_saved_with_banks_and_dependents() {
    let mut fixture = Fixture::new(MappedMemory::Host);
    let bank: Vec<u8> = (0..BANK_BYTES).map(|n| n as u8).collect();
    // The dependent names the first descriptor again, and has the same bank.
    let (first, second) = (descriptor(BANK, DEPENDENT), descriptor(BANK, DESCRIPTOR));
    fixture.ring.write(DESCRIPTOR, &first);
    fixture.ring.write(DEPENDENT, &second);
    fixture.ring.write(BANK, &bank);
    fixture.submit(0, &launch(DESCRIPTOR));
    let at = |offset: u64| GPU_AT + offset;
    let all = vec![
        (at(DESCRIPTOR), first.clone()),
        (at(BANK), bank.clone()),
        (at(DEPENDENT), second.clone()),
    ];
    assert_eq!(fixture.saved(), all);

    // The descriptors of host memory again, and a bank that changed after its first 64 bytes.
    fixture.submit(1, &launch(DESCRIPTOR));
    let again = [(at(DESCRIPTOR), first.clone()), (at(DEPENDENT), second.clone())];
    assert_eq!(fixture.saved()[3..], again);
    fixture.ring.write(BANK + 0x2f0, &[0xff]);
    fixture.submit(2, &launch(DESCRIPTOR));
    assert_eq!(fixture.saved()[6].0, at(BANK));
    assert_eq!(fixture.saved()[6].1[0x2f0], 0xff);
    let r = import(&fixture.log);
    let last_entry = kinds(&r).iter().rposition(|k| *k == EventKind::RingEntry).unwrap();
    assert_eq!(kinds(&r)[last_entry - 1], EventKind::SavedMemory);
    assert_eq!(fixture.gap(), None);
}

#[test]
fn descriptors_of_commands_are_not_saved() {
    let mut fixture = Fixture::new(MappedMemory::Host);
    let target = GPU_AT + DESCRIPTOR;
    let words = [
        increasing(0x188, &[(target >> 32) as u32, target as u32]),
        increasing(0x180, &[0x180, 1]),
        increasing(0x1b0, &[0x41]),
        vec![3 << 29 | 2 << 16 | 1 << 13 | 0x1b4 >> 2, 1, 2],
        launch(DESCRIPTOR),
    ];
    fixture.submit(0, &words.concat());
    // The upload of an earlier push buffer counts too.
    fixture.submit(1, &launch(DESCRIPTOR));
    assert_eq!(fixture.saved(), []);
    assert_eq!(fixture.gap(), None);
}

#[test]
fn video_memory_is_saved_when_it_changes() {
    let mut fixture = Fixture::new(MappedMemory::Video);
    fixture.ring.write(DESCRIPTOR, &descriptor(BANK, 0));
    fixture.submit(0, &launch(DESCRIPTOR));
    assert_eq!(fixture.saved().len(), 2);
    fixture.submit(1, &launch(DESCRIPTOR));
    assert_eq!(fixture.saved().len(), 2);
    // A parameter.
    fixture.ring.write(BANK + 0x210, &[7]);
    fixture.submit(2, &launch(DESCRIPTOR));
    let saved = fixture.saved();
    assert_eq!((saved.len(), saved[2].0, saved[2].1[0x210]), (3, GPU_AT + BANK, 7));
}

#[test]
fn descriptors_that_are_left_out_are_a_finding() {
    let mut fixture = Fixture::new(MappedMemory::Host);
    // Memory that no table has.
    fixture.submit(0, &launch(0x10_0000));
    assert!(fixture.gap().unwrap().starts_with("1 "));
    // More descriptors than a doorbell saves: each names the next one.
    let words: Vec<u32> = (0..66_u64)
        .flat_map(|n| increasing(0x2b4, &[((GPU_AT + n * 0x100) >> 8) as u32]))
        .collect();
    fixture.submit(1, &words);
    assert!(fixture.gap().unwrap().starts_with("3 "), "{:?}", fixture.gap());
    assert_eq!(fixture.saved().len(), 64);
}
