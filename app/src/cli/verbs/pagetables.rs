//! `pagetables`: prints the mappings of the GPU's page tables, or how they translate one address.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::page_tables::describe_problems;
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb, format_hex, page_table_formats};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::GpuVa;
use trace_core::mmu::{self, WalkFault};
use trace_core::page_table_format::MemoryName;

pub const VERB: Verb = Verb {
    name: "pagetables",
    about: "Print what the page tables map, or how one address translates",
    args: Arguments::augment_args,
    run: |matches, out| {
        // Stands alone, without a recording.
        if let Some(name) = matches.get_one::<String>("print_format") {
            out.line(page_table_formats::find_text(name)?.trim_end())?;
            return Ok(Exit::Good);
        }
        run(&Arguments::from_arg_matches(matches)?, out)
    },
};

/// Maximum number of pages mapped twice in text output; JSON lists all.
const MAX_LISTED_PAGES: usize = 20;

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Walk the tables for this GPU address, buffer or NAME+OFFSET, level by level
    #[arg(long, value_name = "ADDRESS")]
    walk: Option<String>,
    /// Show the tables before this event [default: at the end]
    #[arg(long, value_name = "EVENT")]
    event: Option<u64>,
    /// Print the description of an embedded format of page tables, a start for your own; `import --help` lists them
    #[arg(long, value_name = "FORMAT", exclusive = true)]
    print_format: Option<String>,
}

/// A run of pages: its mapping, its address space, and what is notable about it.
#[derive(Serialize)]
struct Mapping {
    /// Number of the address space.
    address_space: u8,
    /// Name of the format of its tables, such as `aarch64-4k` or `nvidia-v2`.
    format: &'static str,
    /// Address of the top table.
    root: String,
    /// The run: its first address, the one past its end, and its pages.
    va: String,
    end: String,
    pages: u64,
    /// `rwx`, with `-` for a missing right.
    rights: String,
    /// Attribute number of the entries: index of the memory attribute, kind, cache type.
    attribute: u8,
    /// Physical address; `null` if the pages are scattered.
    pa: Option<String>,
    /// Memory of the pages, if the recording does not hold it: `video`, `system`, `peer` or `other`; else `null`.
    memory: Option<MemoryName>,
    /// Whether it is both.
    executable_and_writable: bool,
    /// Number of pages that are mapped elsewhere too.
    mapped_twice_pages: u64,
    /// Where they are mapped.
    mapped_twice: Vec<mmu::Alias>,
    /// Number of pages without content.
    pages_without_content: u64,
}

/// A walk in one address space, with its end as an address or a fault.
#[derive(Serialize)]
struct Walk {
    /// Number of the address space.
    address_space: u8,
    /// The address.
    va: String,
    /// The entries that the walk read, level by level.
    steps: Vec<mmu::WalkStep>,
    /// Physical address and rights; `null` if the address is not mapped.
    pa: Option<String>,
    rights: Option<String>,
    /// Memory of the page, if the recording does not hold it; else `null`.
    memory: Option<MemoryName>,
    /// Why it is not mapped.
    fault: Option<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let recording = &opened.recording;
    let view = recording.memory.at(opened.check_event(arguments.event)?);
    let spaces = &recording.metadata.address_spaces;
    if let Some(text) = &arguments.walk {
        if spaces.is_empty() {
            if out.is_json() {
                out.array(std::iter::empty::<Walk>())?;
            } else {
                out.line("no page tables in this recording")?;
            }
            return Ok(Exit::differs_if(true));
        }
        let va = opened.parse_address(text)?;
        let walks: Vec<Walk> = spaces
            .iter()
            .map(|s| walk(s.number, mmu::walk(s.format, s.root, va, &view), va.get()))
            .collect();
        let mapped = walks.iter().any(|w| w.pa.is_some());
        if out.is_json() {
            out.array(&walks)?;
        } else {
            for w in &walks {
                out.line(format_args!("address space {}, GPU address {}", w.address_space, w.va))?;
                for s in &w.steps {
                    out.line(format_args!(
                        "  level {}  index {:>3}  entry at {}: {:#x}  {}{}",
                        s.level,
                        s.index,
                        s.entry_at,
                        s.raw,
                        s.kind,
                        s.memory.map(|m| format!(" in {m}")).unwrap_or_default()
                    ))?;
                }
                match (&w.pa, &w.rights, &w.fault) {
                    (Some(pa), Some(rights), _) => {
                        let memory = w.memory.map(|m| format!(" of {m}, which the recording does not hold"));
                        out.line(format_args!(
                            "  translates to {pa}{}, {rights}",
                            memory.unwrap_or_default()
                        ))?;
                    }
                    (_, _, fault) => out.line(format_args!("  {}", fault.as_deref().unwrap_or("not mapped")))?,
                }
            }
        }
        return Ok(Exit::differs_if(!mapped));
    }
    let content = mmu::content_frames(&view);
    let mut rows = Vec::new();
    let mut unknown = Vec::new();
    for space in spaces {
        let scan = mmu::scan(space.format, space.root, &view);
        let problems = scan.problems.len() as u64;
        unknown.extend(describe_problems(space.number, problems, scan.problems.first()));
        let tallies = mmu::tally(&scan, &content);
        rows.extend(
            scan.mappings
                .into_iter()
                .zip(tallies)
                .map(|(m, mapping_tally)| Mapping {
                    address_space: space.number,
                    format: space.format.name(),
                    root: format_hex(space.root.get()),
                    va: format_hex(m.va.get()),
                    end: format_hex(m.end().get()),
                    pages: m.pages,
                    rights: m.rights.to_string(),
                    attribute: m.attr_index,
                    pa: m.contiguous_pa.map(|p| format_hex(p.get())),
                    memory: m.elsewhere,
                    executable_and_writable: mapping_tally.executable_and_writable,
                    mapped_twice_pages: mapping_tally.twice,
                    mapped_twice: mapping_tally.aliases,
                    pages_without_content: mapping_tally.without_content,
                }),
        );
    }
    if out.is_json() {
        out.array(&rows)?;
        let of = |line| Failure::file(&arguments.source.file, line);
        unknown.iter().for_each(|line| complain(of(line)));
        return Ok(Exit::Good);
    }
    text(&rows, out)?;
    if rows.is_empty() && unknown.is_empty() {
        out.line(match spaces.len() {
            0 => "no page tables in this recording",
            _ => "the page tables map nothing",
        })?;
    }
    if !unknown.is_empty() {
        out.line("")?;
    }
    for line in unknown {
        out.line(line)?;
    }
    Ok(Exit::Good)
}

