//! Clipboard contents: an item of a recording as text, C or JSON. Row menus, the palette and Memory use the same.

use crate::{Document, api_trace, descriptions, lookup, text};
use kinescope_files::scene::Selection;
use kinescope_files::values;
use serde_json::{Value, json};
use trace_core::recording::{ElementType, EventKind};
use trace_core::xref::read_entry;
use trace_core::{GpuVa, RegOffset};

/// Maximum number of bytes of memory or of a buffer that are copied at once.
pub const MAX_BYTES: usize = 1 << 16;

/// The format of a copied item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Readable text, bytes in hex.
    Text,
    /// A C array, or preprocessor definitions.
    C,
    /// A JSON object: addresses, offsets and values as `0x…`, the same as on the command line.
    Json,
}

impl CopyFormat {
    /// Returns the menu label of the format.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Text => "as text",
            Self::C => "as C",
            Self::Json => "as JSON",
        }
    }
}

/// Whether an item can be copied in a format. The check is cheap.
#[must_use]
pub fn has_format(doc: &Document, thing: &Selection, form: CopyFormat) -> bool {
    match (form, thing) {
        (CopyFormat::Text | CopyFormat::Json, _) => true,
        (CopyFormat::C, Selection::Event | Selection::Note(_) | Selection::Divergence(_) | Selection::Fault(_)) => {
            access(doc, doc.current_event()).is_some()
        }
        (CopyFormat::C, Selection::Finding(_) | Selection::Entry { .. } | Selection::Framebuffer { .. }) => false,
        (CopyFormat::C, _) => true,
    }
}

/// Formats an item, or returns `None` if the item does not have this format.
#[must_use]
pub fn format_selection(doc: &Document, thing: &Selection, form: CopyFormat) -> Option<String> {
    match thing {
        Selection::Register(r) => Some(format_register(doc, *r, form)),
        Selection::Job(j) => job(doc, *j, form),
        Selection::Buffer(b) => buffer(doc, b, form),
        Selection::Memory { space, va, bytes } => {
            let n = usize::try_from(*bytes).unwrap_or(MAX_BYTES).min(MAX_BYTES);
            let read = lookup::read(&doc.recording, *space, *va, doc.current_event(), n);
            let known: Vec<Option<u8>> = read.into_iter().map(Result::ok).collect();
            Some(match form {
                CopyFormat::Text => format!("{va:#x}: {}", hex(&known)),
                CopyFormat::C => c_array(&format!("mem_{va:x}"), &known),
                CopyFormat::Json => {
                    let mut all = json_bytes(va.get(), &known);
                    put(&mut all, "space", json!(space));
                    put(&mut all, "event", json!(doc.current_event()));
                    all.to_string()
                }
            })
        }
        Selection::Entry { space, va, level } => {
            let text = descriptions::describe_selection(doc, thing);
            let step = read_entry(&doc.recording, *space, *va, *level, doc.current_event());
            match form {
                CopyFormat::Text => Some(match step {
                    Some(s) => format!("{text}: {:#018x} at {}", s.raw, s.entry_at),
                    None => text,
                }),
                CopyFormat::C => None,
                CopyFormat::Json => Some(
                    json!({
                        "space": space,
                        "address": format!("{va:#x}"),
                        "level": level,
                        "entry": step.map(|s| format!("{:#x}", s.raw)),
                        "entry_at": step.map(|s| s.entry_at.to_string()),
                        "event": doc.current_event(),
                    })
                    .to_string(),
                ),
            }
        }
        Selection::Framebuffer { space, offset, bytes } => match form {
            CopyFormat::Text => Some(descriptions::describe_selection(doc, thing)),
            CopyFormat::C => None,
            CopyFormat::Json => {
                let name = doc
                    .recording
                    .metadata
                    .spaces
                    .get(usize::from(*space))
                    .map(|s| s.name.clone());
                let parsed_json = json!({ "space": name, "offset": format!("{offset:#x}"), "bytes": bytes });
                Some(parsed_json.to_string())
            }
        },
        Selection::Finding(i) => {
            let f = doc.derived.findings.get(*i as usize)?;
            match form {
                CopyFormat::Text => Some(format!("{}: {}", f.place, f.message)),
                CopyFormat::C => None,
                CopyFormat::Json => Some(json!({ "place": f.place.to_string(), "message": f.message }).to_string()),
            }
        }
        Selection::Event | Selection::Note(_) | Selection::Divergence(_) | Selection::Fault(_) => {
            format_event(doc, doc.current_event(), form)
        }
    }
}

fn access(doc: &Document, event: u64) -> Option<trace_core::recording::Access> {
    doc.recording.events.access(usize::try_from(event).ok()?)
}

/// Returns a name as a valid C identifier.
fn identifier(name: &str) -> String {
    let mut out: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert_str(0, "REG_");
    }
    out
}

