//! Types of a function's parameters, from its signature or its PTX.

use crate::recording::CallFunction;
use cuda_code::ptx;
use serde::Serialize;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterType {
    /// An address. `constant` is set if the signature forbids writes through it.
    Pointer {
        /// Whether the pointed-to type is `const`.
        constant: bool,
    },
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A floating-point number, of 2, 4 or 8 bytes.
    Float,
    /// A bfloat16: a 2-byte floating-point number with the exponent width of a 4-byte one.
    BFloat16,
    /// A Boolean.
    Bool,
    /// Untyped bits: an address, a number or something else, of 1, 2, 4 or 8 bytes.
    #[default]
    Bits,
    /// Bytes: a structure or an array.
    Bytes,
}

/// A parameter of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Offset in the parameter buffer, bytes.
    pub offset: u32,
    /// Size, bytes.
    pub bytes: u32,
    /// The parameter's name in the PTX; empty if the compiler only numbered it.
    #[serde(skip)]
    pub label: String,
    /// The type as the source or the PTX names it; empty if it is not known.
    #[serde(rename = "type")]
    pub name: String,
    /// The type of the data.
    #[serde(skip)]
    pub data_type: ParameterType,
}

/// Returns the parameters of a function. Offsets come from the driver's layout; types come from the signature, or
/// else from the PTX. Returns no parameters if the layout is not known.
#[must_use]
pub fn parameters(function: &CallFunction, shown: &str, entry: Option<&ptx::Entry<'_>>) -> Vec<Parameter> {
    let report = signature(shown).filter(|t| t.len() == function.parameters.len());
    let of_ptx = entry
        .map(|e| &e.parameters)
        .filter(|p| p.len() == function.parameters.len());
    let plain = |(n, [offset, bytes]): (usize, &[u32; 2])| {
        let (offset, bytes) = (*offset, *bytes);
        let named = report.as_ref().and_then(|t| t.get(n));
        let by_name = named.and_then(|name| Some((name.clone(), type_from_name(name, bytes)?)));
        let by_ptx = || {
            let p = of_ptx?.get(n).filter(|p| p.bytes == u64::from(bytes))?;
            Some(type_from_parameter(p))
        };
        let (name, holds) = by_name.or_else(by_ptx).unwrap_or_else(|| {
            let holds = match bytes {
                1 | 2 | 4 | 8 => ParameterType::Bits,
                _ => ParameterType::Bytes,
            };
            (named.cloned().unwrap_or_default(), holds)
        });
        let label = of_ptx
            .and_then(|all| all.get(n))
            .map_or("", |p| own_name(p.name, &function.name));
        Parameter {
            offset,
            bytes,
            label: label.to_owned(),
            name,
            data_type: holds,
        }
    };
    function.parameters.iter().enumerate().map(plain).collect()
}

