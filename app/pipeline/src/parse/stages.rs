//! The reader of stages: replays of recordings, and WebAssembly modules.

use super::{NamedTable, PATH, REFERENCE, limit_count, read_reference, take_tensor};
use crate::defect::{DefectKind, Defects};
use crate::document::{
    BufferDefinition, Connection, MAX_TENSORS, ModuleDefinition, ModuleLimits, OutputBufferName, OutputTensor,
    ReplayDefinition, StageDefinition, StageWork,
};
use crate::table::{Entry, Table};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum fuel of a module.
const MAX_FUEL: u64 = 1 << 50;
/// Maximum memory of a module, bytes.
const MAX_MEMORY: u64 = 4 << 30;
/// Maximum time of a module, milliseconds.
const MAX_TIME_MS: u64 = 3_600_000;

pub(super) fn read_stage(named: NamedTable<'_>, defects: &mut Defects) -> Option<StageDefinition> {
    let NamedTable { name, mut table } = named;
    let line = table.line;
    let recording = table.take("recording");
    let module = table.take("module");
    let (inputs, work) = match (recording, module) {
        (Some(path), None) => {
            let inputs = read_connections(&mut table, read_replay_input, defects);
            (inputs, read_replay(path, table, defects).map(StageWork::Replay))
        }
        (None, Some(path)) => {
            let inputs = read_connections(&mut table, read_module_input, defects);
            (inputs, read_module(path, table, defects).map(StageWork::Module))
        }
        _ => {
            defects.add(line, DefectKind::StageWork { stage: name });
            return None;
        }
    };
    Some(StageDefinition {
        name,
        line,
        inputs,
        work: work?,
    })
}

type ReadConnection = for<'a> fn(&Table<'a>, Entry<'a>, &mut Defects) -> Option<Connection>;

fn read_connections(table: &mut Table<'_>, read: ReadConnection, defects: &mut Defects) -> Vec<Connection> {
    let Some(entry) = table.take("inputs") else {
        return Vec::new();
    };
    let Some(mut all) = table.open(entry, format!("the inputs of {}", table.owner), defects) else {
        return Vec::new();
    };
    let entries = limit_count(table, entry.line, all.take_rest(), MAX_TENSORS, "inputs", defects);
    entries
        .into_iter()
        .filter_map(|entry| read(&all, entry, defects))
        .collect()
}

fn read_replay_input<'a>(all: &Table<'a>, entry: Entry<'a>, defects: &mut Defects) -> Option<Connection> {
    Some(Connection {
        name: entry.key.to_owned(),
        line: entry.line,
        from: read_reference(all, entry, defects)?,
        tensor: None,
    })
}

fn read_module_input<'a>(all: &Table<'a>, entry: Entry<'a>, defects: &mut Defects) -> Option<Connection> {
    let mut table = all.open(entry, format!("input '{}' of {}", entry.key, stage_of(all)), defects)?;
    let from = table.take_required("from", REFERENCE, defects);
    let from = from.and_then(|entry| read_reference(&table, entry, defects));
    let tensor = take_tensor(&mut table, defects);
    table.finish("from, type, shape", defects);
    Some(Connection {
        name: entry.key.to_owned(),
        line: entry.line,
        from: from?,
        tensor: Some(tensor?),
    })
}

/// Returns the stage of a table of its inputs or outputs.
fn stage_of<'t>(all: &'t Table<'_>) -> &'t str {
    all.owner
        .split_once(" of ")
        .map_or(all.owner.as_str(), |(_, stage)| stage)
}

