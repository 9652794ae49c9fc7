//! References to differences of a comparison: the effect to explain, and the rules that would ignore it.

use crate::Document;
use crate::comparison::Comparison;
use crate::field_pairs;
use trace_core::GpuVa;
use trace_core::diff::{
    BufferDiff, CallDifference, CallPart, Effect, ElementDiff, Pattern, Rule, Tolerance, first_byte_effect,
    mapping_effect,
};
use trace_core::recording::EventKind;

/// A reference to a difference in one of the lists of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceRef {
    /// Aligned events; one may be missing.
    Events(Option<u64>, Option<u64>),
    /// A driver call, by index in the list. Indices after the last call mean functions with different code.
    Call(usize),
    /// A register, by index in the list.
    Register(usize),
    /// A range that the host wrote.
    Write(usize),
    /// A descriptor of a job.
    Descriptor(usize),
    /// A run of pages with different mappings.
    Mapping(usize),
    /// A buffer, by index among those that differ. Indices after the last buffer mean pages.
    Memory(usize),
    /// A byte of memory: address space index in the first recording, and address.
    Byte(u32, GpuVa),
}

/// Returns the buffers that differ, in list order.
pub fn buffers(c: &Comparison) -> impl Iterator<Item = &BufferDiff> {
    c.diff.buffers.iter().filter(|b| b.differs())
}

impl DifferenceRef {
    /// Returns the effect to explain, or `None` if no event or byte represents the difference.
    #[must_use]
    pub fn effect(&self, doc: &Document, c: &Comparison) -> Option<Effect> {
        let (a, b) = (&*doc.recording, &*c.other.recording);
        match self {
            // Launches and Memory explain calls, not walks from register to register.
            Self::Call(_) => None,
            Self::Events(..) if c.is_api_trace => None,
            Self::Events(a, b) => Some(Effect::Event { a: *a, b: *b }),
            Self::Register(n) => {
                let (a, b) = c.diff.registers.get(*n)?.first;
                Some(Effect::Event { a, b })
            }
            Self::Write(n) => {
                let w = c.diff.host_writes.list.get(*n)?;
                Some(Effect::Event { a: w.a, b: w.b })
            }
            Self::Descriptor(n) => {
                let d = c.diff.descriptors.list.get(*n)?;
                let index = |r: &trace_core::Recording, number: u8| {
                    let at = r.metadata.address_spaces.iter().position(|s| s.number == number)?;
                    u32::try_from(at).ok()
                };
                let at = |va: GpuVa| va.saturating_add(u64::from(d.first_byte));
                // A descriptor in only one chain follows from its submits.
                let (Some(va_a), Some(va_b)) = (d.a, d.b) else {
                    return Some(Effect::Event {
                        a: Some(d.events.0),
                        b: Some(d.events.1),
                    });
                };
                Some(Effect::Byte {
                    spaces: (index(a, d.spaces.0)?, index(b, d.spaces.1)?),
                    a: at(va_a),
                    b: at(va_b),
                    buffer: None,
                })
            }
            Self::Mapping(n) => mapping_effect(a, b, c.diff.mappings.list.get(*n)?),
            Self::Memory(n) => {
                if let Some(buffer) = buffers(c).nth(*n) {
                    return first_byte_effect(a, b, buffer);
                }
                let page = c.diff.pages.list.get(n.checked_sub(buffers(c).count())?)?;
                if c.diff.pages.physical {
                    return None;
                }
                let space = a
                    .metadata
                    .address_spaces
                    .iter()
                    .position(|s| s.number == page.address_space)?;
                let va = page.va.saturating_add(u64::from(page.first_byte.unwrap_or(0)));
                Self::Byte(u32::try_from(space).ok()?, va).effect(doc, c)
            }
            Self::Byte(space, va) => {
                let number = a.metadata.address_spaces.get(*space as usize)?.number;
                let there = b.metadata.address_spaces.iter().position(|s| s.number == number)?;
                let holds = |x: &&trace_core::recording::Buffer| {
                    x.address_space == *space && va.offset_from(x.va).is_some_and(|by| by < x.bytes)
                };
                Some(Effect::Byte {
                    spaces: (*space, u32::try_from(there).ok()?),
                    a: *va,
                    b: *va,
                    buffer: a.metadata.buffers.iter().find(holds).map(|x| x.name.clone()),
                })
            }
        }
    }

