//! Seeds of the fuzz target for plans of channels.

use super::seed::Add;
use crate::channel_plan::{COMPUTE_CLASS, CONTROL};
use nvidia_channel::writer::{EncodeError, PushBufferWriter, UploadFlush};
use nvidia_channel::{Bindings, GpuVa};
use nvidia_client::steps::{ChannelFile, EngineKind, Step, StepSink};
use nvidia_client::{Control, Place};

const MEMORY: u64 = 0x2_0000_0000;
const PUSH_BUFFERS: u64 = 0x2_0020_0000;
const BYTES: u64 = 0x20_0000;

#[derive(Default)]
struct Bytes(Vec<u8>);

impl StepSink for Bytes {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Adds the seeds.
pub(super) fn add(add: Add<'_>) {
    let body = body().unwrap_or_default();
    let mut file = Bytes::default();
    ChannelFile::encode_head(Control { va: CONTROL }, &mut file);
    file.add(&body);
    add("channel_plan", "file", file.0);
    add("channel_plan", "every-step", body);
}

/// Returns one step of every kind, with an upload, a copy and a semaphore.
fn body() -> Result<Vec<u8>, EncodeError> {
    let bindings = Bindings::new(0xc86f).with(1, COMPUTE_CLASS).with(4, 0xc8b5);
    let mut writer = PushBufferWriter::new(bindings);
    writer.upload(GpuVa(MEMORY), &[1, 2, 3, 4, 5], UploadFlush::Channel)?;
    writer.copy(GpuVa(MEMORY), GpuVa(MEMORY + 0x1000), 64)?;
    writer.release_copy_semaphore(GpuVa(MEMORY + 0x2000), 7, true)?;
    let words = writer.take_words();
    let push_buffer: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let image = [1u32.to_le_bytes(), [0; 4]];
    let map = |place, va| Step::Map {
        place,
        va,
        bytes: BYTES,
    };
    let steps = [
        map(Place::Video, MEMORY),
        map(Place::System, PUSH_BUFFERS),
        Step::WritePages {
            va: MEMORY + 0x3010,
            bytes: 0x1000,
            pages: &image,
        },
        Step::Write {
            va: PUSH_BUFFERS,
            data: &push_buffer,
        },
        Step::Submit {
            event: 3,
            engine: EngineKind::Compute,
            va: PUSH_BUFFERS,
            words: words.len() as u32,
        },
        Step::Read {
            output: 0,
            va: MEMORY + 0x1000,
            bytes: 64,
        },
    ];
    let mut body = Bytes::default();
    steps.iter().for_each(|step| step.encode(&mut body));
    Ok(body.0)
}
