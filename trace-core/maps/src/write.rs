//! The writer of map texts from drafts: it removes and reports what the format does not allow, and reads the result
//! back with the format's own reader.

use super::compact;
use super::draft::{Access, Draft, DraftRegister};
use super::error::{ImportError, Loss, LossKind};
use super::map_text::{fields_text, levels_text, quoted};
use super::options::{Format, Options};
use super::overlaps::accepted;
use super::text::one_name;
use std::collections::HashSet;
use std::fmt::Write as _;
use trace_core::registers::RegisterMap;

/// Maximum size of the register window of the format, bytes.
const MAX_WINDOW: u64 = 1 << 26;
/// Reason why no recorded write of an imported register is replayed.
const REASON: &str = "Imported: nobody has decided yet whether its writes may be replayed.";

/// An imported map.
#[derive(Clone, Debug)]
pub struct ImportedMap {
    /// The format of the file.
    pub format: Format,
    /// Name of the map.
    pub name: String,
    /// Its text, the input of `RegisterMap::parse`.
    pub text: String,
    /// Number of imported registers, array members counted. A 64-bit register counts once.
    pub registers: usize,
    /// Number of arrays of registers.
    pub arrays: usize,
    /// Number of fields of all registers, array members counted.
    pub fields: usize,
    /// Number of layouts of descriptors and entries.
    pub layouts: usize,
    /// Number of fields of all layouts.
    pub layout_fields: usize,
    /// Number of enumerations.
    pub enums: usize,
    /// Losses in the order of detection.
    pub losses: Vec<Loss>,
    /// Number of losses beyond the listed ones.
    pub more_losses: usize,
    /// Bus address of the register window, if the file gives bus addresses.
    pub window_at: Option<u64>,
}

pub(crate) fn finish(mut draft: Draft, format: Format, options: &Options) -> Result<ImportedMap, ImportError> {
    let window = window(&draft)?;
    let registers = accepted(&mut draft, window);
    let arrays = registers.iter().filter(|(r, _)| !r.levels.is_empty()).count();
    let mut out = String::new();
    head(&mut out, &draft, options, window);
    let mut used = HashSet::new();
    let mut count = (0, 0);
    let mut text = String::new();
    if options.compact {
        count = compact::write(&mut text, &mut draft, &registers, &mut used);
    } else {
        for (register, also) in &registers {
            let members = usize::try_from(register.shape().members()).unwrap_or(usize::MAX);
            let fields = register_text(&mut text, &mut draft, register, also, &mut used);
            count.1 = fields.saturating_mul(members).saturating_add(count.1);
            count.0 = members.saturating_add(count.0);
        }
    }
    let mut layouts = (0, 0);
    let mut names = HashSet::new();
    for layout in std::mem::take(&mut draft.layouts) {
        if layout.bits == 0 || layout.bits > 1 << 16 || !names.insert(layout.name.clone()) {
            draft.lose(layout.at, LossKind::Layout, || {
                format!(
                    "{} of {} bits: too large, empty, or a duplicate name",
                    layout.name, layout.bits
                )
            });
            continue;
        }
        let lines = fields_text(
            &mut draft,
            &layout.name,
            layout.bits,
            &layout.fields,
            &mut used,
            options.compact,
        );
        let _ = write!(
            text,
            "\n[[layout]]\nname = {}\nbits = {}\n",
            quoted(&layout.name),
            layout.bits
        );
        let doc = if layout.doc.is_empty() || options.compact {
            &layout.name
        } else {
            &layout.doc
        };
        let _ = write!(
            text,
            "doc = {}\nprovenance = {}\n",
            quoted(doc),
            quoted(&draft.provenance)
        );
        layouts.0 += 1;
        layouts.1 += lines.1;
        text.push_str(&lines.0);
    }
    let mut enums = 0;
    for (n, (name, values)) in draft.enums.iter().enumerate() {
        if !used.contains(&n) {
            continue;
        }
        enums += 1;
        let _ = writeln!(out, "\n[enum.{}]", quoted(name));
        for v in values {
            let (value, name) = (v.value, quoted(&v.name));
            let _ = match v.doc.as_str() {
                "" => writeln!(out, "{value:#x} = {name}"),
                doc => writeln!(out, "{value:#x} = {{ name = {name}, doc = {} }}", quoted(doc)),
            };
        }
    }
    out.push_str(&text);
    if out.len() as u64 > super::user_maps::MAX_BYTES {
        return Err(ImportError::Choose {
            file: draft.file,
            reason: format!(
                "the map would have {} bytes, but the maximum is {}; import parts of it (--block)",
                out.len(),
                super::user_maps::MAX_BYTES
            ),
        });
    }
    if let Err(e) = RegisterMap::parse(&[(&draft.file, &out)]) {
        return Err(ImportError::Unreadable {
            file: draft.file,
            reason: e.to_string(),
        });
    }
    Ok(ImportedMap {
        format,
        name: draft.name,
        text: out,
        registers: count.0,
        arrays,
        fields: count.1,
        layouts: layouts.0,
        layout_fields: layouts.1,
        enums,
        losses: draft.losses,
        more_losses: draft.more_losses,
        window_at: draft.window_at,
    })
}

