//! Which writes are initial: by what comes before them.

use super::*;
use nvidia_channel::GpuVa as Va;
use nvidia_channel::writer::{CopyRectangle, PushBufferWriter, UploadFlush};

const COMPUTE_CLASS: u16 = 0xcbc0;
const PUSH_BUFFER: u64 = 0x2_0000_0000;
const MEMORY: u64 = 0x3_0000_0000;

/// A plan: writes, and submissions with their push buffers.
struct Finder(InitialWriteFinder<'static>);

impl Finder {
    fn new() -> Self {
        Self(InitialWriteFinder::new(COMPUTE_CLASS))
    }

    fn write(&mut self, va: u64) -> bool {
        self.0.is_initial(&Step::Write { va, data: &[1; 16] }, |_| None)
    }

    fn submit(&mut self, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let data = Box::leak(bytes.into_boxed_slice());
        let write = Step::Write { va: PUSH_BUFFER, data };
        self.0.is_initial(&write, |_| None);
        let submit = Step::Submit {
            event: 0,
            engine: EngineKind::Compute,
            va: PUSH_BUFFER,
            words: words.len() as u32,
        };
        assert!(!self.0.is_initial(&submit, |_| None));
    }

    fn submit_with(&mut self, fill: impl FnOnce(&mut PushBufferWriter)) {
        let mut writer = PushBufferWriter::new(initial_bindings(COMPUTE_CLASS).with(1, COMPUTE_CLASS).with(4, 0xc8b5));
        fill(&mut writer);
        let words = writer.take_words();
        self.submit(&words);
    }
}

#[test]
fn writes_before_work_on_their_bytes_are_initial() {
    let mut finder = Finder::new();
    assert!(finder.write(MEMORY) && finder.write(MEMORY + 8));
    finder.submit_with(|w| {
        w.copy(Va(MEMORY), Va(MEMORY + 0x1000), 0x100).unwrap();
        w.upload(Va(MEMORY + 0x2000), &[1; 8], UploadFlush::Channel).unwrap();
        w.release_copy_semaphore(Va(MEMORY + 0x3000), 1, true).unwrap();
        w.copy_rectangle(CopyRectangle {
            source: Va(MEMORY + 0x4000),
            source_pitch: 0x100,
            destination: Va(MEMORY + 0x5000),
            destination_pitch: 0x200,
            line_bytes: 0x10,
            lines: 3,
        })
        .unwrap();
    });
    for (offset, is_initial) in [
        (0, false),
        (0xf0, false),
        (0x100, true),
        (0xff0, true),
        (0x1008, false),
        (0x1100, true),
        (0x2004, false),
        (0x2014, true),
        (0x3000, false),
        (0x3010, true),
        (0x4200, false),
        (0x4210, true),
        (0x5400, false),
        (0x5410, true),
    ] {
        assert_eq!(finder.write(MEMORY + offset), is_initial, "offset {offset:#x}");
    }
    assert!(!finder.write(PUSH_BUFFER), "the GPU has read its push buffer");
    // A write that is not initial keeps later ones from it: 0x1008 to 0x1018 was written.
    assert!(!finder.write(MEMORY + 0x100c));
}

#[test]
fn outputs_that_are_read_before_a_write_keep_it() {
    let mut finder = Finder::new();
    let read = Step::Read {
        output: 0,
        va: MEMORY,
        bytes: 0x10,
    };
    assert!(!finder.0.is_initial(&read, |_| None));
    assert!(!finder.write(MEMORY + 8));
    assert!(finder.write(MEMORY + 0x100));
}

#[test]
fn no_write_is_initial_after_work_on_unknown_memory() {
    let header = |subchannel: u32, method: u32| 1 << 29 | 1 << 16 | subchannel << 13 | method >> 2;
    let bind = [header(1, 0), u32::from(COMPUTE_CLASS)];
    for (what, words) in [
        // `SEND_PCAS_A` and the signal that launches.
        ("a launch", vec![header(1, 0x2b4), 0x1000, header(1, 0x2c0), 9]),
        ("a notification", vec![header(1, NOTIFY.into()), 0]),
        ("a macro", vec![header(1, 0x3800), 0]),
        ("damaged words", vec![0xc000_0000]),
    ] {
        let mut finder = Finder::new();
        finder.submit(&bind);
        assert!(finder.write(MEMORY), "{what}");
        finder.submit(&words);
        assert!(!finder.write(MEMORY + 0x1000), "{what}");
    }
    // A push buffer that is not the write before it is unknown.
    let mut finder = Finder::new();
    let submit = Step::Submit {
        event: 0,
        engine: EngineKind::Copy,
        va: PUSH_BUFFER,
        words: 4,
    };
    assert!(!finder.0.is_initial(&submit, |_| None));
    assert!(!finder.write(MEMORY));
}

#[test]
fn push_buffers_of_page_images_are_read() {
    let mut page = [0; PAGE_BYTES];
    let words = [1u32 << 29 | 1 << 16, u32::from(COMPUTE_CLASS)];
    for (slot, byte) in page.iter_mut().skip(8).zip(words.iter().flat_map(|w| w.to_le_bytes())) {
        *slot = byte;
    }
    let mut finder = InitialWriteFinder::new(COMPUTE_CLASS);
    let numbers = [1u32.to_le_bytes()];
    let write = Step::WritePages {
        va: PUSH_BUFFER + 8,
        bytes: 8,
        pages: &numbers,
    };
    let submit = Step::Submit {
        event: 0,
        engine: EngineKind::Compute,
        va: PUSH_BUFFER + 8,
        words: 2,
    };
    assert!(finder.is_initial(&write, |_| Some(&page)));
    assert!(!finder.is_initial(&submit, |_| Some(&page)));
    let later = Step::Write { va: MEMORY, data: &[1] };
    assert!(finder.is_initial(&later, |_| None));
}
