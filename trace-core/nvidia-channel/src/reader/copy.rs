//! A copy engine.

use super::address_words::AddressWords;
use crate::command::{
    Command, Component, Copy, Remap, Semaphore, SemaphoreOperation, SemaphoreSource, Surface, SurfaceLayout,
};
use crate::methods::copy::*;
use crate::push_buffer::Method;

/// State of the engine.
#[derive(Debug, Clone, Default)]
pub(super) struct CopyEngine {
    semaphore: AddressWords,
    payload: AddressWords,
    source: AddressWords,
    destination: AddressWords,
    source_pitch: u32,
    destination_pitch: u32,
    line_length: u32,
    lines: u32,
    constants: [u32; 2],
    components: u32,
}

impl CopyEngine {
    /// Reads a method. Returns the copy or the semaphore that it starts.
    pub(super) fn read(&mut self, class: u16, method: &Method) -> Option<Command> {
        let value = method.value;
        match method.method {
            SET_SEMAPHORE_A => self.semaphore.upper = value,
            SET_SEMAPHORE_B => self.semaphore.lower = value,
            SET_SEMAPHORE_PAYLOAD => self.payload.lower = value,
            SET_SEMAPHORE_PAYLOAD_UPPER => self.payload.upper = value,
            OFFSET_IN_UPPER => self.source.upper = value,
            OFFSET_IN_LOWER => self.source.lower = value,
            OFFSET_OUT_UPPER => self.destination.upper = value,
            OFFSET_OUT_LOWER => self.destination.lower = value,
            PITCH_IN => self.source_pitch = value,
            PITCH_OUT => self.destination_pitch = value,
            LINE_LENGTH_IN => self.line_length = value,
            LINE_COUNT => self.lines = value,
            SET_REMAP_CONST_A => self.constants[0] = value,
            SET_REMAP_CONST_B => self.constants[1] = value,
            SET_REMAP_COMPONENTS => self.components = value,
            LAUNCH_DMA => return self.launch(class, method),
            _ => {}
        }
        None
    }

    fn launch(&self, class: u16, method: &Method) -> Option<Command> {
        let value = method.value;
        let flag = |bit: u32| value >> bit & 1 != 0;
        let semaphore = self.semaphore(method);
        let transfer = value & 3;
        if !(1..=2).contains(&transfer) {
            return semaphore.map(Command::Semaphore);
        }
        let surface = |address: AddressWords, pitch, layout_bit, physical_bit| Surface {
            address: address.address(),
            physical: flag(physical_bit),
            pitch,
            layout: match flag(layout_bit) {
                true => SurfaceLayout::Pitch,
                false => SurfaceLayout::BlockLinear,
            },
        };
        Some(Command::Copy(Copy {
            word: method.word,
            class,
            source: surface(self.source, self.source_pitch, 7, 12),
            destination: surface(self.destination, self.destination_pitch, 8, 13),
            line_length: self.line_length,
            lines: if flag(9) { self.lines } else { 1 },
            remap: flag(10).then(|| self.remap()),
            pipelined: transfer == 1,
            flush: flag(2),
            semaphore,
        }))
    }

    /// Returns the semaphore that a launch releases.
    fn semaphore(&self, method: &Method) -> Option<Semaphore> {
        let value = method.value;
        let kind = value >> 3 & 3;
        let wide = value >> 27 & 1 != 0;
        let operation = match value >> 19 & 1 {
            1 => SemaphoreOperation::Reduce((value >> 14 & 0xf) as u8),
            _ => SemaphoreOperation::Release,
        };
        (kind != 0).then(|| Semaphore {
            word: method.word,
            source: SemaphoreSource::Copy,
            operation,
            address: self.semaphore.address(),
            payload: if wide {
                self.payload.address().0
            } else {
                u64::from(self.payload.lower)
            },
            wide,
            timestamp: kind == 2,
        })
    }

    fn remap(&self) -> Remap {
        let bits = self.components;
        let component = |n: u32| match bits >> (4 * n) & 7 {
            source @ 0..=3 => Component::Source(source as u8),
            4 => Component::ConstantA,
            5 => Component::ConstantB,
            _ => Component::Unwritten,
        };
        let count = |low: u32| (bits >> low & 3) + 1;
        Remap {
            constant_a: self.constants[0],
            constant_b: self.constants[1],
            components: [component(0), component(1), component(2), component(3)],
            component_bytes: count(16),
            source_components: count(20),
            destination_components: count(24),
        }
    }
}
