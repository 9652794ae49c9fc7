//! Comparison of matching launches: dimensions and arguments, by type, with addresses resolved to buffers.

use super::buffers::BufferPairs;
use super::call_index::is_host_address;
use super::call_side::{CallSide, Field};
use crate::GpuVa;
use crate::api_trace::{Argument, BufferLocation, Value};
use crate::recording::{ElementType, LaunchRow};

/// Maximum number of words of one argument that are reported.
const MAX_WORDS: usize = 4;

/// A launch on one side.
type Launch<'s, 'r> = (&'s CallSide<'r>, u64, &'s LaunchRow);

fn arguments((side, event, row): Launch<'_, '_>) -> Vec<Argument> {
    side.calls().arguments(side.recording, event, row)
}

/// Returns the locations in an argument, each with its offset.
fn places(argument: &Argument) -> Vec<(u32, BufferLocation)> {
    match &argument.value {
        Value::Pointer { place: Some(place), .. } => vec![(0, *place)],
        Value::Bytes(list) => list.iter().map(|(at, _, place)| (*at, *place)).collect(),
        _ => Vec::new(),
    }
}

/// Counts the buffers that two launches have at the same argument positions.
pub(super) fn match_arguments(a: Launch<'_, '_>, b: Launch<'_, '_>, together: &mut BufferPairs) {
    for (x, y) in arguments(a).iter().zip(&arguments(b)) {
        let there = places(y);
        for (at, place) in places(x) {
            if let Some((_, other)) = there.iter().find(|(o, _)| *o == at) {
                together.count_match(place, *other);
            }
            if at == 0
                && let Some(element) = pointee_type(&x.parameter.name)
            {
                together.set_element_type(place.buffer, element);
            }
        }
    }
}

/// Returns the element type that a pointer of this type points to.
fn pointee_type(name: &str) -> Option<ElementType> {
    let to = name.trim_end_matches("__restrict__").trim_end().strip_suffix('*')?;
    let to = to.trim().trim_end_matches("const").trim_end();
    Some(match to.trim_start_matches("const ").trim() {
        "float" => ElementType::F32,
        "double" => ElementType::F64,
        "__half" | "half" | "c10::Half" => ElementType::F16,
        "char" | "signed char" | "int8_t" => ElementType::I8,
        "unsigned char" | "uint8_t" | "bool" => ElementType::U8,
        "short" | "int16_t" => ElementType::I16,
        "unsigned short" | "uint16_t" => ElementType::U16,
        "int" | "int32_t" => ElementType::I32,
        "unsigned int" | "unsigned" | "uint32_t" => ElementType::U32,
        "long" | "long long" | "int64_t" => ElementType::I64,
        "unsigned long" | "unsigned long long" | "uint64_t" | "size_t" => ElementType::U64,
        _ => return None,
    })
}

/// Returns the fields that differ between two launches.
pub(super) fn differing_fields(a: Launch<'_, '_>, b: Launch<'_, '_>, together: &BufferPairs) -> Vec<Field> {
    let (l, m) = (a.2, b.2);
    let mut out = Vec::new();
    let dims = |d: [u32; 3]| format!("{}×{}×{}", d[0], d[1], d[2]);
    for (name, x, y) in [
        ("grid", l.grid, m.grid),
        ("block", l.block, m.block),
        ("cluster", l.cluster, m.cluster),
    ] {
        if x != y {
            out.push((name.to_owned(), dims(x), dims(y)));
        }
    }
    if l.shared != m.shared {
        out.push(("shared memory".to_owned(), l.shared.to_string(), m.shared.to_string()));
    }
    let (own, others) = (arguments(a), arguments(b));
    if own.len() != others.len() {
        out.push(("arguments".to_owned(), own.len().to_string(), others.len().to_string()));
    }
    let (calls_a, calls_b) = (a.0.calls(), b.0.calls());
    for (x, y) in own.iter().zip(&others) {
        let name = match x.parameter.name.as_str() {
            "" => format!("argument {}", x.label()),
            of => format!("argument {} ({of})", x.label()),
        };
        match (&x.value, &y.value) {
            (Value::Bytes(p), Value::Bytes(q)) if x.raw.len() == y.raw.len() => {
                describe_argument((a, &x.raw, p), (b, &y.raw, q), together, &name, &mut out);
            }
            _ if is_same_argument(x, y, together) => {}
            _ => out.push((name, x.describe(calls_a), y.describe(calls_b))),
        }
    }
    out
}

/// Returns whether two arguments have the same value.
fn is_same_argument(x: &Argument, y: &Argument, together: &BufferPairs) -> bool {
    match (&x.value, &y.value) {
        (
            Value::Pointer { to: p, place, .. },
            Value::Pointer {
                to: q, place: other, ..
            },
        ) => {
            // Addresses outside all buffers differ between runs; a null address does not.
            together.is_same_location(*place, *other) && (place.is_some() || (*p == GpuVa::ZERO) == (*q == GpuVa::ZERO))
        }
        (Value::Missing, Value::Missing) => true,
        // A value that looks like a host address on both sides differs between any two runs.
        (Value::Bits(p), Value::Bits(q)) => p == q || is_host_address(*p) && is_host_address(*q),
        _ => x.raw == y.raw && !matches!(x.value, Value::Pointer { .. }) && !matches!(y.value, Value::Pointer { .. }),
    }
}

/// Addresses among the words of an argument: offset, address, location.
type WordPointers = [(u32, GpuVa, BufferLocation)];

/// Compares arguments of several words, word by word.
fn describe_argument(
    a: (Launch<'_, '_>, &[u8], &WordPointers),
    b: (Launch<'_, '_>, &[u8], &WordPointers),
    together: &BufferPairs,
    name: &str,
    out: &mut Vec<Field>,
) {
    let at = |list: &WordPointers, at: u32| list.iter().find(|p| p.0 == at).map(|p| p.2);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut reported = 0;
    for ((x, y), offset) in a.1.chunks(8).zip(b.1.chunks(8)).zip((0u32..).step_by(8)) {
        let (p, q) = (at(a.2, offset), at(b.2, offset));
        let (v, w) = (number(x), number(y));
        let same = match (p, q) {
            (None, None) => v == w || is_host_address(v) && is_host_address(w),
            _ => together.is_same_location(p, q),
        };
        if same {
            continue;
        }
        reported += 1;
        if reported > MAX_WORDS {
            out.push((name.to_owned(), "more words".to_owned(), "that differ".to_owned()));
            return;
        }
        let words = |(side, event, _): Launch<'_, '_>, place: Option<BufferLocation>, value: u64| match place {
            Some(place) => side.calls().buffers().format_location(place, event),
            None => format!("{value:#x}"),
        };
        out.push((format!("{name} +{offset:#x}"), words(a.0, p, v), words(b.0, q, w)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_behind_a_pointer_is_read_from_its_name() {
        for (name, element) in [
            ("float const*", Some(ElementType::F32)),
            ("float*", Some(ElementType::F32)),
            ("const int* __restrict__", Some(ElementType::I32)),
            ("unsigned char const*", Some(ElementType::U8)),
            ("void*", None),
            ("float**", None),
            ("float", None),
            ("", None),
        ] {
            assert_eq!(pointee_type(name), element, "{name}");
        }
    }
}
