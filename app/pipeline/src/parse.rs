//! The reader of pipeline files: TOML text to a [`Document`], with a line for each defect.

mod stages;

use crate::defect::{DefectKind, Defects};
use crate::document::{
    AtBound, CarriedValue, Condition, Document, InputDefinition, InputSource, LoopDefinition, MAX_FILE_BYTES,
    MAX_ITEMS, MAX_ROUNDS, MAX_TENSORS, OutputDefinition, Test, ValueName,
};
use crate::table::{Entry, Lines, Table, integer};
use crate::tensor::{MAX_DIMENSIONS, MAX_TENSOR_BYTES, TensorType, element_from_name};
use kinescope_files::buffers;
use kinescope_files::values::parse_element;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use trace_core::recording::ElementType;

/// The version of the format.
pub const VERSION: u64 = 1;

/// Owner of the pipeline's inputs in references.
pub const INPUTS: &str = "inputs";

const TYPES: &str = "one of u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64, bf16";
const REFERENCE: &str = "a value: 'inputs.NAME', 'STAGE.OUTPUT' or 'LOOP.CARRIED'";
const PATH: &str = "a path, relative to the folder of this file";

/// Reads the text of a pipeline file.
///
/// # Errors
/// All defects of the text, at most [`crate::MAX_DEFECTS`]. What names refer to is not checked.
pub fn parse(text: &str) -> Result<Document, Defects> {
    let mut defects = Defects::default();
    if text.len() as u64 > MAX_FILE_BYTES {
        let (bytes, max) = (text.len() as u64, MAX_FILE_BYTES);
        defects.add(1, DefectKind::FileSize { bytes, max });
        return Err(defects);
    }
    let lines = Lines::new(text);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(e) => {
            let line = e.span().map_or(1, |span| lines.line(span.start));
            defects.add(line, DefectKind::Toml(e.message().to_owned()));
            return Err(defects);
        }
    };
    let document = read_document(Table::new("the pipeline", 1, root.get_ref(), &lines), &mut defects);
    defects.sort();
    match defects.has_error() {
        true => Err(defects),
        false => Ok(document),
    }
}

fn read_document<'a>(mut root: Table<'a>, defects: &mut Defects) -> Document {
    let mut document = Document::default();
    if let Some(version) = root.take_required("version", "version = 1", defects)
        && integer(version.value) != Some(i128::from(VERSION))
    {
        let got = integer(version.value).map_or_else(|| "(no number)".to_owned(), |n| n.to_string());
        defects.add(version.line, DefectKind::Version(got));
        // Another version has other keys.
        return document;
    }
    if let Some(title) = root.take("title") {
        document.title = root.text(title, "a text", defects).unwrap_or_default().to_owned();
    }
    for table in take_named(&mut root, INPUTS, "input", defects) {
        document.inputs.extend(read_input(table, defects));
    }
    for table in take_named(&mut root, "stages", "stage", defects) {
        document.stages.extend(stages::read_stage(table, defects));
    }
    for table in take_named(&mut root, "loops", "loop", defects) {
        document.loops.extend(read_loop(table, defects));
    }
    document.outputs = read_outputs(&mut root, defects);
    root.finish("version, title, inputs, stages, loops, outputs", defects);
    check_names(&document, defects);
    document
}

/// A table with the name that its key gives it.
struct NamedTable<'a> {
    name: String,
    table: Table<'a>,
}

/// Takes a table of named tables.
fn take_named<'a>(root: &mut Table<'a>, key: &str, what: &'static str, defects: &mut Defects) -> Vec<NamedTable<'a>> {
    let Some(entry) = root.take(key) else { return Vec::new() };
    let Some(mut all) = root.open(entry, format!("'{key}'"), defects) else {
        return Vec::new();
    };
    let entries = all.take_rest();
    let entries = limit_count(&all, entry.line, entries, MAX_ITEMS, what, defects);
    let named = |entry: Entry<'a>, defects: &mut Defects| {
        check_name(entry.key, what, entry.line, defects);
        Some(NamedTable {
            name: entry.key.to_owned(),
            table: all.open(entry, format!("{what} '{}'", entry.key), defects)?,
        })
    };
    entries.into_iter().filter_map(|entry| named(entry, defects)).collect()
}

