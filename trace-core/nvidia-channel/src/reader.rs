//! The state of a channel's engines: turns methods into the actions of the GPU.

mod address_words;
mod compute;
mod copy;
mod host;
mod upload;

use crate::command::Command;
use crate::header::SUBCHANNELS;
use crate::memory::{MemoryReader, UploadedMemory};
use crate::methods::compute::LOAD_MME_INSTRUCTION_RAM;
use crate::methods::upload::LOAD_INLINE_DATA;
use crate::push_buffer::{Method, Methods, PushBufferError};
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

impl Engine {
    /// Forgets the state of another class.
    fn select_class(&mut self, class: u16) {
        if self.class != Some(class) {
            *self = Self {
                class: Some(class),
                ..Self::default()
            };
        }
    }
}

impl Method {
    /// Returns whether the values of the method are data, of which only the memory that they go to matters.
    #[must_use]
    pub fn is_data(&self) -> bool {
        match self.class.map(|class| class & 0xff) {
            Some(0xc0 | 0x97) => matches!(self.method, LOAD_INLINE_DATA | LOAD_MME_INSTRUCTION_RAM),
            Some(0x40) => self.method == LOAD_INLINE_DATA,
            _ => false,
        }
    }
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
        engine.select_class(class);
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

    /// Reads the next method with [`Self::read`]; the words of an upload are read together. Returns the method, and the
    /// action that it starts or completes; `None` at the end.
    pub fn read_next(
        &mut self,
        methods: &mut Methods<'_, '_>,
        memory: &dyn MemoryReader,
    ) -> Option<Result<(Method, Option<Command>), PushBufferError>> {
        let method = match methods.next()? {
            Ok(method) => method,
            Err(e) => return Some(Err(e)),
        };
        let values = method.is_data().then(|| methods.take_values()).flatten();
        let command = match values {
            Some(values) => self.read_data(&method, values),
            None => self.read(&method, memory),
        };
        Some(Ok((method, command)))
    }

    /// Reads the values of a method that takes data.
    fn read_data(&mut self, method: &Method, values: &[u8]) -> Option<Command> {
        let class = method.class?;
        let engine = self.engines.get_mut(usize::from(method.subchannel))?;
        engine.select_class(class);
        match method.method {
            LOAD_INLINE_DATA => engine.upload.load(values, &mut self.uploads),
            // Programs of macros are not interpreted.
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