/// Formats a C integer of `width` bytes.
fn c_number(value: u64, width: u8) -> String {
    let suffix = if width > 4 { "ull" } else { "u" };
    format!("{value:#x}{suffix}")
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

/// Formats an event. Returns `None` for C if the event is not an access.
#[must_use]
pub fn format_event(doc: &Document, event: u64, form: CopyFormat) -> Option<String> {
    let at = usize::try_from(event).ok()?;
    let access = doc.recording.events.access(at);
    match form {
        CopyFormat::Text => Some(format!("{event}\t{}", descriptions::format_event(doc, event))),
        CopyFormat::C => {
            let a = access?;
            let name = identifier(&doc.derived.access_name(&doc.recording, &a));
            let what = if a.write { "write" } else { "read" };
            Some(format!(
                "/* event {event}, {what} */\n#define {name} {:#x}u\n#define {name}_VALUE {}\n",
                a.offset,
                c_number(a.value, a.width)
            ))
        }
        CopyFormat::Json => {
            let time = if doc.recording.counts_ticks() {
                "time_ticks"
            } else {
                "time_ns"
            };
            let mut out = json!({
                "event": event,
                time: doc.ns(event),
                "thread": doc.recording.events.thread.get(at),
            });
            if let Some(a) = access {
                put(&mut out, "kind", json!(if a.write { "write" } else { "read" }));
                put(&mut out, "register", json!(doc.derived.access_name(&doc.recording, &a)));
                put(&mut out, "offset", json!(format!("{:#x}", a.offset)));
                put(&mut out, "width", json!(a.width));
                put(&mut out, "value", json!(format!("{:#x}", a.value)));
                let means = descriptions::describe_event(doc, event);
                if !means.is_empty() {
                    put(&mut out, "means", json!(means));
                }
            } else {
                if let Some(word) = doc.recording.events.kind(at).and_then(EventKind::call_name) {
                    put(&mut out, "kind", json!(word));
                    launch(doc, event, &mut out);
                }
                put(&mut out, "means", json!(descriptions::format_event(doc, event)));
            }
            Some(out.to_string())
        }
    }
}

/// Adds the parameters of a launch to `out`, if the event is a launch.
fn launch(doc: &Document, event: u64, out: &mut Value) {
    let (Some(api_trace), Some(l)) = (doc.api_trace(), api_trace::launch(&doc.recording, event)) else {
        return;
    };
    let arguments = api_trace.arguments(&doc.recording, event, &l);
    let words: Vec<String> = arguments.iter().map(|a| a.describe_labelled(&api_trace)).collect();
    put(out, "kernel", json!(api_trace.function_name(l.function)));
    put(out, "grid", json!(l.grid));
    put(out, "block", json!(l.block));
    put(out, "shared", json!(l.shared));
    put(out, "stream", json!(api_trace.stream_name(l.stream)));
    put(out, "arguments", json!(words));
}

/// Formats a register with its value at the current event, if the value is known.
#[must_use]
pub fn format_register(doc: &Document, offset: RegOffset, form: CopyFormat) -> String {
    let name = doc.derived.register_name(offset);
    let held = doc
        .derived
        .register_value(&doc.recording, offset, doc.current_event())
        .and_then(|held| {
            let a = access(doc, held.event)?;
            let width = lookup::register_width(&doc.recording, offset, &a);
            Some((held.event, held.value, width))
        });
    match form {
        CopyFormat::Text => match held {
            Some((_, value, width)) => format!("{name}\t{}", text::hex(value, width)),
            None => name,
        },
        CopyFormat::C => {
            let name = identifier(&name);
            let value = held.map_or_else(String::new, |(event, value, width)| {
                format!(
                    "#define {name}_VALUE {} /* at event {event} */\n",
                    c_number(value, width)
                )
            });
            format!("#define {name} {offset:#x}u\n{value}")
        }
        CopyFormat::Json => {
            let mut out = json!({ "register": name, "offset": format!("{offset:#x}") });
            if let Some((event, value, width)) = held {
                put(&mut out, "event", json!(event));
                put(&mut out, "width", json!(width));
                put(&mut out, "value", json!(format!("{value:#x}")));
            }
            out.to_string()
        }
    }
}

fn job(doc: &Document, index: u32, form: CopyFormat) -> Option<String> {
    let j = doc.derived.jobs.get(index as usize)?;
    Some(match form {
        CopyFormat::Text => format!("job {index} at {:#x}", j.head_va),
        CopyFormat::C => format!("#define JOB_{index}_HEAD {}\n", c_number(j.head_va.get(), 8)),
        CopyFormat::Json => json!({
            "job": index,
            "slot": j.slot,
            "head_va": format!("{:#x}", j.head_va),
            "submit": j.submit,
            "done": j.done,
            "duration_ns": j.duration_ns,
            "failed": j.failed,
        })
        .to_string(),
    })
}

fn buffer(doc: &Document, name: &str, form: CopyFormat) -> Option<String> {
    let b = doc.buffers.get(name)?;
    if form == CopyFormat::Text {
        return Some(name.to_owned());
    }
    let (whole, edited) = doc.buffer_now(name)?;
    let bytes: Vec<Option<u8>> = whole.into_iter().take(MAX_BYTES).map(Some).collect();
    Some(match form {
        CopyFormat::Json => {
            let mut out = json_bytes(b.va.get(), &bytes);
            put(&mut out, "buffer", json!(name));
            put(&mut out, "role", json!(b.role.name()));
            put(&mut out, "edited", json!(edited));
            out.to_string()
        }
        CopyFormat::Text | CopyFormat::C => c_array(&identifier(name), &bytes),
    })
}

fn hex(bytes: &[Option<u8>]) -> String {
    let all: Vec<String> = bytes
        .iter()
        .map(|b| b.map_or("??".into(), |b| format!("{b:02x}")))
        .collect();
    all.join(" ")
}

/// Formats a C array. Unknown bytes are 0, and a comment states their number.
fn c_array(name: &str, bytes: &[Option<u8>]) -> String {
    let lines: Vec<String> = bytes
        .chunks(12)
        .map(|line| {
            let list: Vec<String> = line.iter().map(|b| format!("{:#04x}", b.unwrap_or(0))).collect();
            format!("    {},\n", list.join(", "))
        })
        .collect();
    let unknown = match bytes.iter().filter(|b| b.is_none()).count() {
        0 => String::new(),
        n => format!("/* {n} of these bytes are not known, and 0 here */\n"),
    };
    format!(
        "{unknown}const unsigned char {name}[{}] = {{\n{}}};\n",
        bytes.len(),
        lines.join("")
    )
}

/// Returns a JSON object with an address and its bytes. Unknown bytes are null.
fn json_bytes(va: u64, bytes: &[Option<u8>]) -> Value {
    json!({ "va": format!("{va:#x}"), "bytes": bytes })
}

/// Formats bytes in every format and returns pairs of label and text. An unknown byte is `??`, 0 in numbers and null in
/// JSON.
#[must_use]
pub fn format_bytes(va: GpuVa, bytes: &[Option<u8>], element: Option<ElementType>) -> Vec<(&'static str, String)> {
    let known: Vec<u8> = bytes.iter().map(|b| b.unwrap_or(0)).collect();
    let decimal: Vec<String> = known.iter().map(u8::to_string).collect();
    let ascii = |b: &u8| if (0x20..0x7f).contains(b) { *b as char } else { '.' };
    let mut out = vec![
        ("address", format!("{va:#x}")),
        ("as hex", hex(bytes)),
        ("as decimal", decimal.join(", ")),
        ("as C array", c_array(&format!("mem_{va:x}"), bytes)),
        ("as JSON", json_bytes(va.get(), bytes).to_string()),
        ("as text", known.iter().map(ascii).collect()),
    ];
    if let Some(e) = element.filter(|e| *e != ElementType::U8) {
        let list: Vec<String> = known
            .chunks_exact(e.bytes())
            .map(|b| values::format_element(e, b))
            .collect();
        out.push(("as values", list.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_in_every_form() {
        let bytes = [Some(0x41), Some(0), None, Some(0xff)];
        let all = format_bytes(GpuVa::new(0x1000), &bytes, Some(ElementType::U16));
        let form = |name: &str| all.iter().find(|f| f.0 == name).unwrap().1.clone();
        assert_eq!(form("address"), "0x1000");
        assert_eq!(form("as hex"), "41 00 ?? ff");
        assert_eq!(form("as decimal"), "65, 0, 0, 255");
        assert_eq!(
            form("as C array"),
            "/* 1 of these bytes are not known, and 0 here */\nconst unsigned char mem_1000[4] = {\n    0x41, 0x00, 0x00, 0xff,\n};\n"
        );
        assert_eq!(form("as JSON"), r#"{"bytes":[65,0,null,255],"va":"0x1000"}"#);
        assert_eq!(form("as text"), "A...");
        assert_eq!(form("as values"), "65, 65280");
    }

    #[test]
    fn names_become_c_identifiers() {
        assert_eq!(identifier("JS1_HEAD_NEXT_LO"), "JS1_HEAD_NEXT_LO");
        assert_eq!(identifier("bar 0+0x18"), "bar_0_0x18");
        assert_eq!(identifier("0x0018"), "REG_0x0018");
        assert_eq!((c_number(7, 4), c_number(7, 8)), ("0x7u".into(), "0x7ull".into()));
    }
}