/// Returns the entries if there are at most `max`, or adds a defect and returns the first ones.
fn limit_count<'a>(
    table: &Table<'a>,
    line: u32,
    mut entries: Vec<Entry<'a>>,
    max: usize,
    what: &'static str,
    defects: &mut Defects,
) -> Vec<Entry<'a>> {
    if entries.len() > max {
        let kind = DefectKind::TooMany {
            owner: table.owner.clone(),
            what,
            count: entries.len(),
            max,
        };
        defects.add(line, kind);
        entries.truncate(max);
    }
    entries
}

/// Adds a defect if a name cannot be used in references.
fn check_name(name: &str, owner: &'static str, line: u32, defects: &mut Defects) {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name == INPUTS || name.len() > 64 || !name.chars().all(is_sound) {
        let name = name.chars().take(80).collect();
        defects.add(line, DefectKind::Name { name, owner });
    }
}

/// Stages and loops share their names: both own values.
fn check_names(document: &Document, defects: &mut Defects) {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for stage in &document.stages {
        seen.insert(&stage.name, stage.line);
    }
    for one in &document.loops {
        if let Some(line) = seen.get(one.name.as_str()) {
            let kind = DefectKind::DuplicateName {
                name: one.name.clone(),
                first: "a stage".to_owned(),
                first_line: *line,
            };
            defects.add(one.line, kind);
        }
    }
    let mut files: HashMap<String, (&str, u32)> = HashMap::new();
    for output in &document.outputs {
        // Some file systems do not distinguish case.
        if let Some((name, line)) = files.insert(output.file.to_lowercase(), (&output.name, output.line)) {
            let kind = DefectKind::DuplicateName {
                name: output.file.clone(),
                first: format!("the file of output '{name}'"),
                first_line: line,
            };
            defects.add(output.line, kind);
        }
    }
}

fn read_input(named: NamedTable<'_>, defects: &mut Defects) -> Option<InputDefinition> {
    let NamedTable { name, mut table } = named;
    let element = take_element(&mut table, true, defects);
    let shape = take_shape(&mut table, defects);
    let file = table.take("file");
    let values = table.take("values");
    let line = table.line;
    let source = match (file, values) {
        (Some(file), None) => InputSource::File(PathBuf::from(table.text(file, PATH, defects)?)),
        (None, Some(values)) => InputSource::Values(read_values(&table, values, element?, defects)?),
        (None, None) => InputSource::Given,
        (Some(_), Some(values)) => {
            table.reject_as(values, "given beside 'file'".to_owned(), "one of them", defects);
            return None;
        }
    };
    let element = element?;
    let shape = match (shape, &source) {
        (Some(shape), _) => shape?,
        (None, InputSource::Values(bytes)) => vec![(bytes.len() / element.bytes()) as u64],
        (None, _) => {
            let owner = table.owner.clone();
            let kind = DefectKind::MissingKey {
                owner,
                key: "shape",
                expected: "the length of each dimension, the slowest first",
            };
            defects.add(line, kind);
            return None;
        }
    };
    let tensor = make_tensor(&table, line, element, shape, defects)?;
    if let InputSource::Values(bytes) = &source
        && bytes.len() as u64 != tensor.bytes()
    {
        let kind = DefectKind::Value {
            owner: table.owner.clone(),
            key: "values".to_owned(),
            got: format!("a list of {} elements", bytes.len() / element.bytes()),
            expected: format!("{} elements, as its shape has", tensor.elements()),
        };
        defects.add(line, kind);
        return None;
    }
    table.finish("type, shape, file, values", defects);
    Some(InputDefinition {
        name,
        line,
        tensor,
        source,
    })
}

