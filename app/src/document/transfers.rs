//! Recordings of calls as replays see them: what goes to the device and comes back as buffers by name.

use replay_engine::device::cuda::{Script, Transfer};
use trace_core::GpuVa;
use trace_core::recording::{Buffer, BufferRole, ElementType, Recording};

/// What copies carry, as buffers: each input once, each output; none where it is no recording of calls. Their type is not
/// recorded: they are bytes.
#[must_use]
pub fn buffers(recording: &Recording) -> Vec<Buffer> {
    let Ok(script) = Script::of(recording) else {
        return Vec::new();
    };
    let buffer = |t: &Transfer, role, at| Buffer {
        name: t.name.clone(),
        role,
        address_space: 0,
        va: GpuVa(at),
        bytes: t.row.total().unwrap_or(0),
        element: ElementType::U8,
    };
    let mut all: Vec<Buffer> = Vec::new();
    for t in script.inputs.iter().skip(script.first) {
        if !all.iter().any(|b| b.name == t.name) {
            all.push(buffer(t, BufferRole::Input, t.row.to));
        }
    }
    all.extend(script.outputs.iter().map(|t| buffer(t, BufferRole::Output, t.row.from)));
    all
}

/// The name that a buffer has, its type and its shape, as a person writes them: `out0=f32:1x1000`, `in0=u8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The buffer.
    pub name: String,
    /// Type of its elements.
    pub element: ElementType,
    /// Its sides, outermost first; empty: a list.
    pub shape: Vec<u64>,
}

/// Reads what a person writes.
///
/// # Errors
/// When it is not of this form, in words.
pub fn typed(text: &str) -> Result<Typed, String> {
    let bad = || {
        format!("'{text}' tells no type of a buffer (expected NAME=TYPE or NAME=TYPE:SIDExSIDE, as out0=f32:1x1000)")
    };
    let (name, rest) = text.split_once('=').ok_or_else(bad)?;
    let (element, shape) = rest.split_once(':').unwrap_or((rest, ""));
    let element = ElementType::ALL
        .into_iter()
        .find(|e| e.name() == element)
        .ok_or_else(bad)?;
    let sides = shape.split('x').filter(|s| !s.is_empty()).map(|s| s.parse().ok());
    let shape: Option<Vec<u64>> = sides.collect();
    match shape {
        Some(shape) if !name.is_empty() => Ok(Typed {
            name: name.to_owned(),
            element,
            shape,
        }),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_buffers_are_read_and_others_told() {
        let t = typed("out0=f32:1x1000").unwrap();
        assert_eq!(
            (t.name.as_str(), t.element, t.shape),
            ("out0", ElementType::F32, vec![1, 1000])
        );
        assert_eq!(typed("in0=u8").unwrap().shape, Vec::<u64>::new());
        for wrong in ["", "out0", "out0=", "=f32", "out0=f33", "out0=f32:1xa", "out0=f32:-1"] {
            assert!(typed(wrong).unwrap_err().contains("expected NAME=TYPE"), "{wrong}");
        }
    }
}