/// Returns the name of a parameter in its PTX; empty if the compiler only numbered it (`kernel_param_0`).
fn own_name<'a>(name: &'a str, function: &str) -> &'a str {
    let numbered = name
        .strip_prefix(function)
        .and_then(|rest| rest.strip_prefix("_param_"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if numbered.is_some_and(is_number) || name.starts_with("_param_") {
        return "";
    }
    name
}

/// Returns the types between the outer parentheses of a demangled name; `None` if it has none.
fn signature(name: &str) -> Option<Vec<String>> {
    let body = name.trim_end().strip_suffix(')')?;
    // Find the parenthesis that the last one closes: everything before it belongs to the name.
    let mut depth = 1usize;
    let open = body.char_indices().rev().find_map(|(at, c)| {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    let inner = body.get(open + 1..)?.trim();
    if inner.is_empty() || inner == "void" {
        return Some(Vec::new());
    }
    let (mut types, mut depth, mut from) = (Vec::new(), 0i64, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                types.push(inner.get(from..at)?.trim().to_owned());
                from = at + 1;
            }
            _ => {}
        }
    }
    types.push(inner.get(from..)?.trim().to_owned());
    Some(types)
}

/// Returns the parameter type of a C++ type; `None` if its size differs or the type's name is not known.
fn type_from_name(name: &str, bytes: u32) -> Option<ParameterType> {
    if let Some(to) = name.trim_end_matches("__restrict__").trim_end().strip_suffix('*') {
        let to = to.trim();
        // The compiler writes `float const*`; people may write `const float*`. In a pointer to pointers, `const`
        // belongs to the inner pointer.
        let constant = to.ends_with("const") || (to.starts_with("const ") && !to.ends_with('*'));
        return (bytes == 8).then_some(ParameterType::Pointer { constant });
    }
    if name.ends_with('&') {
        return (bytes == 8).then_some(ParameterType::Pointer { constant: false });
    }
    let name = name.trim_start_matches("const ").trim_end_matches(" const").trim();
    let (holds, size) = match name {
        "bool" => (ParameterType::Bool, 1),
        "char" | "signed char" | "int8_t" => (ParameterType::Signed, 1),
        "unsigned char" | "uint8_t" => (ParameterType::Unsigned, 1),
        "short" | "int16_t" => (ParameterType::Signed, 2),
        "unsigned short" | "uint16_t" => (ParameterType::Unsigned, 2),
        "int" | "int32_t" => (ParameterType::Signed, 4),
        "unsigned int" | "unsigned" | "uint32_t" => (ParameterType::Unsigned, 4),
        "long" | "long long" | "int64_t" => (ParameterType::Signed, 8),
        "unsigned long" | "unsigned long long" | "uint64_t" | "size_t" => (ParameterType::Unsigned, 8),
        "float" => (ParameterType::Float, 4),
        "double" => (ParameterType::Float, 8),
        "__half" | "half" | "c10::Half" => (ParameterType::Float, 2),
        "__nv_bfloat16" | "c10::BFloat16" => (ParameterType::BFloat16, 2),
        _ => return None,
    };
    (bytes == size).then_some(holds)
}

/// Returns the type of a PTX parameter, with the type as PTX writes it.
fn type_from_parameter(p: &ptx::Parameter<'_>) -> (String, ParameterType) {
    let one = p.element.vector == 1 && p.elements.is_none();
    let name = match p.elements {
        Some(n) => format!(".{} [{n}]", p.element.name),
        None if p.pointer.is_some() => format!(".{} .ptr", p.element.name),
        None => format!(".{}", p.element.name),
    };
    let holds = match (one, p.pointer.is_some(), p.element.name) {
        (false, ..) => ParameterType::Bytes,
        (_, true, _) if p.bytes == 8 => ParameterType::Pointer { constant: false },
        (_, _, "f16" | "f32" | "f64") => ParameterType::Float,
        (_, _, "bf16") => ParameterType::BFloat16,
        (_, _, "s8" | "s16" | "s32" | "s64") => ParameterType::Signed,
        // Compilers also declare addresses as `.u64` and signed numbers as `.u32`.
        _ => ParameterType::Bits,
    };
    (name, holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(parameters: &[[u32; 2]]) -> CallFunction {
        CallFunction {
            parameters: parameters.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn signature_gives_parameter_types() {
        let types = |name: &str| signature(name).unwrap();
        assert_eq!(
            types("add(float const*, float*, int)"),
            ["float const*", "float*", "int"]
        );
        assert_eq!(
            types("void at::native::kernel<4, at::Functor<float, (int)3>>(int, std::pair<int, long>, void (*)(int))"),
            ["int", "std::pair<int, long>", "void (*)(int)"]
        );
        assert_eq!(types("f()"), [""; 0]);
        assert_eq!(types("(anonymous namespace)::f(bool)"), ["bool"]);
        assert_eq!(signature("plain_name"), None);
        assert_eq!(signature(")("), None);
        let f = function(&[[0, 8], [8, 8], [16, 4], [20, 2], [24, 24]]);
        let p = parameters(&f, "k(float const*, float**, int, __half, Shape)", None);
        let holds: Vec<ParameterType> = p.iter().map(|p| p.data_type).collect();
        assert_eq!(
            holds,
            [
                ParameterType::Pointer { constant: true },
                ParameterType::Pointer { constant: false },
                ParameterType::Signed,
                ParameterType::Float,
                ParameterType::Bytes
            ]
        );
        assert_eq!(p[4].name, "Shape");
        // A signature with another number of parameters, or with a size that does not match, gives no types.
        let p = parameters(&f, "k(int)", None);
        assert!(
            p.iter()
                .take(4)
                .all(|p| p.data_type == ParameterType::Bits && p.name.is_empty())
        );
        let p = parameters(&function(&[[0, 4]]), "k(float*)", None);
        assert_eq!(p[0].data_type, ParameterType::Bits);
    }

    #[test]
    fn ptx_gives_parameter_types() {
        let text = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 .ptr \
                     .global .align 4 b, .param .f32 c, .param .align 8 .b8 d[24], .param .u32 e){ret;}";
        let ptx = ptx::Ptx::parse(text).unwrap();
        let f = function(&[[0, 8], [8, 8], [16, 4], [24, 24], [48, 4]]);
        let p = parameters(&f, "k", ptx.entry("k"));
        let holds: Vec<(ParameterType, &str)> = p.iter().map(|p| (p.data_type, &*p.name)).collect();
        assert_eq!(
            holds,
            [
                (ParameterType::Bits, ".u64"),
                (ParameterType::Pointer { constant: false }, ".u64 .ptr"),
                (ParameterType::Float, ".f32"),
                (ParameterType::Bytes, ".b8 [24]"),
                (ParameterType::Bits, ".u32"),
            ]
        );
        let labels: Vec<&str> = p.iter().map(|p| &*p.label).collect();
        assert_eq!(labels, ["a", "b", "c", "d", "e"]);
        assert_eq!(
            (own_name("k_param_12", "k"), own_name("k_param_x", "k")),
            ("", "k_param_x")
        );
    }
}
