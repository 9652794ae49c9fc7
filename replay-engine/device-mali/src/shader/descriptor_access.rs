//! Execution of instructions that use descriptors: their operands and registers.
//!
//! [`crate::texture`] defines the results for a thread.

use super::descriptor_op::{DescriptorOp, ElementOperand};
use super::message::MessageSender;
use super::wave::lane_indices;
use crate::compute::bindings;
use crate::compute::stop::Stop;
use crate::compute::trace::Trace;
use crate::texture::{
    Attribute, Conversion, Derivatives, MAX_STAGING, Operation, Refusal, RegisterFormat, Single, TexError,
};
use trace_core::GpuVa;

/// Number of registers of a thread.
const REGISTERS: usize = 64;

/// Operands of a thread.
type Operands = [u32; 3];

impl<T: Trace> MessageSender<'_, '_, '_, '_, T> {
    /// Executes an instruction for every lane. `from` are its operands, `staging` is its first register.
    pub(super) fn run_descriptor_op(&mut self, what: &DescriptorOp, from: [u16; 3], staging: u8) -> Result<(), Stop> {
        let mut decoded = None;
        for lane in lane_indices(self.lanes) {
            self.set_access_source(lane);
            let operands = from.map(|place| self.word(place, lane));
            let done = match *what {
                DescriptorOp::Texture => {
                    // The word is a constant of the shader, so it is decoded once.
                    let op = match decoded {
                        Some((word, op)) if word == operands[2] => Ok(op),
                        _ => Operation::decode(operands[2]).map_err(TexError::Refused),
                    };
                    op.and_then(|op| {
                        decoded = Some((operands[2], op));
                        match op {
                            Operation::Single(op) => self.sample(&op, lane, operands, staging, staging),
                            Operation::Dual(d) => {
                                self.sample(&d.primary, lane, operands, staging, staging)?;
                                self.sample(&d.secondary, lane, operands, staging, d.secondary_register as u8)
                            }
                        }
                    })
                }
                DescriptorOp::Simple(op) => self.sample(&op, lane, operands, staging, staging),
                DescriptorOp::LoadAttribute { place, format, count } => {
                    self.load_attribute(place, format, u32::from(count), lane, operands, staging)
                }
                DescriptorOp::LoadAddress { place, format } => {
                    self.load_address(place, format, lane, operands, staging)
                }
                DescriptorOp::Store { count } => self.store_converted(u32::from(count), lane, operands, staging),
                DescriptorOp::Load { count } => self.load_converted(u32::from(count), lane, operands, staging),
            };
            done.map_err(|why| bindings::stop_for_error(self.clause, why))?;
        }
        Ok(())
    }

    /// Writes up to four consecutive registers.
    fn put_all(&mut self, staging: u8, lane: usize, words: [u32; 4], written: u8) {
        for (n, word) in (0u16..).zip(words) {
            if written >> n & 1 == 1 {
                self.put(staging, n, lane, word);
            }
        }
    }

    fn put_components(&mut self, staging: u8, lane: usize, format: RegisterFormat, values: [u32; 4], count: u32) {
        let registers = format.registers(count);
        self.put_all(staging, lane, format.pack(values), (1u8 << registers) - 1);
    }

    fn sample(
        &mut self,
        op: &Single,
        lane: usize,
        [x, y, _]: Operands,
        staging: u8,
        to: u8,
    ) -> Result<(), TexError<Stop>> {
        let count = op.staging();
        let written = 8 - op.written_mask().leading_zeros() as usize;
        if usize::from(staging) + count > REGISTERS || usize::from(to) + written > REGISTERS {
            return Err(TexError::Refused(Refusal::Feature(
                "a texture operation beyond the last register",
            )));
        }
        if op.needs_derivatives() {
            return Err(TexError::Refused(Refusal::Feature(
                "a computed level of detail in a compute shader",
            )));
        }
        let mut staged = [0; MAX_STAGING];
        for (n, word) in (0u16..).zip(staged.iter_mut().take(count)) {
            *word = self.staging_word(staging, n, lane);
        }
        let staged = staged.get(..count).unwrap_or(&[]);
        let (texture, sampler) = op.indices(staged);
        let job = self.running.job;
        let bindings = &job.bindings;
        let (texture, sampler) = (bindings.texture(texture)?, bindings.sampler(sampler)?);
        let none = Derivatives::default();
        let words = op.run(self.view, texture, sampler, (x, y), staged, none)?;
        self.put_all(to, lane, words, op.written_mask());
        Ok(())
    }

    /// Returns the attribute that the operands select, and the address of the element.
    fn element_address(
        &self,
        place: ElementOperand,
        [x, y, z]: Operands,
    ) -> Result<(Attribute, Option<GpuVa>), TexError<Stop>> {
        let number = place.number.map_or(z, u32::from);
        let attribute = *self.running.job.bindings.attribute(number)?;
        let at = if place.image {
            attribute.texel(x, y)?
        } else {
            attribute.element(x)?
        };
        Ok((attribute, at))
    }

    fn load_attribute(
        &mut self,
        place: ElementOperand,
        format: Option<RegisterFormat>,
        count: u32,
        lane: usize,
        operands: Operands,
        staging: u8,
    ) -> Result<(), TexError<Stop>> {
        let (attribute, at) = self.element_address(place, operands)?;
        let values = attribute.load_from(self.view, at, format)?;
        let format = format.unwrap_or(RegisterFormat::natural(attribute.format.class()));
        self.put_components(staging, lane, format, values, count);
        Ok(())
    }

    fn load_address(
        &mut self,
        place: ElementOperand,
        format: Option<RegisterFormat>,
        lane: usize,
        operands: Operands,
        staging: u8,
    ) -> Result<(), TexError<Stop>> {
        let (attribute, at) = self.element_address(place, operands)?;
        let [low, high, word] = attribute.reference(at, format);
        self.put_all(staging, lane, [low, high, word, 0], 7);
        Ok(())
    }

    fn store_converted(
        &mut self,
        count: u32,
        lane: usize,
        [low, high, word]: Operands,
        staging: u8,
    ) -> Result<(), TexError<Stop>> {
        let Some(conversion) = Conversion::parse(self.running.job.bindings.arch, word)? else {
            return Ok(());
        };
        let registers = conversion.registers.registers(count) as u16;
        let mut words = [0; 4];
        for (n, to) in (0..registers).zip(&mut words) {
            *to = self.staging_word(staging, n, lane);
        }
        let stored = conversion.store(words, count)?;
        let va = GpuVa::new(u64::from(low) | u64::from(high) << 32);
        self.view.write(va, stored.bytes()).map_err(TexError::Memory)
    }

    fn load_converted(
        &mut self,
        count: u32,
        lane: usize,
        [low, high, word]: Operands,
        staging: u8,
    ) -> Result<(), TexError<Stop>> {
        let va = GpuVa::new(u64::from(low) | u64::from(high) << 32);
        match Conversion::parse(self.running.job.bindings.arch, word)? {
            Some(conversion) => {
                let values = conversion.load(self.view, va)?;
                self.put_components(staging, lane, conversion.registers, values, count);
            }
            // Out of range: writes zeros to as many registers as the components could need.
            None => self.put_components(staging, lane, RegisterFormat::U32, [0; 4], count),
        }
        Ok(())
    }
}
