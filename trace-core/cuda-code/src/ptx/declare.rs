//! Parser of PTX declarations: kernels with their parameters, and variables.

use super::bounds::Bound;
use super::{Cursor, Entry, Parameter, Pointer, Space, Token, Type, Variable};
use crate::Error;

/// The part of a declaration before the name: `.align 8 .v2 .f32`.
pub(super) struct Declaration<'a> {
    element: Type<'a>,
    alignment: Option<u64>,
    pointer: Option<Pointer<'a>>,
}

/// Returns the size of a type in bytes, or `None` if it is no type with a size.
fn bytes(name: &str) -> Option<u64> {
    Some(match name {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        _ => return None,
    })
}

/// Parses a kernel after `.entry`. Returns `None` if it is only declared and its body is elsewhere.
pub(super) fn entry<'a>(cursor: &mut Cursor<'a>, start: Token<'a>) -> Result<Option<Entry<'a>>, Error> {
    let mut entry = Entry {
        name: cursor.word("the name of a kernel")?,
        ..Entry::default()
    };
    if cursor.take(b"(") && !cursor.take(b")") {
        loop {
            let offset = entry.parameter_bytes();
            entry.parameters.push(parameter(cursor, offset)?);
            if !cursor.take(b",") {
                break;
            }
        }
        cursor.expect(b")", "\",\" or \")\"")?;
    }
    loop {
        let end = cursor.taken().map_or(start.end(), |t| t.end());
        let Some(token) = cursor.next() else {
            return Err(cursor.expected("the body of a kernel", None));
        };
        match token.text {
            b"{" => {
                entry.body = token.at;
                entry.head_end = end;
                cursor.skip_braces(token)?;
                return Ok(Some(entry));
            }
            b";" => return Ok(None),
            b".maxntid" => entry.max_threads = Some(three(cursor)?),
            b".reqntid" => entry.required_threads = Some(three(cursor)?),
            b".reqnctapercluster" => entry.cluster = Some(three(cursor)?),
            b".maxclusterrank" => entry.max_cluster = Some(cursor.number("a number of blocks")?),
            b".minnctapersm" => entry.min_blocks = Some(cursor.number("a number of blocks")?),
            b".maxnreg" => entry.max_registers = Some(cursor.number("a number of registers")?),
            // Its semicolon does not end the declaration.
            b".pragma" => while cursor.next().is_some_and(|t| t.text != b";") {},
            _ => {}
        }
        if let Some(bound) = Bound::parse(token.text) {
            let end = cursor.taken().map_or(token.end(), |t| t.end());
            entry.directives.push((bound, token.at..end));
        }
    }
}

/// Parses one to three numbers; missing ones are 1.
fn three(cursor: &mut Cursor<'_>) -> Result<[u32; 3], Error> {
    let mut out = [1; 3];
    for (i, number) in out.iter_mut().enumerate() {
        if i > 0 && !cursor.take(b",") {
            break;
        }
        *number = cursor.number("a number of threads or blocks")?;
    }
    Ok(out)
}

/// Parses a parameter after `before` bytes of other parameters.
fn parameter<'a>(cursor: &mut Cursor<'a>, before: u64) -> Result<Parameter<'a>, Error> {
    cursor.expect(b".param", "\".param\"")?;
    let declared = declared(cursor)?;
    // Textures and similar types are passed as 64-bit handles.
    let handle = matches!(declared.element.name, "texref" | "samplerref" | "surfref").then_some(8);
    let size = declared
        .element
        .bytes
        .or(handle)
        .ok_or_else(|| cursor.expected("a type with a size", cursor.taken()))?;
    let name = cursor.word("the name of a parameter")?;
    let at = cursor.taken().map_or(0, |t| t.at);
    let (elements, open) = dimensions(cursor)?;
    if open {
        return Err(cursor.expected("the length of an array", cursor.taken()));
    }
    let alignment = declared.alignment.unwrap_or(size);
    let too_large = || Error::Field {
        at: at as u64,
        what: "the offset of a parameter",
        found: before,
        expected: "less",
    };
    let offset = before
        .checked_next_multiple_of(alignment.max(1))
        .ok_or_else(too_large)?;
    let bytes = size.checked_mul(elements.unwrap_or(1)).ok_or_else(too_large)?;
    offset.checked_add(bytes).ok_or_else(too_large)?;
    let (element, pointer) = (declared.element, declared.pointer);
    Ok(Parameter {
        name,
        element,
        elements,
        alignment,
        offset,
        bytes,
        pointer,
    })
}

