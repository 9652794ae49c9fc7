//! Textures, samplers and attributes that a job binds for its shader, parsed once before the first thread.

use super::descriptors::Table;
use super::stop::Stop;
use super::trace::Trace;
use super::view::View;
use crate::fault::Fault;
use crate::registers::exception;
use crate::texture::{Arch, Attribute, DESCRIPTOR_BYTES, Refusal, Sampler, TexError, TexMemory, Texture};
use trace_core::GpuVa;

/// Maximum number of parsed descriptors of a kind. An operation can encode 128 numbers itself. A shader that takes a
/// greater number from a register stops.
const MAX_DESCRIPTORS: u32 = 128;

impl<T: Trace> TexMemory for View<'_, T> {
    type Error = Stop;

    fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), Stop> {
        View::read(self, va, out)
    }
}

/// Descriptor, or the reason why it is unusable. An unusable descriptor stops only the threads that use it.
pub(crate) type DescriptorResult<D> = Result<D, TexError<Stop>>;

/// The descriptors of a job by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bindings {
    /// Architecture of the descriptor words that the shader itself generates.
    pub arch: Arch,
    textures: Vec<DescriptorResult<Texture>>,
    samplers: Vec<DescriptorResult<Sampler>>,
    attributes: Vec<DescriptorResult<Attribute>>,
}

fn load_descriptors<D>(count: u32, mut load: impl FnMut(u32) -> DescriptorResult<D>) -> Vec<DescriptorResult<D>> {
    (0..count.min(MAX_DESCRIPTORS)).map(&mut load).collect()
}

fn descriptor_va(table: Table, number: u32) -> GpuVa {
    table
        .va
        .wrapping_add(u64::from(number).wrapping_mul(DESCRIPTOR_BYTES as u64))
}

/// Returns the error for a number without a descriptor.
fn missing_descriptor<D>(what: &'static str, number: u32) -> DescriptorResult<D> {
    Err(TexError::Refused(Refusal::Value {
        field: what,
        value: number,
    }))
}

impl Bindings {
    /// Reads the descriptors of a job's tables. This cannot fail: errors are stored, see [`DescriptorResult`].
    pub(crate) fn read<T: Trace>(
        view: &mut View<'_, T>,
        arch: Arch,
        textures: Table,
        samplers: Table,
        (attributes, buffers): (Table, GpuVa),
    ) -> Self {
        Self {
            arch,
            textures: load_descriptors(textures.count, |n| {
                Texture::load(arch, view, descriptor_va(textures, n))
            }),
            samplers: load_descriptors(samplers.count, |n| Sampler::load(view, descriptor_va(samplers, n))),
            attributes: load_descriptors(attributes.count, |n| {
                Attribute::load(arch, view, attributes.va, buffers, n)
            }),
        }
    }

    /// Returns a texture.
    pub(crate) fn texture(&self, number: u32) -> Result<&Texture, TexError<Stop>> {
        match self.textures.get(number as usize) {
            Some(t) => t.as_ref().map_err(Clone::clone),
            None => missing_descriptor("the number of a texture", number),
        }
    }

    /// Returns a sampler.
    pub(crate) fn sampler(&self, number: u32) -> Result<&Sampler, TexError<Stop>> {
        match self.samplers.get(number as usize) {
            Some(s) => s.as_ref().map_err(Clone::clone),
            None => missing_descriptor("the number of a sampler", number),
        }
    }

    /// Returns an attribute.
    pub(crate) fn attribute(&self, number: u32) -> Result<&Attribute, TexError<Stop>> {
        match self.attributes.get(number as usize) {
            Some(a) => a.as_ref().map_err(Clone::clone),
            None => missing_descriptor("the number of an attribute", number),
        }
    }
}

/// Returns the stop of a thread whose access failed in the clause at `pc`. Hardware reports a descriptor of the wrong
/// kind as invalid data.
pub(crate) fn stop_for_error(pc: GpuVa, why: TexError<Stop>) -> Stop {
    match why {
        TexError::Memory(stop) => stop,
        TexError::Refused(Refusal::DescriptorType { .. }) => Fault::Job(exception::DATA_INVALID).into(),
        TexError::Refused(refusal) => Stop::Unimplemented {
            pc,
            name: refusal.to_string().into_boxed_str(),
        },
    }
}
