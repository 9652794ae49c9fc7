//! Description of the item under the pointer.

use super::ink::Inks;
use super::legend::format_bits;
use super::view::Colour;
use kinescope_session::page_runs::format_rights;
use kinescope_session::{Document, text, xref_text};
use std::ops::Range;
use trace_core::GpuVa;

/// Describes a cell: its addresses, rights, physical page, buffer, content and last change.
#[must_use]
pub fn describe_cell(doc: &Document, inks: &Inks<'_>, space: u32, cell: &Range<GpuVa>) -> String {
    let map = inks.map;
    let mut out = format!(
        "{:#x}..{:#x}  {}",
        cell.start,
        cell.end,
        text::bytes(cell.end - cell.start)
    );
    let kinds = map.runs.over(cell);
    let mapped = kinds.mapped_bytes();
    if mapped == 0 {
        return out + "\nnothing is mapped here";
    }
    let page = cell.end - cell.start <= 4096;
    let run = map
        .runs
        .at(super::ink::next_mapped(map, cell.start).unwrap_or(cell.start));
    match run.filter(|_| page) {
        Some(r) => {
            let pa = r.target(cell.start).map_or_else(String::new, |p| p.to_string());
            out += &format!("\n{}  physical {pa}  attributes {:#04x}", r.rights, r.attributes);
            out += &format!(
                "\nin a mapping of {} from {:#x}",
                text::count_noun(r.pages, "page", "pages"),
                r.va
            );
        }
        None => {
            let parts: Vec<String> = kinds
                .kinds()
                .iter()
                .map(|(bits, bytes)| format!("{} {}", format_rights(*bits as u8), text::bytes(*bytes)))
                .collect();
            out += &format!("\n{} mapped: {}", text::bytes(mapped), parts.join(", "));
        }
    }
    let holds = xref_text::describe_uses(&doc.recording, &doc.derived.page_usage.find_uses(cell.start, cell.end));
    if !holds.is_empty() {
        out += &format!("\nholds {holds}");
    }
    if let Some(e) = inks.entropy {
        let v = e.over(cell);
        match v.mean() {
            Some(mean) if v.min == v.max => out += &format!("\n{} bits per byte", format_bits(mean)),
            Some(mean) => {
                let (a, b) = (format_bits(v.min as f64), format_bits(v.max as f64));
                out += &format!("\n{} bits per byte, from {a} to {b}", format_bits(mean));
            }
            None => out += "\nits contents are not recorded",
        }
    }
    let v = map.changes.over(cell);
    let first = inks.events.0;
    out += &match v {
        v if v.bytes == 0 && inks.colour_by != Colour::Entropy => "\nits contents are not recorded".to_owned(),
        v if v.bytes == 0 => String::new(),
        v if v.max == first => format!(
            "\ncontents as at event {}, the start of the recorded contents",
            text::count(first)
        ),
        v => format!("\nchanged last at event {}", text::count(v.max)),
    };
    if page {
        let n = super::links::find_aliases(map, space, cell.start).len() as u64;
        if n > 0 {
            out += &format!("\nmapped at {} more", text::count_noun(n, "address", "addresses"));
        }
    }
    out
}
