//! `map`: what the GPU's page tables map, or how they translate one address.

use super::source::{Source, format_name, number};
use super::{Exit, Failure, Out, Verb, hex};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::GpuVa;
use trace_core::mmu;

pub const VERB: Verb = Verb {
    name: "map",
    about: "What the GPU's page tables map; --walk shows how one address translates",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Walk the tables for this GPU address, level by level
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    walk: Option<u64>,
    /// Tables as they were before this event (default: at the end)
    #[arg(long, value_name = "N")]
    event: Option<u64>,
}

#[derive(Serialize)]
struct Mapping {
    address_space: u8,
    format: &'static str,
    root: String,
    va: String,
    end: String,
    pages: u64,
    rights: String,
    attribute: u8,
    pa: Option<String>,
}

#[derive(Serialize)]
struct Walk {
    address_space: u8,
    va: String,
    steps: Vec<Step>,
    pa: Option<String>,
    rights: Option<String>,
    fault: Option<String>,
}

#[derive(Serialize)]
struct Step {
    level: u8,
    index: u16,
    entry_at: String,
    raw: String,
    kind: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let recording = &opened.recording;
    let view = recording.memory.at(arguments.event.unwrap_or(u64::MAX));
    let spaces = &recording.facts.address_spaces;
    if let Some(va) = arguments.walk {
        let walks: Vec<Walk> = spaces
            .iter()
            .map(|s| walk(s.number, mmu::walk(s.format, s.root, GpuVa(va), &view), va))
            .collect();
        let mapped = walks.iter().any(|w| w.pa.is_some());
        if out.json() {
            out.array(&walks)?;
        } else {
            for w in &walks {
                out.line(format_args!("address space {}, GPU address {}", w.address_space, w.va))?;
                for s in &w.steps {
                    out.line(format_args!(
                        "  level {}  index {:>3}  entry at {}: {}  {}",
                        s.level, s.index, s.entry_at, s.raw, s.kind
                    ))?;
                }
                match (&w.pa, &w.rights, &w.fault) {
                    (Some(pa), Some(rights), _) => out.line(format_args!("  lies at {pa}, {rights}"))?,
                    (_, _, fault) => out.line(format_args!("  {}", fault.as_deref().unwrap_or("not mapped")))?,
                }
            }
        }
        return Ok(Exit::found(!mapped));
    }
    let mut rows = Vec::new();
    for space in spaces {
        let all = mmu::mappings(space.format, space.root, &view)
            .map_err(|e| Failure::usage(format!("address space {}: {e}", space.number)))?;
        rows.extend(all.into_iter().map(|m| Mapping {
            address_space: space.number,
            format: format_name(space.format),
            root: hex(space.root.0),
            va: hex(m.va.0),
            end: hex(m.end().0),
            pages: m.pages,
            rights: m.rights.to_string(),
            attribute: m.attr_index,
            pa: m.contiguous_pa.map(|p| hex(p.0)),
        }));
    }
    if out.json() {
        out.array(&rows)?;
        return Ok(Exit::Good);
    }
    let head = [
        "Space",
        "GPU address",
        "End",
        "Pages",
        "Rights",
        "Attribute",
        "Physical",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(rows.into_iter().map(|m| {
        let pa = m.pa.unwrap_or_else(|| "scattered".into());
        vec![
            m.address_space.to_string(),
            m.va,
            m.end,
            m.pages.to_string(),
            m.rights,
            m.attribute.to_string(),
            pa,
        ]
    }));
    out.table(&table)?;
    Ok(Exit::Good)
}

fn walk(number: u8, walk: mmu::Walk, va: u64) -> Walk {
    let steps = walk.steps.iter().map(|s| Step {
        level: s.level,
        index: s.index,
        entry_at: hex(s.entry_at.0),
        raw: hex(s.raw),
        kind: match s.kind {
            mmu::EntryKind::Invalid => "invalid".into(),
            mmu::EntryKind::Table(at) => format!("table at {at}"),
            mmu::EntryKind::Page(at) => format!("page at {at}"),
            mmu::EntryKind::Block(at) => format!("block at {at}"),
            mmu::EntryKind::Reserved => "reserved".into(),
        },
    });
    let (pa, rights, fault) = match &walk.result {
        Ok(leaf) => (
            leaf.target(GpuVa(va)).map(|p| hex(p.0)),
            Some(leaf.rights.to_string()),
            None,
        ),
        Err(fault) => (None, None, Some(fault.to_string())),
    };
    Walk {
        address_space: number,
        va: hex(va),
        steps: steps.collect(),
        pa,
        rights,
        fault,
    }
}
