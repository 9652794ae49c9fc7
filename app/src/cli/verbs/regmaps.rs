//! `regmaps`: lists register maps, and imports register descriptions of other projects.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::{Exit, Failure, Out, Verb, format_hex};
use clap::{Args, FromArgMatches as _, Subcommand};
use kinescope_files::output;
use kinescope_session::{register_map_files, source};
use register_maps::{Folder, Format, ImportedMap, LossKind, Options, SUFFIX};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;

pub const VERB: Verb = Verb {
    name: "regmaps",
    about: "List register maps, or convert one from SVD, rules-ng-ng, genxml, csbgen",
    args: |command| {
        RegmapsCommand::augment_subcommands(command)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: |matches, out| match RegmapsCommand::from_arg_matches(matches)? {
        RegmapsCommand::Import(arguments) => import_one(&arguments, out),
        RegmapsCommand::List(arguments) => list(&arguments, out),
    },
};

/// Maximum number of losses in text output; JSON lists all.
const MAX_LISTED_LOSSES: usize = 20;
/// Maximum size of an imported file, bytes.
const MAX_FILE: u64 = 64 << 20;

#[derive(Subcommand)]
enum RegmapsCommand {
    /// Convert a CMSIS-SVD, rules-ng-ng, genxml or csbgen file to a map
    Import(Box<ImportArguments>),
    /// List the known maps: embedded, in your folder, next to a recording
    List(ListArguments),
}

#[derive(Args)]
struct ImportArguments {
    /// CMSIS-SVD, rules-ng-ng (envytools, freedreno), genxml or csbgen (Mesa) file to convert; files that it includes are
    /// searched in its folder and the two above
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output file; - is standard output [default: NAME.map.toml in your folder of maps]
    #[arg(short = 'o', value_name = "OUT", conflicts_with = "beside")]
    to: Option<PathBuf>,
    /// Write the map next to this recording, whose registers it then names
    #[arg(long = "next-to", alias = "beside", value_name = "RECORDING")]
    beside: Option<PathBuf>,
    /// Read the file as svd, rnn, genxml or csbgen, regardless of its root element
    #[arg(long = "as", value_name = "FORMAT", value_parser = format)]
    format: Option<Format>,
    /// Convert only definitions for this variant: A6XX of freedreno, a version of Broadcom's packets, features of a
    /// PowerVR (ROGUEXE,NUM_TA=4)
    #[arg(long, value_name = "VARIANT")]
    variant: Option<String>,
    /// Convert only this peripheral of an SVD or domain of rules-ng-ng; may be given more than once
    #[arg(long = "block", value_name = "NAME")]
    blocks: Vec<String>,
    /// Name of the map [default: that of the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Space of the recording that contains the registers: bar0, reg0
    #[arg(long, value_name = "SPACE", default_value = "")]
    space: String,
    /// PCI device that the map is for; may be given more than once
    #[arg(long = "device", value_name = "VENDOR:DEVICE", value_parser = pci)]
    devices: Vec<(u16, u16)>,
    /// Compatible string of a device-tree device that the map is for; may be given more than once
    #[arg(long, value_name = "STRING")]
    compatible: Vec<String>,
    /// Upper half of the id register of a GPU that the map is for; may be given more than once
    #[arg(long = "gpu", value_name = "ID", value_parser = half)]
    gpus: Vec<u16>,
    /// Write a compact map to ship with a program: arrays as arrays, blocks by the first word of names, no descriptions
    #[arg(long)]
    compact: bool,
    /// Overwrite an existing map
    #[arg(long)]
    force: bool,
    /// List everything that is not converted, not only the first 20
    #[arg(long)]
    all: bool,
}

#[derive(Args)]
struct ListArguments {
    /// A recording: also list the map next to it, and show which map names its registers
    #[arg(value_name = "RECORDING")]
    recording: Option<PathBuf>,
}

fn format(text: &str) -> Result<Format, String> {
    Format::from_name(text).ok_or_else(|| format!("'{text}' is not a format (expected svd, rnn, genxml or csbgen)"))
}

fn hex16(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn pci(text: &str) -> Result<(u16, u16), String> {
    let both = text.split_once(':').and_then(|(v, d)| Some((hex16(v)?, hex16(d)?)));
    both.ok_or_else(|| format!("'{text}' is not a PCI device (expected VENDOR:DEVICE in hexadecimal, 1234:11e8)"))
}

fn half(text: &str) -> Result<u16, String> {
    hex16(text).ok_or_else(|| format!("'{text}' is not an id (expected 16 bits in hexadecimal, 6000)"))
}

/// Information that was not imported, with its position at the same level.
#[derive(Serialize)]
struct LossRow<'a> {
    /// Position in the source.
    file: &'a str,
    line: u32,
    column: u32,
    /// Kind of information.
    kind: &'static str,
    /// What was lost, and the consequence.
    what: &'a str,
}

/// The imported map in figures, and the written file.
#[derive(Serialize)]
struct ImportReport<'a> {
    /// Name of the map.
    name: &'a str,
    /// Format of the source: `svd`, `rnn`, `genxml` or `csbgen`.
    format: &'static str,
    /// The written file; `null` for standard output.
    written: Option<String>,
    /// Address of the registers in an SVD, else `null`.
    window_at: Option<String>,
    /// Number of registers, of their fields, of layouts, of their fields, and of enumerations.
    registers: usize,
    fields: usize,
    layouts: usize,
    layout_fields: usize,
    enumerations: usize,
    /// Number of arrays of registers, whose members `registers` and `fields` count.
    arrays: usize,
    /// What the map lacks.
    not_carried_over: Vec<LossRow<'a>>,
    /// Number of entries beyond 10 000 that are not listed.
    more_not_carried_over: usize,
    /// The map itself if it is not written to a file, else `null`.
    map: Option<&'a str>,
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    // Checked before opening: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(|e| Failure::file(path, e))?;
    if !metadata.is_file() {
        return Err(Failure::file(path, "not a file (expected an .svd or .xml)"));
    }
    let file = std::fs::File::open(path).map_err(|e| Failure::file(path, e))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::file(path, e))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::file(
            path,
            "larger than 64 MiB, the maximum size of a register map",
        ));
    }
    Ok(bytes)
}