/// Prints the runs as a table, then the notable properties of each address space.
fn text(rows: &[Mapping], out: &mut Out) -> Result<(), Failure> {
    let head = [
        "Space",
        "GPU address",
        "End",
        "Pages",
        "Rights",
        "Attribute",
        "Physical",
        "Twice",
        "No content",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|m| {
        let some = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
        vec![
            m.address_space.to_string(),
            m.va.clone(),
            m.end.clone(),
            m.pages.to_string(),
            m.rights.clone(),
            m.attribute.to_string(),
            match (m.pa.as_deref().unwrap_or("scattered"), m.memory) {
                (pa, None) => pa.to_owned(),
                (pa, Some(memory)) => format!("{pa} ({})", memory.name()),
            },
            some(m.mapped_twice_pages),
            some(m.pages_without_content),
        ]
    }));
    out.table(&table)?;
    for space in rows.chunk_by(|a, b| a.root == b.root && a.address_space == b.address_space) {
        let sum = |of: fn(&Mapping) -> u64| space.iter().map(of).sum::<u64>();
        let Some(first) = space.first() else { continue };
        out.line(format_args!(
            "\nAddress space {}: {} in {}; {} mapped twice, {} executable and writable, {} without content",
            first.address_space,
            format_count(sum(|m| m.pages), "page"),
            format_count(space.len() as u64, "run"),
            sum(|m| m.mapped_twice_pages),
            sum(|m| if m.executable_and_writable { m.pages } else { 0 }),
            sum(|m| m.pages_without_content),
        ))?;
        // Lists each pair once, from its lower address.
        let pairs = || space.iter().flat_map(|m| &m.mapped_twice).filter(|a| a.va < a.alias_va);
        for a in pairs().take(MAX_LISTED_PAGES) {
            out.line(format_args!(
                "  {} and {}: {} at {}",
                a.va,
                a.alias_va,
                format_count(a.pages, "page"),
                a.pa
            ))?;
        }
        let more = pairs().count().saturating_sub(MAX_LISTED_PAGES);
        if more > 0 {
            out.line(format_args!("  and {more} more (--json lists all)"))?;
        }
    }
    Ok(())
}

fn walk(number: u8, walk: mmu::Walk, va: u64) -> Walk {
    let memory = match walk.result {
        Err(WalkFault::PageElsewhere { memory, .. }) => Some(memory),
        _ => None,
    };
    let (pa, rights, fault) = match &walk.result {
        Ok(leaf) | Err(WalkFault::PageElsewhere { leaf, .. }) => (
            leaf.target(GpuVa::new(va)).map(|p| format_hex(p.get())),
            Some(leaf.rights.to_string()),
            None,
        ),
        Err(fault) => (None, None, Some(fault.to_string())),
    };
    Walk {
        address_space: number,
        va: format_hex(va),
        steps: walk.steps,
        pa,
        rights,
        memory,
        fault,
    }
}