/// Returns the size of the register window in bytes: as given by the file, or up to the end of the last register.
fn window(draft: &Draft) -> Result<u64, ImportError> {
    let end = |r: &DraftRegister| {
        r.offset
            .saturating_add(r.shape().span())
            .saturating_add(r.body.bits / 8)
    };
    let reported = draft.window.filter(|w| *w <= MAX_WINDOW && *w >= 4);
    let last = draft.registers.iter().map(end).filter(|e| *e <= MAX_WINDOW).max();
    let bytes = reported.or(last).unwrap_or(4096).clamp(4, MAX_WINDOW);
    Ok(match reported {
        Some(w) => w.next_multiple_of(4).min(MAX_WINDOW),
        None => bytes.next_power_of_two().max(0x100),
    })
}

fn head(out: &mut String, draft: &Draft, options: &Options, window: u64) {
    let _ = writeln!(out, "# {}", one_name(&draft.provenance));
    let _ = writeln!(
        out,
        "# The import printed what this form cannot express. docs/register-map.md describes the form."
    );
    let _ = write!(out, "[map]\nname = {}\nwindow = {window:#x}\n", quoted(&draft.name));
    if !options.space.is_empty() {
        let _ = writeln!(out, "space = {}", quoted(&options.space));
    }
    let doc = match draft.doc.as_str() {
        doc if !doc.is_empty() && !options.compact => doc,
        _ => draft.name.as_str(),
    };
    let _ = writeln!(out, "doc = {}", quoted(doc));
    if options.pci.is_empty() && options.compatible.is_empty() && options.gpu.is_empty() {
        let _ = writeln!(
            out,
            "# The devices of this map: [[map.device]] with vendor and device, or compatible; [[map.gpu]] with id."
        );
    }
    let name = quoted(&draft.name);
    for (vendor, device) in &options.pci {
        let _ = write!(
            out,
            "\n[[map.device]]\nvendor = {vendor:#06x}\ndevice = {device:#06x}\nname = {name}\n"
        );
    }
    for compatible in &options.compatible {
        let _ = write!(
            out,
            "\n[[map.device]]\ncompatible = {}\nname = {name}\n",
            quoted(compatible)
        );
    }
    for id in &options.gpu {
        let _ = write!(out, "\n[[map.gpu]]\nid = {id:#06x}\nname = {name}\n");
    }
    let _ = write!(
        out,
        "\n[block]\nname = {name}\nbase = 0\nprovenance = {}\n",
        quoted(&draft.provenance)
    );
    if options.compact {
        let _ = writeln!(
            out,
            "access = \"rw\"\nreplay = false\nreason = {}\nsay = \"names\"",
            quoted(REASON)
        );
    }
}

fn register_text(
    out: &mut String,
    draft: &mut Draft,
    register: &DraftRegister,
    also: &[String],
    used: &mut HashSet<usize>,
) -> usize {
    let body = &register.body;
    let _ = write!(out, "\n[[register]]\nname = {}\n", quoted(&register.name));
    let _ = writeln!(out, "block = {}", quoted(&register.block));
    let _ = writeln!(out, "offset = {:#x}", register.offset);
    match body.bits {
        64 => out.push_str("wide = true\n"),
        32 => {}
        bits => {
            let _ = writeln!(out, "width = {}", bits / 8);
        }
    }
    out.push_str(&levels_text(&register.levels));
    let access = match body.access {
        Access::Read => "access = \"ro\"\n",
        Access::Write => "access = \"wo\"\nreplay = false\n",
        Access::Both => "access = \"rw\"\nreplay = false\n",
    };
    out.push_str(access);
    if body.access != Access::Read {
        let _ = writeln!(out, "reason = {}", quoted(REASON));
    }
    let mut doc = body.doc.clone();
    if !also.is_empty() {
        if !doc.is_empty() {
            doc.push(' ');
        }
        let _ = write!(doc, "Also in these bytes: {}.", also.join(", "));
    }
    // Members of an array without a description are described by their own names.
    if doc.is_empty() && register.levels.is_empty() {
        doc.clone_from(&register.name);
    }
    if !doc.is_empty() {
        let _ = writeln!(out, "doc = {}", quoted(&doc));
    }
    let (lines, count) = fields_text(draft, &register.name, body.bits, &body.fields, used, false);
    out.push_str(&lines);
    count
}
