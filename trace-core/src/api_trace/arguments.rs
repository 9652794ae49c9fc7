//! Arguments of a launch, decoded with the function's parameter layout.
//!
//! Numbers are decoded by their types. Addresses, also those inside structures, are resolved to the buffers that
//! contain them.

use super::ApiTrace;
use super::buffers::BufferLocation;
use super::types::{Parameter, ParameterType};
use crate::GpuVa;
use crate::memory::f16_to_f32;
use crate::recording::{LaunchRow, Recording};

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Event of the launch.
    pub event: u64,
    /// Index among the arguments, from 0.
    pub index: usize,
    /// Offset, size and type of the parameter.
    pub parameter: Parameter,
    /// Raw bytes; shorter than the parameter if the recording does not hold all of them.
    pub raw: Vec<u8>,
    /// The decoded value.
    pub value: Value,
}

/// The decoded value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An address and the buffer location that it points to.
    Pointer {
        /// The address.
        to: GpuVa,
        /// The location in a buffer; `None` if no known buffer contains the address.
        place: Option<BufferLocation>,
        /// Whether the type forbids writes through this pointer.
        constant: bool,
        /// Whether the type says that this is an address.
        typed: bool,
    },
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A Boolean.
    Bool(bool),
    /// A value of unknown type, 1, 2, 4 or 8 bytes.
    Bits(u64),
    /// Bytes, with the buffer addresses among their words: offset in the argument, address, location.
    Bytes(Vec<(u32, GpuVa, BufferLocation)>),
    /// The recording does not hold the value.
    Missing,
}

impl Argument {
    /// Returns the addresses in the value that point into buffers, with their locations.
    pub fn pointers(&self) -> impl Iterator<Item = (GpuVa, BufferLocation)> + '_ {
        let one = match &self.value {
            Value::Pointer {
                to, place: Some(place), ..
            } => Some((*to, *place)),
            _ => None,
        };
        let many = match &self.value {
            Value::Bytes(list) => list.as_slice(),
            _ => &[],
        };
        one.into_iter().chain(many.iter().map(|(_, to, place)| (*to, *place)))
    }

    /// Returns the argument's name, or its number if the code does not name it.
    #[must_use]
    pub fn label(&self) -> String {
        match self.parameter.label.as_str() {
            "" => self.index.to_string(),
            label => label.to_owned(),
        }
    }

    /// Returns the value as text, after the argument's name if it has one: `inner = 64`.
    #[must_use]
    pub fn describe_labelled(&self, api_trace: &ApiTrace) -> String {
        match self.parameter.label.as_str() {
            "" => self.describe(api_trace),
            label => format!("{label} = {}", self.describe(api_trace)),
        }
    }

    /// Returns the value as text; locations are shown with the names of their buffers.
    #[must_use]
    pub fn describe(&self, api_trace: &ApiTrace) -> String {
        match &self.value {
            Value::Pointer { to: GpuVa::ZERO, .. } => "null".to_owned(),
            Value::Pointer { place: Some(place), .. } => api_trace.buffers().format_location(*place, self.event),
            Value::Pointer { to, .. } => format!("{to:#x}"),
            Value::Signed(n) => n.to_string(),
            Value::Unsigned(n) => n.to_string(),
            Value::Float(f) => float(*f),
            Value::Bool(b) => b.to_string(),
            Value::Bits(bits) => bits_words(*bits, self.parameter.bytes),
            Value::Bytes(list) => {
                let mut words = format!("{} bytes", self.raw.len());
                for (at, _, place) in list {
                    words.push_str(&format!(
                        ", {} at +{at:#x}",
                        api_trace.buffers().format_location(*place, self.event)
                    ));
                }
                words
            }
            Value::Missing => "not recorded".to_owned(),
        }
    }
}

/// Formats a floating-point number for display.
fn float(f: f64) -> String {
    let size = f.abs();
    if f != 0.0 && f.is_finite() && !(1e-4..1e9).contains(&size) {
        format!("{f:e}")
    } else {
        format!("{f}")
    }
}