/// Returns the bytes of a list of numbers.
fn read_values(table: &Table<'_>, entry: Entry<'_>, element: ElementType, defects: &mut Defects) -> Option<Vec<u8>> {
    // Each number takes at least two letters of the file, so that their bytes are bounded by the file's size.
    let mut bytes = Vec::new();
    for value in table.array(entry, "a list of numbers", defects)? {
        let text = match value.value {
            DeValue::Integer(_) => integer(value.value).map(|n| n.to_string()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        };
        match text.and_then(|text| parse_element(element, &text).ok()) {
            Some(element) => bytes.extend(element),
            None => {
                table.reject(value, format!("numbers that {} can hold", element.name()), defects);
                return None;
            }
        }
    }
    Some(bytes)
}

/// Takes the element type. Adds a defect if it is missing or unknown.
fn take_element(table: &mut Table<'_>, is_required: bool, defects: &mut Defects) -> Option<ElementType> {
    let entry = match is_required {
        true => table.take_required("type", TYPES, defects)?,
        false => table.take("type")?,
    };
    let element = entry.value.as_str().and_then(element_from_name);
    if element.is_none() {
        table.reject(entry, TYPES, defects);
    }
    element
}

/// Takes the shape; `None`: it is not stated; `Some(None)`: it is not valid, with a defect.
fn take_shape(table: &mut Table<'_>, defects: &mut Defects) -> Option<Option<Vec<u64>>> {
    let entry = table.take("shape")?;
    let expected = "1 to 8 lengths of dimensions";
    let Some(sides) = table.array(entry, expected, defects) else {
        return Some(None);
    };
    if !(1..=MAX_DIMENSIONS).contains(&sides.len()) {
        table.reject_as(entry, format!("an array of {} lengths", sides.len()), expected, defects);
        return Some(None);
    }
    let mut shape = Vec::with_capacity(sides.len());
    for side in sides {
        let expected = format!("lengths of 1 to {MAX_TENSOR_BYTES}");
        match table.integer(side, 1..=MAX_TENSOR_BYTES, &expected, defects) {
            Some(side) => shape.push(side),
            None => return Some(None),
        }
    }
    Some(Some(shape))
}

fn make_tensor(
    table: &Table<'_>,
    line: u32,
    element: ElementType,
    shape: Vec<u64>,
    defects: &mut Defects,
) -> Option<TensorType> {
    let got = format!("{shape:?} of {}", element.name());
    let tensor = TensorType::new(element, shape);
    if tensor.is_none() {
        let kind = DefectKind::Value {
            owner: table.owner.clone(),
            key: "shape".to_owned(),
            got,
            expected: format!("a tensor of at most {MAX_TENSOR_BYTES} bytes"),
        };
        defects.add(line, kind);
    }
    tensor
}

/// Takes type and shape, which must both be there.
fn take_tensor(table: &mut Table<'_>, defects: &mut Defects) -> Option<TensorType> {
    let line = table.line;
    let element = take_element(table, true, defects);
    let Some(shape) = take_shape(table, defects) else {
        let owner = table.owner.clone();
        let expected = "the length of each dimension, the slowest first";
        defects.add(
            line,
            DefectKind::MissingKey {
                owner,
                key: "shape",
                expected,
            },
        );
        return None;
    };
    make_tensor(table, line, element?, shape?, defects)
}

fn read_reference(table: &Table<'_>, entry: Entry<'_>, defects: &mut Defects) -> Option<ValueName> {
    let text = table.text(entry, REFERENCE, defects)?;
    let name = ValueName::parse(text);
    if name.is_none() {
        let text = text.chars().take(80).collect();
        defects.add(entry.line, DefectKind::Reference { text });
    }
    name
}

fn read_loop(named: NamedTable<'_>, defects: &mut Defects) -> Option<LoopDefinition> {
    let NamedTable { name, mut table } = named;
    let line = table.line;
    let stages = table.take_required("stages", "the names of its stages", defects);
    let stages = stages.and_then(|entry| table.array(entry, "the names of its stages", defects));
    let stages: Vec<(String, u32)> = stages
        .into_iter()
        .flatten()
        .take(MAX_ITEMS)
        .filter_map(|entry| {
            Some((
                table.text(entry, "the name of a stage", defects)?.to_owned(),
                entry.line,
            ))
        })
        .collect();
    let rounds_text = format!("1 to {MAX_ROUNDS} rounds");
    let rounds = table.take_required("rounds", "the maximum number of rounds", defects);
    let rounds = rounds.and_then(|entry| table.integer(entry, 1..=u64::from(MAX_ROUNDS), &rounds_text, defects));
    let mut carry = Vec::new();
    if let Some(entry) = table.take("carry")
        && let Some(mut all) = table.open(entry, format!("the carried values of loop '{name}'"), defects)
    {
        for entry in limit_count(
            &table,
            entry.line,
            all.take_rest(),
            MAX_TENSORS,
            "carried values",
            defects,
        ) {
            check_name(entry.key, "a carried value", entry.line, defects);
            let owner = format!("carried value '{name}.{}'", entry.key);
            if let Some(one) = all.open(entry, owner, defects) {
                carry.extend(read_carried(entry, one, defects));
            }
        }
    }
    let until = table.take_required("until", "the condition that ends the loop", defects);
    let until = until.and_then(|entry| {
        let table = table.open(entry, format!("the condition of loop '{name}'"), defects)?;
        read_condition(entry.line, table, defects)
    });
    let at_bound = match table.take("at_bound") {
        None => AtBound::Fail,
        Some(entry) => match entry.value.as_str() {
            Some("fail") => AtBound::Fail,
            Some("continue") => AtBound::Continue,
            _ => {
                table.reject(entry, "\"fail\" or \"continue\"", defects);
                AtBound::Fail
            }
        },
    };
    table.finish("stages, rounds, carry, until, at_bound", defects);
    Some(LoopDefinition {
        name,
        line,
        stages,
        rounds: u32::try_from(rounds?).ok()?,
        carry,
        until: until?,
        at_bound,
    })
}

fn read_carried(entry: Entry<'_>, mut table: Table<'_>, defects: &mut Defects) -> Option<CarriedValue> {
    let start = table.take_required("start", REFERENCE, defects);
    let start = start.and_then(|entry| read_reference(&table, entry, defects));
    let next = table.take_required("next", "what a stage of the loop gives", defects);
    let next = next.and_then(|entry| read_reference(&table, entry, defects));
    table.finish("start, next", defects);
    Some(CarriedValue {
        name: entry.key.to_owned(),
        line: entry.line,
        start: start?,
        next: next?,
    })
}

/// The constructor of a test.
type MakeTest = fn(f64) -> Test;

fn read_condition(line: u32, mut table: Table<'_>, defects: &mut Defects) -> Option<Condition> {
    let value = table.take_required("value", "what a stage of the loop gives", defects);
    let value = value.and_then(|entry| read_reference(&table, entry, defects));
    let mut tests = Vec::new();
    let kinds: [(&str, MakeTest); 3] = [("equals", Test::Equals), ("below", Test::Below), ("above", Test::Above)];
    for (key, make) in kinds {
        let Some(entry) = table.take(key) else { continue };
        let number = match entry.value {
            DeValue::Integer(_) => integer(entry.value).map(|n| n as f64),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        match number.filter(|n: &f64| n.is_finite()) {
            Some(number) => tests.push(make(number)),
            None => table.reject(entry, "a number", defects),
        }
    }
    let expected = "exactly one of 'equals', 'below' and 'above'";
    if tests.len() != 1 {
        let kind = DefectKind::Value {
            owner: table.owner.clone(),
            key: "until".to_owned(),
            got: format!("a condition with {} tests", tests.len()),
            expected: expected.to_owned(),
        };
        defects.add(line, kind);
    }
    table.finish("value, equals, below, above", defects);
    Some(Condition {
        value: value?,
        line,
        test: tests.pop()?,
    })
}

fn read_outputs(root: &mut Table<'_>, defects: &mut Defects) -> Vec<OutputDefinition> {
    let Some(entry) = root.take_required("outputs", "the values to write", defects) else {
        return Vec::new();
    };
    let Some(mut all) = root.open(entry, "'outputs'", defects) else {
        return Vec::new();
    };
    let entries = all.take_rest();
    let entries = limit_count(&all, entry.line, entries, MAX_ITEMS, "outputs", defects);
    if entries.is_empty() {
        let expected = "at least one output, as NAME = 'STAGE.OUTPUT'";
        root.reject(entry, expected, defects);
    }
    entries
        .into_iter()
        .filter_map(|entry| read_output(&all, entry, defects))
        .collect()
}

fn read_output<'a>(all: &Table<'a>, entry: Entry<'a>, defects: &mut Defects) -> Option<OutputDefinition> {
    check_name(entry.key, "an output", entry.line, defects);
    let mut file = format!("{}.npy", entry.key);
    let from = match entry.value.as_table() {
        None => read_reference(all, entry, defects)?,
        Some(_) => {
            let mut table = all.open(entry, format!("output '{}'", entry.key), defects)?;
            let from = table.take_required("from", REFERENCE, defects);
            let from = from.and_then(|entry| read_reference(&table, entry, defects));
            if let Some(entry) = table.take("file") {
                let expected = "the name of a file without folders, .npy or of raw bytes";
                let name = table.text(entry, expected, defects)?;
                let is_bare = !name.contains(['/', '\\', ':']) && !name.starts_with('.') && name.len() <= 200;
                if !is_bare || name == REPORT_FILE || buffers::check_file_name(Path::new(name)).is_err() {
                    table.reject(entry, expected, defects);
                }
                name.clone_into(&mut file);
            }
            table.finish("from, file", defects);
            from?
        }
    };
    Some(OutputDefinition {
        name: entry.key.to_owned(),
        line: entry.line,
        from,
        file,
    })
}

/// Name of the report in the folder of the outputs.
pub const REPORT_FILE: &str = "report.json";