/// Returns the output file of an import; `None` for standard output.
fn target(arguments: &ImportArguments, name: &str) -> Result<Option<PathBuf>, Failure> {
    if let Some(recording) = &arguments.beside {
        if !recording.exists() {
            return Err(Failure::file(recording, "no such recording"));
        }
        return Ok(Some(register_maps::sibling_map_path(recording)));
    }
    match &arguments.to {
        Some(to) if to.as_os_str() == "-" => Ok(None),
        Some(to) => Ok(Some(to.clone())),
        None => {
            let folder = register_map_files::folder()
                .ok_or_else(|| Failure::usage("the folder for your maps is unknown; name the output with -o OUT"))?;
            std::fs::create_dir_all(&folder).map_err(|e| Failure::file(&folder, e))?;
            let safe = |c: char| {
                if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') {
                    c
                } else {
                    '_'
                }
            };
            let plain: String = name.chars().map(safe).collect();
            Ok(Some(folder.join(format!("{}{SUFFIX}", plain.trim_start_matches('.')))))
        }
    }
}

fn import_one(arguments: &ImportArguments, out: &mut Out) -> Result<Exit, Failure> {
    let content = read(&arguments.file)?;
    let options = Options {
        format: arguments.format,
        variant: arguments.variant.clone(),
        blocks: arguments.blocks.clone(),
        name: arguments.name.clone(),
        space: arguments.space.clone(),
        pci: arguments.devices.clone(),
        compatible: arguments.compatible.clone(),
        gpu: arguments.gpus.clone(),
        compact: arguments.compact,
    };
    let file = arguments.file.display().to_string();
    let made = register_maps::import(&file, content, &options, &mut Folder::new(&arguments.file))
        .map_err(|e| Failure::usage(e.to_string()))?;
    // The letters and digits of the name form the file name, and users distinguish maps by them.
    if !made.name.contains(char::is_alphanumeric) {
        return Err(Failure::usage(format!(
            "'{}' is not a name for a map: it has neither letters nor digits; give one with --name",
            made.name
        )));
    }
    let to = target(arguments, &made.name)?;
    if let Some(to) = &to {
        CommandFiles::default()
            .with_input("FILE", &arguments.file)
            .with_output("-o", Some(to))
            .check()?;
        if to.exists() && !arguments.force {
            return Err(Failure::file(
                to,
                "the map exists, and manual changes to it would be lost; --force overwrites it",
            ));
        }
        output::write(to, made.text.as_bytes())?;
    } else if !out.is_json() {
        out.bytes(made.text.as_bytes())?;
        // Standard output contains only the map.
        print_losses(&made, arguments.all, |line| {
            complain(line);
            Ok(())
        })?;
        return Ok(Exit::Good);
    }
    let named = arguments.beside.is_some()
        || !(arguments.devices.is_empty() && arguments.compatible.is_empty() && arguments.gpus.is_empty());
    report(&made, to.as_deref(), named, arguments.all, out)
}

fn report(made: &ImportedMap, to: Option<&Path>, named: bool, all: bool, out: &mut Out) -> Result<Exit, Failure> {
    if out.is_json() {
        let lost = made.losses.iter().map(|l| LossRow {
            file: &l.place.file,
            line: l.place.line,
            column: l.place.column,
            kind: l.kind.name(),
            what: &l.what,
        });
        out.value(&ImportReport {
            name: &made.name,
            format: made.format.name(),
            written: to.map(|p| p.display().to_string()),
            window_at: made.window_at.map(format_hex),
            registers: made.registers,
            fields: made.fields,
            layouts: made.layouts,
            layout_fields: made.layout_fields,
            enumerations: made.enums,
            arrays: made.arrays,
            not_carried_over: lost.collect(),
            more_not_carried_over: made.more_losses,
            map: to.is_none().then_some(made.text.as_str()),
        })?;
        return Ok(Exit::Good);
    }
    if let Some(to) = to {
        out.line(format_args!("{}", to.display()))?;
    }
    let arrays = match made.arrays {
        0 => String::new(),
        n => format!(" ({})", format_count(n as u64, "array")),
    };
    out.line(format_args!(
        "{} ({}): {}{arrays} with {}, {} with {}, {}",
        made.name,
        made.format.name(),
        format_count(made.registers as u64, "register"),
        format_count(made.fields as u64, "field"),
        format_count(made.layouts as u64, "layout"),
        format_count(made.layout_fields as u64, "field"),
        format_count(made.enums as u64, "enumeration"),
    ))?;
    if let Some(at) = made.window_at {
        out.line(format_args!("offsets count from {at:#x} on the device's bus"))?;
    }
    if !named {
        out.line("the map names no device: it applies to recordings that have its space and whose device no map knows; name devices with --device, --compatible or --gpu, or a recording with --next-to")?;
    }
    if made.losses.is_empty() {
        return Ok(out.line("everything was converted").map(|()| Exit::Good)?);
    }
    print_losses(made, all, |line| Ok(out.line(line)?))?;
    Ok(Exit::Good)
}