/// Formats a value of unknown type: the number, and other plausible readings of it.
fn bits_words(bits: u64, bytes: u32) -> String {
    match bytes {
        4 => {
            let value = f32::from_bits(bits as u32);
            // Few integers that programs pass look like a floating-point number of a common magnitude.
            if bits != 0 && (1e-6..1e7).contains(&value.abs()) {
                format!("{bits:#x} = f32 {}", float(f64::from(value)))
            } else if (bits as u32 as i32) < 0 {
                format!("{} = {bits:#x}", bits as u32 as i32)
            } else {
                bits.to_string()
            }
        }
        8 => {
            let value = f64::from_bits(bits);
            if bits != 0 && (1e-6..1e7).contains(&value.abs()) {
                format!("{bits:#x} = f64 {}", float(value))
            } else if bits > 1 << 32 {
                format!("{bits:#x}")
            } else {
                bits.to_string()
            }
        }
        _ => bits.to_string(),
    }
}

/// Reads a little-endian number of up to eight bytes.
pub(super) fn little_endian(raw: &[u8]) -> u64 {
    raw.iter().take(8).rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Sign-extends a number from its highest bit.
fn signed(bits: u64, bytes: u32) -> i64 {
    let shift = 64 - 8 * bytes.clamp(1, 8);
    ((bits << shift) as i64) >> shift
}

impl ApiTrace {
    /// Returns the arguments of a launch, decoded with the layout of its function. Without a layout, returns one
    /// argument that holds all bytes.
    #[must_use]
    pub fn arguments(&self, recording: &Recording, event: u64, row: &LaunchRow) -> Vec<Argument> {
        let all = recording.events.call_arguments(row.arguments_at, row.arguments);
        let whole;
        let list = match self.parameters(row.function) {
            [] if row.arguments > 0 => {
                whole = [Parameter {
                    offset: 0,
                    bytes: row.arguments,
                    label: String::new(),
                    name: String::new(),
                    data_type: ParameterType::Bytes,
                }];
                &whole[..]
            }
            list => list,
        };
        let decoded = list.iter().enumerate().map(|(index, parameter)| {
            let (from, bytes) = (parameter.offset as usize, parameter.bytes as usize);
            let raw = all.as_deref().and_then(|a| a.get(from..from.checked_add(bytes)?));
            let raw = raw.unwrap_or_default().to_vec();
            let value = self.value(parameter, &raw, event);
            Argument {
                event,
                index,
                parameter: parameter.clone(),
                raw,
                value,
            }
        });
        decoded.collect()
    }

    fn value(&self, parameter: &Parameter, raw: &[u8], event: u64) -> Value {
        if raw.len() != parameter.bytes as usize || raw.is_empty() {
            return Value::Missing;
        }
        let bits = little_endian(raw);
        let pointer = |constant, typed| Value::Pointer {
            to: GpuVa::new(bits),
            place: self.buffers().locate(GpuVa::new(bits), event),
            constant,
            typed,
        };
        match parameter.data_type {
            ParameterType::Pointer { constant } => pointer(constant, true),
            ParameterType::Bits if raw.len() == 8 && self.buffers().locate(GpuVa::new(bits), event).is_some() => {
                pointer(false, false)
            }
            ParameterType::Bits => Value::Bits(bits),
            ParameterType::Signed => Value::Signed(signed(bits, parameter.bytes)),
            ParameterType::Unsigned => Value::Unsigned(bits),
            ParameterType::Bool => Value::Bool(bits != 0),
            ParameterType::Float => Value::Float(match raw.len() {
                2 => f64::from(f16_to_f32(bits as u16)),
                4 => f64::from(f32::from_bits(bits as u32)),
                _ => f64::from_bits(bits),
            }),
            ParameterType::BFloat16 => Value::Float(f64::from(f32::from_bits((bits as u32) << 16))),
            ParameterType::Bytes => {
                let words = raw.as_chunks::<8>().0.iter().zip((0u32..).step_by(8));
                let places = words.filter_map(|(word, at)| {
                    let to = GpuVa::new(u64::from_le_bytes(*word));
                    Some((at, to, self.buffers().locate(to, event)?))
                });
                Value::Bytes(places.collect())
            }
        }
    }
}