fn read_replay(path: Entry<'_>, mut table: Table<'_>, defects: &mut Defects) -> Option<ReplayDefinition> {
    let recording = table.text(path, PATH, defects).map(PathBuf::from);
    let target = table.take("target");
    let target = target.and_then(|entry| {
        let label = table.text(entry, "a label of letters, digits, '-' and '_'", defects)?;
        let is_sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !label.chars().all(is_sound) {
            table.reject(entry, "a label of letters, digits, '-' and '_'", defects);
        }
        Some(label.to_owned())
    });
    let expected = "the names of the buffers that the stage gives";
    let outputs = table.take_required("outputs", expected, defects);
    let outputs = outputs.and_then(|entry| {
        let names = table.array(entry, expected, defects)?;
        Some(limit_count(&table, entry.line, names, MAX_TENSORS, "outputs", defects))
    });
    let mut given: Vec<OutputBufferName> = Vec::new();
    for entry in outputs.into_iter().flatten() {
        let Some(name) = table.text(entry, expected, defects) else {
            continue;
        };
        match given.iter().find(|o| o.name == name) {
            Some(first) => {
                let kind = DefectKind::DuplicateName {
                    name: name.to_owned(),
                    first: "an output".to_owned(),
                    first_line: first.line,
                };
                defects.add(entry.line, kind);
            }
            None => given.push(OutputBufferName {
                name: name.to_owned(),
                line: entry.line,
            }),
        }
    }
    let mut buffers = Vec::new();
    if let Some(entry) = table.take("buffers")
        && let Some(mut all) = table.open(entry, format!("the buffers of {}", table.owner), defects)
    {
        for entry in limit_count(&table, entry.line, all.take_rest(), MAX_TENSORS, "buffers", defects) {
            let owner = format!("buffer '{}' of {}", entry.key, table.owner);
            if let Some(one) = all.open(entry, owner, defects) {
                buffers.extend(read_buffer(entry, one, defects));
            }
        }
    }
    table.finish("recording, target, inputs, outputs, buffers", defects);
    Some(ReplayDefinition {
        recording: recording?,
        line: path.line,
        target,
        outputs: given,
        buffers,
    })
}

fn read_buffer(entry: Entry<'_>, mut table: Table<'_>, defects: &mut Defects) -> Option<BufferDefinition> {
    let address = table.take("address");
    let address = match address {
        Some(entry) => Some(table.integer(entry, 0..=u64::MAX, "a GPU address, 0x...", defects)?),
        None => None,
    };
    let space = table.take("address_space");
    let address_space = match space {
        Some(entry) => table.integer(entry, 0..=255, "the number of an address space, from 0", defects)?,
        None => 0,
    };
    let tensor = take_tensor(&mut table, defects);
    table.finish("address, address_space, type, shape", defects);
    Some(BufferDefinition {
        name: entry.key.to_owned(),
        line: entry.line,
        address,
        address_space: u32::try_from(address_space).ok()?,
        tensor: tensor?,
    })
}

fn read_module(path: Entry<'_>, mut table: Table<'_>, defects: &mut Defects) -> Option<ModuleDefinition> {
    let module = table.text(path, PATH, defects).map(PathBuf::from);
    let function = table.take_required("function", "the name of an exported function", defects);
    let function = function.and_then(|entry| table.text(entry, "the name of an exported function", defects));
    let mut given = Vec::new();
    let outputs = table.take_required("outputs", "the tensors that the function gives", defects);
    if let Some(entry) = outputs
        && let Some(mut all) = table.open(entry, format!("the outputs of {}", table.owner), defects)
    {
        for entry in limit_count(&table, entry.line, all.take_rest(), MAX_TENSORS, "outputs", defects) {
            let owner = format!("output '{}' of {}", entry.key, table.owner);
            let Some(mut one) = all.open(entry, owner, defects) else {
                continue;
            };
            let tensor = take_tensor(&mut one, defects);
            one.finish("type, shape", defects);
            given.extend(tensor.map(|tensor| OutputTensor {
                name: entry.key.to_owned(),
                line: entry.line,
                tensor,
            }));
        }
    }
    let mut limits = ModuleLimits::default();
    if let Some(entry) = table.take("limits")
        && let Some(mut all) = table.open(entry, format!("the limits of {}", table.owner), defects)
    {
        let mut take = |key: &str, max: u64| {
            let entry = all.take(key)?;
            all.integer(entry, 1..=max, &format!("1 to {max}"), defects)
        };
        limits.fuel = take("fuel", MAX_FUEL).unwrap_or(limits.fuel);
        limits.memory = take("memory", MAX_MEMORY).unwrap_or(limits.memory);
        limits.time = take("time_ms", MAX_TIME_MS).map_or(limits.time, Duration::from_millis);
        all.finish("fuel, memory, time_ms", defects);
    }
    table.finish("module, function, inputs, outputs, limits", defects);
    Some(ModuleDefinition {
        module: module?,
        line: path.line,
        function: function?.to_owned(),
        outputs: given,
        limits,
    })
}