/// Parses the variables of one declaration after `.global` or `.const`, up to its semicolon.
pub(super) fn variables<'a>(
    cursor: &mut Cursor<'a>,
    space: Space,
    external: bool,
    into: &mut Vec<Variable<'a>>,
) -> Result<(), Error> {
    let declared = declared(cursor)?;
    loop {
        let name = cursor.word("the name of a variable")?;
        let at = cursor.taken().map_or(0, |t| t.at) as u64;
        let (mut elements, open) = dimensions(cursor)?;
        let initialised = cursor.take(b"=");
        let mut known = !open;
        if initialised {
            let groups = values(cursor)?;
            if let (true, Some(groups)) = (open, groups) {
                let what = "the length of an array";
                let all = elements.unwrap_or(1).checked_mul(groups);
                elements = Some(all.ok_or(Error::Field {
                    at,
                    what,
                    found: groups,
                    expected: "less",
                })?);
                known = true;
            }
        }
        let size = declared.element.bytes.filter(|_| known);
        let what = "the size of a variable";
        let large = || Error::Field {
            at,
            what,
            found: elements.unwrap_or(1),
            expected: "less",
        };
        let bytes = size
            .map(|s| s.checked_mul(elements.unwrap_or(1)).ok_or_else(large))
            .transpose()?;
        into.push(Variable {
            name,
            space,
            element: declared.element,
            elements: if known { elements } else { None },
            alignment: declared.alignment.or(declared.element.bytes).unwrap_or(1),
            bytes,
            initialised,
            external,
        });
        if !cursor.take(b",") {
            break;
        }
    }
    cursor.expect(b";", "\",\" or \";\"")
}

/// Parses what is between the state space and the name: alignment, vector, type, attributes, pointer target.
fn declared<'a>(cursor: &mut Cursor<'a>) -> Result<Declaration<'a>, Error> {
    let (mut alignment, mut vector, mut name) = (None, 1, None);
    let mut pointer: Option<Pointer<'a>> = None;
    while let Some(token) = cursor.peek().filter(|t| t.text.first() == Some(&b'.')) {
        cursor.next();
        match (token.text, &mut pointer) {
            (b".align", Some(pointer)) => pointer.alignment = align(cursor)?,
            (b".align", None) => alignment = Some(align(cursor)?),
            (b".v2", _) => vector = 2,
            (b".v4", _) => vector = 4,
            (b".v8", _) => vector = 8,
            (b".attribute", _) => attributes(cursor)?,
            (b".ptr", _) => {
                pointer = Some(Pointer {
                    space: None,
                    alignment: 4,
                })
            }
            // After `.ptr` comes a state space; otherwise the type.
            (word, Some(pointer)) => pointer.space = without_point(word),
            (word, None) => name = without_point(word),
        }
    }
    let name = name.ok_or_else(|| cursor.expected("a type", cursor.peek()))?;
    let bytes = bytes(name).map(|b| b * vector);
    Ok(Declaration {
        element: Type { name, vector, bytes },
        alignment,
        pointer,
    })
}

/// Returns a directive's name without its leading point.
fn without_point(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word.get(1..)?).ok().filter(|name| !name.is_empty())
}

/// Parses an alignment: a power of two.
fn align(cursor: &mut Cursor<'_>) -> Result<u64, Error> {
    let number: u64 = cursor.number("an alignment")?;
    if number.is_power_of_two() {
        Ok(number)
    } else {
        Err(cursor.expected("a power of two", cursor.taken()))
    }
}

/// Skips attributes in parentheses.
fn attributes(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    cursor.expect(b"(", "\"(\"")?;
    let mut depth = 1u64;
    while depth > 0 {
        match cursor.next().map(|t| t.text) {
            Some(b"(") => depth += 1,
            Some(b")") => depth -= 1,
            Some(_) => {}
            None => return Err(cursor.expected("\")\"", None)),
        }
    }
    Ok(())
}

/// Parses the array dimensions after a name. Returns the product of the given ones, `None` for no array, and whether
/// the first one is open.
fn dimensions(cursor: &mut Cursor<'_>) -> Result<(Option<u64>, bool), Error> {
    let (mut elements, mut open) = (None::<u64>, false);
    while cursor.take(b"[") {
        if elements.is_none() && cursor.take(b"]") {
            (elements, open) = (Some(1), true);
            continue;
        }
        let length: u64 = cursor.number("the length of an array")?;
        let all = elements.unwrap_or(1).checked_mul(length);
        elements = Some(all.ok_or_else(|| cursor.expected("a smaller array", cursor.taken()))?);
        cursor.expect(b"]", "\"]\"")?;
    }
    Ok((elements, open))
}

/// Skips values after `=`. Returns their number at the outer level of braces, or `None` for a value without braces.
fn values(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Error> {
    let (mut braces, mut parentheses) = (0u64, 0u64);
    // Values of the outer level, and whether there is text after the last comma.
    let (mut count, mut pending, mut seen) = (0u64, false, false);
    while let Some(token) = cursor.peek() {
        match token.text {
            b"," | b";" if braces == 0 && parentheses == 0 => break,
            b"{" => {
                pending |= braces > 0;
                (braces, seen) = (braces + 1, true);
            }
            b"}" => {
                braces = braces
                    .checked_sub(1)
                    .ok_or_else(|| cursor.expected("a value", Some(token)))?
            }
            b"(" => parentheses += 1,
            b")" => {
                parentheses = parentheses
                    .checked_sub(1)
                    .ok_or_else(|| cursor.expected("a value", Some(token)))?
            }
            b"," if braces == 1 && parentheses == 0 => {
                count += 1;
                pending = false;
            }
            _ => pending |= braces == 1,
        }
        cursor.next();
    }
    Ok(seen.then_some(count + u64::from(pending)))
}
