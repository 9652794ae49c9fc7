//! A changed copy of a program: its start function becomes an export, and it can note the place of each instruction
//! that can trap.
//!
//! The interpreter reports the kind of a trap, but not its place. A second run of the changed program finds the place.

use wasmparser::{BinaryReader, Operator, Parser, Payload};

/// Name of the export that the start function becomes.
pub(crate) const START_EXPORT: &str = "kinescope.start";
/// Name of the exported global with the byte offset of the last instruction that could trap; -1 before the first.
pub(crate) const PLACE_EXPORT: &str = "kinescope.place";

const GLOBAL_SECTION: u8 = 6;
const EXPORT_SECTION: u8 = 7;
const START_SECTION: u8 = 8;
const CODE_SECTION: u8 = 10;

/// Changes a validated program without imported globals.
///
/// # Errors
/// When the program cannot be read.
pub(crate) fn change(program: &[u8], notes_places: bool) -> Result<Vec<u8>, wasmparser::BinaryReaderError> {
    let mut sections: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut bodies = Vec::new();
    let (mut start, mut globals) = (None, 0);
    for payload in Parser::new(0).parse_all(program) {
        let payload = payload?;
        match &payload {
            Payload::StartSection { func, .. } => start = Some(*func),
            Payload::GlobalSection(reader) => globals = reader.count(),
            Payload::CodeSectionEntry(body) => bodies.push(body.clone()),
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let content = bytes(program, range.start, range.end);
            sections.push((id, content.to_vec()));
        }
    }
    let place = notes_places.then_some(globals);
    sections.retain(|(id, _)| *id != START_SECTION);
    if place.is_some() {
        // A mutable i32 with the value -1.
        append_items(&mut sections, GLOBAL_SECTION, &[vec![0x7f, 0x01, 0x41, 0x7f, 0x0b]])?;
    }
    let exports: Vec<_> = [(START_EXPORT, 0, start), (PLACE_EXPORT, 3, place)]
        .into_iter()
        .filter_map(|(name, kind, index)| Some(export(name, kind, index?)))
        .collect();
    append_items(&mut sections, EXPORT_SECTION, &exports)?;
    if let Some(place) = place {
        let mut code = Vec::new();
        put_unsigned(&mut code, bodies.len() as u64);
        for body in &bodies {
            let changed = note_places(program, body, place)?;
            put_unsigned(&mut code, changed.len() as u64);
            code.extend_from_slice(&changed);
        }
        for (id, content) in &mut sections {
            if *id == CODE_SECTION {
                content.clone_from(&code);
            }
        }
    }
    let mut out = bytes(program, 0, 8).to_vec();
    for (id, content) in &sections {
        out.push(*id);
        put_unsigned(&mut out, content.len() as u64);
        out.extend_from_slice(content);
    }
    Ok(out)
}

/// Returns a range of the program. Ranges come from its parser.
fn bytes(program: &[u8], from: u64, to: u64) -> &[u8] {
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    range.and_then(|(from, to)| program.get(from..to)).unwrap_or_default()
}

fn export(name: &str, kind: u8, index: u32) -> Vec<u8> {
    let mut item = Vec::new();
    put_unsigned(&mut item, name.len() as u64);
    item.extend_from_slice(name.as_bytes());
    item.push(kind);
    put_unsigned(&mut item, index.into());
    item
}

/// Appends items to the section with `id`; inserts the section in its order if there is none.
fn append_items(
    sections: &mut Vec<(u8, Vec<u8>)>,
    id: u8,
    items: &[Vec<u8>],
) -> Result<(), wasmparser::BinaryReaderError> {
    if items.is_empty() {
        return Ok(());
    }
    let position = sections.iter().position(|(i, _)| *i == id);
    let old = position
        .and_then(|p| sections.get(p))
        .map(|(_, content)| content.as_slice());
    let (count, rest) = match old {
        Some(content) => {
            let mut reader = BinaryReader::new(content, 0);
            let count = reader.read_var_u32()?;
            let rest = bytes(content, reader.original_position(), content.len() as u64);
            (u64::from(count), rest)
        }
        None => (0, &[][..]),
    };
    let mut content = Vec::new();
    put_unsigned(&mut content, count + items.len() as u64);
    content.extend_from_slice(rest);
    content.extend(items.iter().flatten());
    match position.and_then(|p| sections.get_mut(p)) {
        Some(section) => section.1 = content,
        None => {
            // Custom sections have the id 0 and may be anywhere.
            let after = sections.iter().position(|(i, _)| *i > id && *i != 0);
            sections.insert(after.unwrap_or(sections.len()), (id, content));
        }
    }
    Ok(())
}

/// Returns the body of a function that stores the place before each instruction that can trap.
fn note_places(
    program: &[u8],
    body: &wasmparser::FunctionBody<'_>,
    place: u32,
) -> Result<Vec<u8>, wasmparser::BinaryReaderError> {
    let range = body.range();
    let reader = body.get_operators_reader()?;
    let mut out = bytes(program, range.start, reader.original_position()).to_vec();
    let mut operators = reader.into_iter_with_offsets().peekable();
    while let Some(item) = operators.next() {
        let (operator, offset) = item?;
        let next = match operators.peek() {
            Some(Ok((_, next))) => *next,
            _ => range.end,
        };
        if can_trap(&operator) {
            out.push(0x41);
            put_signed(&mut out, i64::try_from(offset).unwrap_or(-1));
            out.push(0x24);
            put_unsigned(&mut out, place.into());
        }
        out.extend_from_slice(bytes(program, offset, next));
    }
    Ok(out)
}

/// Returns whether an instruction can trap, or calls a function that can.
fn can_trap(operator: &Operator<'_>) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::Unreachable
            | O::Call { .. }
            | O::CallIndirect { .. }
            | O::I32Load { .. }
            | O::I64Load { .. }
            | O::F32Load { .. }
            | O::F64Load { .. }
            | O::I32Load8S { .. }
            | O::I32Load8U { .. }
            | O::I32Load16S { .. }
            | O::I32Load16U { .. }
            | O::I64Load8S { .. }
            | O::I64Load8U { .. }
            | O::I64Load16S { .. }
            | O::I64Load16U { .. }
            | O::I64Load32S { .. }
            | O::I64Load32U { .. }
            | O::I32Store { .. }
            | O::I64Store { .. }
            | O::F32Store { .. }
            | O::F64Store { .. }
            | O::I32Store8 { .. }
            | O::I32Store16 { .. }
            | O::I64Store8 { .. }
            | O::I64Store16 { .. }
            | O::I64Store32 { .. }
            | O::MemoryCopy { .. }
            | O::MemoryFill { .. }
            | O::MemoryInit { .. }
            | O::TableCopy { .. }
            | O::TableInit { .. }
            | O::I32DivS
            | O::I32DivU
            | O::I32RemS
            | O::I32RemU
            | O::I64DivS
            | O::I64DivU
            | O::I64RemS
            | O::I64RemU
            | O::I32TruncF32S
            | O::I32TruncF32U
            | O::I32TruncF64S
            | O::I32TruncF64U
            | O::I64TruncF32S
            | O::I64TruncF32U
            | O::I64TruncF64S
            | O::I64TruncF64U
    )
}

fn put_unsigned(to: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        to.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return;
        }
    }
}

fn put_signed(to: &mut Vec<u8>, mut value: i64) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        let is_last = (value == 0 && low & 0x40 == 0) || (value == -1 && low & 0x40 != 0);
        to.push(if is_last { low } else { low | 0x80 });
        if is_last {
            return;
        }
    }
}