    /// Returns the rules that would each ignore the difference, the narrowest first.
    #[must_use]
    pub fn rules(&self, doc: &Document, c: &Comparison) -> Vec<Rule> {
        match self {
            Self::Events(a, b) => match c.diff.calls.find(*a, *b) {
                Some(d) => call(d),
                None => event(doc, c, *a, *b),
            },
            Self::Call(n) => c.diff.calls.list.get(*n).map(call).unwrap_or_default(),
            Self::Register(n) => {
                let Some(r) = c.diff.registers.get(*n) else {
                    return Vec::new();
                };
                register(&r.name, r.fields.iter().map(|f| f.0.as_str()))
            }
            Self::Write(n) => {
                let w = c.diff.host_writes.list.get(*n).filter(|_| !c.diff.host_writes.physical);
                w.into_iter().map(|w| memory(w.address_space, w.va, w.bytes)).collect()
            }
            Self::Descriptor(n) => {
                let d = c.diff.descriptors.list.get(*n);
                let at = d.and_then(|d| Some((d, d.a.map(|va| (d.spaces.0, va)).or(d.b.map(|va| (d.spaces.1, va)))?)));
                at.into_iter()
                    .map(|(d, (space, va))| memory(space, va, u64::from(d.bytes)))
                    .collect()
            }
            Self::Mapping(_) => vec![Rule::Mappings],
            Self::Memory(n) => match buffers(c).nth(*n) {
                Some(b) => buffer(b),
                None => {
                    let at = n.checked_sub(buffers(c).count());
                    let page = at
                        .and_then(|n| c.diff.pages.list.get(n))
                        .filter(|_| !c.diff.pages.physical);
                    page.into_iter().map(|p| memory(p.address_space, p.va, 4096)).collect()
                }
            },
            Self::Byte(space, va) => {
                let space = doc.recording.metadata.address_spaces.get(*space as usize);
                space.into_iter().map(|s| memory(s.number, *va, 1)).collect()
            }
        }
    }
}

fn memory(space: u8, va: GpuVa, bytes: u64) -> Rule {
    Rule::Memory {
        space: Some(space),
        range: (va, va.saturating_add(bytes)),
    }
}

/// Returns rules for the register fields that differ, and for the complete register.
fn register<'f>(name: &str, fields: impl Iterator<Item = &'f str>) -> Vec<Rule> {
    let rule = |field: Option<&str>| Rule::Register {
        register: Pattern::for_name(name),
        field: field.map(Pattern::for_name),
    };
    let named = fields.filter(|f| !f.is_empty() && *f != "value");
    named.map(|f| rule(Some(f))).chain([rule(None)]).collect()
}

fn event(doc: &Document, c: &Comparison, a: Option<u64>, b: Option<u64>) -> Vec<Rule> {
    let first = a.map(|e| (e, &doc.recording, &doc.derived));
    let Some((e, recording, derived)) = first.or(b.map(|e| (e, &c.other.recording, &c.other.derived))) else {
        return Vec::new();
    };
    let at = usize::try_from(e).unwrap_or(usize::MAX);
    if let Some(access) = recording.events.access(at) {
        let register_of = derived.device.and_then(|d| d.find_accessed(&access));
        let name = register_of.map_or_else(|| format!("{:#x}", access.offset), |r| r.name.clone());
        let pairs = field_pairs::list_field_pairs(doc, c, a, b);
        let differ = pairs.iter().filter(|f| f.differs() && a.is_some() && b.is_some());
        return register(&name, differ.map(|f| f.name.as_str()));
    }
    match recording.events.kind(at) {
        Some(EventKind::Read | EventKind::Write) | None => Vec::new(),
        Some(kind) => vec![Rule::Events(kind)],
    }
}

/// Returns rules for two calls: a tolerance for the elements, the buffer contents, all calls of the kind.
fn call(d: &CallDifference) -> Vec<Rule> {
    let mut out = Vec::new();
    if let Some(c) = &d.content {
        out.extend(tolerance(&d.names.0, Some(&c.elements)));
        out.push(Rule::Buffer(Pattern::for_name(&d.names.0)));
    }
    out.push(Rule::Events(match d.part {
        CallPart::Copy | CallPart::Snapshot => EventKind::Copy,
        CallPart::Fill => EventKind::Fill,
        CallPart::Launch => EventKind::Launch,
    }));
    out
}

/// Returns a tolerance rule with the observed maximum error, if the elements are numbers.
fn tolerance(name: &str, elements: Option<&ElementDiff>) -> Option<Rule> {
    let max = elements.and_then(|e| e.errors.as_ref()).map(|e| e.max_absolute);
    let max = max.filter(|m| m.is_finite() && *m > 0.0)?;
    Some(Rule::Tolerance {
        buffer: Pattern::for_name(name),
        tolerance: Tolerance {
            absolute: Some(max),
            ..Tolerance::default()
        },
    })
}

/// Returns a tolerance rule with the observed maximum error if the elements are numbers, and a rule for the whole
/// buffer.
fn buffer(b: &BufferDiff) -> Vec<Rule> {
    let close = tolerance(&b.name, b.elements.as_ref());
    close
        .into_iter()
        .chain([Rule::Buffer(Pattern::for_name(&b.name))])
        .collect()
}
