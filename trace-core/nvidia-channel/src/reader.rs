//! The state of a channel's engines: turns methods into the actions of the GPU.

mod address_words;
mod compute;
mod copy;
mod host;
mod upload;

use crate::command::Command;
use crate::header::SUBCHANNELS;
use crate::memory::{MemoryReader, UploadedMemory};
use crate::push_buffer::Method;
use compute::Compute;
use copy::CopyEngine;
use host::Host;
use upload::UploadUnit;

/// Reader of the methods of one channel. Its state lasts from push buffer to push buffer.
#[derive(Debug, Clone, Default)]
pub struct CommandReader {
    host: Host,
    engines: [Engine; SUBCHANNELS as usize],
    uploads: UploadedMemory,
}

/// State of the engine on a subchannel.
#[derive(Debug, Clone, Default)]
struct Engine {
    class: Option<u16>,
    upload: UploadUnit,
    compute: Compute,
    copy: CopyEngine,
}

impl CommandReader {
    /// Returns the reader of a new channel.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the memory that push buffers wrote.
    #[must_use]
    pub fn uploads(&self) -> &UploadedMemory {
        &self.uploads
    }

    /// Reads a method, and returns the action that it starts or completes. `memory` is what push buffers do not hold.
    /// A launch holds up to [`MAX_CONSTANT_BANK_BYTES`](crate::launch::MAX_CONSTANT_BANK_BYTES) of constant bank 0.
    pub fn read(&mut self, method: &Method, memory: &dyn MemoryReader) -> Option<Command> {
        if method.method < crate::FIRST_ENGINE_METHOD {
            return self.host.read(method);
        }
        let class = method.class?;
        let engine = self.engines.get_mut(usize::from(method.subchannel))?;
        if engine.class != Some(class) {
            *engine = Engine {
                class: Some(class),
                ..Engine::default()
            };
        }
        match class & 0xff {
            0xb5 => engine.copy.read(class, method),
            0xc0 => {
                let upload = engine.upload.read(method, &mut self.uploads);
                upload.or_else(|| engine.compute.read(class, method, &mut self.uploads, memory))
            }
            // Graphics and upload engines have the same upload unit.
            0x97 | 0x40 => engine.upload.read(method, &mut self.uploads),
            _ => None,
        }
    }

    /// Returns uploads that no method completed. Call it after the last push buffer.
    pub fn finish(&mut self) -> Vec<Command> {
        let engines = self.engines.iter_mut();
        engines.filter_map(|e| e.upload.take(&mut self.uploads)).collect()
    }
}

#[cfg(test)]
mod tests;