/// Prints the losses of the import, one per line; nothing if there are none.
fn print_losses(
    made: &ImportedMap,
    all: bool,
    mut line: impl FnMut(std::fmt::Arguments<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if made.losses.is_empty() {
        return Ok(());
    }
    let total = (made.losses.len() + made.more_losses) as u64;
    line(format_args!("not converted: {total}"))?;
    let mut kinds: BTreeMap<LossKind, usize> = BTreeMap::new();
    for l in &made.losses {
        *kinds.entry(l.kind).or_default() += 1;
    }
    for (kind, n) in kinds {
        line(format_args!("  {n} {}", kind.name()))?;
    }
    let max = if all { usize::MAX } else { MAX_LISTED_LOSSES };
    for l in made.losses.iter().take(max) {
        line(format_args!("{}: {}", l.place, l.what))?;
    }
    let listed = made.losses.len().min(max) as u64;
    if listed < total {
        let how = if all { "" } else { "; --all lists them" };
        line(format_args!("and {} more{how}", total - listed))?;
    }
    Ok(())
}

/// A known map of any origin, or why it is not used.
#[derive(Serialize)]
struct MapRow {
    /// Name of the map.
    name: String,
    /// Number of registers and of layouts; `null` if the map cannot be read.
    registers: Option<u64>,
    layouts: Option<u64>,
    /// `embedded`, `your folder` or `beside the recording`.
    from: &'static str,
    /// The file; `null` for an embedded map.
    path: Option<String>,
    /// Why the map cannot be read, else `null`.
    error: Option<String>,
    /// Whether the map names registers of the given recording.
    names_this_recording: bool,
}

impl MapRow {
    fn from_map(map: &RegisterMap, from: &'static str, path: Option<&Path>) -> Self {
        Self {
            name: map.name().to_owned(),
            registers: Some(map.register_count()),
            layouts: Some(map.layouts().count() as u64),
            from,
            path: path.map(|p| p.display().to_string()),
            error: None,
            names_this_recording: false,
        }
    }
}

fn list(arguments: &ListArguments, out: &mut Out) -> Result<Exit, Failure> {
    let mut own = register_maps::UserMaps::open_folder(register_map_files::folder().as_deref());
    let mut chosen = Vec::new();
    if let Some(file) = &arguments.recording {
        let read = source::open(file, &Progress::new(), || {}).map_err(|e| Failure::usage(e.to_string()))?;
        own = read.maps;
        chosen = RegisterMap::list_for_recording(&read.opened.recording);
    }
    let mut known = Vec::new();
    for found in &own.maps {
        let from = if found.beside {
            "beside the recording"
        } else {
            "your folder"
        };
        known.push(match &found.map {
            Ok(map) => MapRow {
                names_this_recording: chosen.iter().any(|c| std::ptr::eq(*c, *map)),
                ..MapRow::from_map(map, from, Some(&found.path))
            },
            Err(e) => MapRow {
                name: found
                    .path
                    .file_name()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                registers: None,
                layouts: None,
                from,
                path: Some(found.path.display().to_string()),
                error: Some(e.clone()),
                names_this_recording: false,
            },
        });
    }
    for map in RegisterMap::embedded() {
        known.push(MapRow {
            names_this_recording: chosen.iter().any(|c| std::ptr::eq(*c, map)),
            ..MapRow::from_map(map, "embedded", None)
        });
    }
    if out.is_json() {
        out.array(known)?;
        return Ok(Exit::Good);
    }
    let mut rows = vec![
        ["Map", "Registers", "Layouts", "From", "Path"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for k in &known {
        let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let from = if k.names_this_recording {
            format!("{}, names this recording", k.from)
        } else {
            k.from.to_owned()
        };
        rows.push(vec![
            k.name.clone(),
            count(k.registers),
            count(k.layouts),
            from,
            k.path.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    out.table(&rows)?;
    for error in own.errors() {
        out.line(format_args!("not used: {error}"))?;
    }
    if let Some(folder) = register_map_files::folder() {
        out.line(format_args!("your folder: {}", folder.display()))?;
    }
    Ok(Exit::Good)
}
