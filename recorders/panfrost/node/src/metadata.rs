//! Metadata of a recording in addition to its events: names of buffers, ends of chains, why it ended early.

use crate::gpu::ChainResult;
use crate::save;
use driver_mali::SpaceId;
use std::collections::BTreeSet;
use trace_core::GpuVa;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    Buffer, BufferRole, ChainReport, ElementType, LostEvents, Metadata, RegisterTraceMetadata, TraceKind,
};

/// Maximum number of chains whose ends are recorded: about 20 MB of text.
const MAX_CHAINS: usize = 200_000;
/// Maximum number of reasons that become findings, and maximum number of chains in one of them.
const MAX_REASONS: usize = 256;
const MAX_LISTED: usize = 16;

/// A range that a program named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferName {
    /// Name, unique in a recording: the last range with a name is kept.
    pub name: String,
    /// Role of the buffer.
    pub role: BufferRole,
    /// Type of the elements.
    pub element: ElementType,
    /// Length of each dimension, the slowest first; empty if unknown.
    pub shape: Vec<u64>,
}

/// GPU memory of one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GpuRange {
    pub space: SpaceId,
    pub va: GpuVa,
    pub bytes: u64,
}

/// An object that the program labelled by the driver's own request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelledObject {
    pub place: GpuRange,
    pub label: String,
}

/// All metadata.
#[derive(Debug, Default)]
pub(crate) struct RecordingMetadata {
    named: Vec<(BufferName, GpuRange)>,
    /// Labelled objects of closed files.
    labelled: Vec<LabelledObject>,
    chains: Vec<(GpuVa, ChainReport)>,
    /// Why the recording ended early.
    pub error: Option<String>,
}

impl RecordingMetadata {
    /// Adds a named range. The last range with a name is kept.
    pub(crate) fn add_name(&mut self, named: BufferName, place: GpuRange) {
        match self.named.iter_mut().find(|(n, _)| n.name == named.name) {
            Some(before) => *before = (named, place),
            None => self.named.push((named, place)),
        }
    }

    /// Adds the labels of a closed file.
    pub(crate) fn add_labels(&mut self, labels: Vec<LabelledObject>) {
        self.labelled.extend(labels);
    }

    /// Adds the end of a chain.
    pub(crate) fn add_chain(&mut self, head: GpuVa, ran: &ChainResult) {
        if self.chains.len() < MAX_CHAINS {
            self.chains.push((head, ran.report.clone()));
        }
    }

    /// Forgets names and labels of address spaces that another file uses now.
    pub(crate) fn retain_spaces(&mut self, stands: impl Fn(SpaceId) -> bool) {
        self.named.retain(|(_, place)| stands(place.space));
        self.labelled.retain(|l| stands(l.place.space));
    }

    /// Writes the metadata. `open` are the labels of open files.
    pub(crate) fn write_to(
        &self,
        metadata: &mut Metadata,
        identity: &Provenance<'_>,
        events: u64,
        open: Vec<LabelledObject>,
    ) {
        metadata.identity.tool = format!("kinescope-panfrost {}: {}", env!("CARGO_PKG_VERSION"), identity.program);
        metadata.identity.source = "panfrost-live".to_owned();
        identity.when.clone_into(&mut metadata.identity.when);
        metadata.buffers.extend(self.named.iter().map(|(n, place)| Buffer {
            name: n.name.clone(),
            role: n.role,
            address_space: u32::from(place.space.number()),
            va: place.va,
            bytes: place.bytes,
            element: n.element,
        }));
        self.write_labels(metadata, open);
        let shaped = self.named.iter().filter(|(n, _)| !n.shape.is_empty());
        metadata
            .buffer_shapes
            .extend(shaped.map(|(n, _)| (n.name.clone(), n.shape.clone())));
        metadata.kind = TraceKind::Register(RegisterTraceMetadata {
            chain_reports: self.chains.iter().map(|(_, report)| report.clone()).collect(),
            ..RegisterTraceMetadata::default()
        });
        metadata.findings.extend(self.findings());
        metadata.lost.extend(self.error.iter().map(|reason| LostEvents {
            before_event: events,
            count: None,
            reason: reason.clone(),
        }));
    }

    /// Makes labels buffer names for objects that the program did not name.
    fn write_labels(&self, metadata: &mut Metadata, open: Vec<LabelledObject>) {
        let mut all: Vec<LabelledObject> = self.labelled.iter().cloned().chain(open).collect();
        all.sort_by_key(|l| l.place);
        let mut taken: BTreeSet<String> = metadata.buffers.iter().map(|b| b.name.clone()).collect();
        for l in all {
            let within = |n: &GpuRange| {
                n.space == l.place.space
                    && n.va < l.place.va.saturating_add(l.place.bytes)
                    && l.place.va < n.va.saturating_add(n.bytes)
            };
            if self.named.iter().any(|(_, n)| within(n)) {
                continue;
            }
            let mut name = l.label.clone();
            let mut n = 1u32;
            while !taken.insert(name.clone()) {
                n += 1;
                name = format!("{} {n}", l.label);
            }
            metadata.buffers.push(Buffer {
                name,
                role: BufferRole::Shared,
                address_space: u32::from(l.place.space.number()),
                va: l.place.va,
                bytes: l.place.bytes,
                element: ElementType::U8,
            });
        }
    }

    /// Returns findings about shaders that did not run: one per reason, at the first chain with that reason.
    fn findings(&self) -> Vec<Finding> {
        let mut reasons: Vec<(&str, Vec<(GpuVa, u64)>)> = Vec::new();
        for (head, report) in &self.chains {
            let Some(why) = report.reason.as_deref() else { continue };
            let chain = (*head, report.submit_event);
            if let Some((_, chains)) = reasons.iter_mut().find(|(known, _)| *known == why) {
                chains.push(chain);
            } else if reasons.len() < MAX_REASONS {
                reasons.push((why, vec![chain]));
            }
        }
        let describe = |(why, chains): (&str, Vec<(GpuVa, u64)>)| {
            let listed: Vec<String> = chains.iter().take(MAX_LISTED).map(|(va, _)| va.to_string()).collect();
            let more = match chains.len().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let noun = if chains.len() == 1 { "chain" } else { "chains" };
            let place = format!("{noun} {}{more}", listed.join(", "));
            let finding = Finding::new(FindingKind::ShaderNotRun, place, why);
            match chains.first() {
                Some((_, event)) => finding.at_event(*event),
                None => finding,
            }
        };
        reasons.into_iter().map(describe).collect()
    }
}

/// Tool and time of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Provenance<'a> {
    pub program: &'a str,
    pub when: String,
}

impl<'a> Provenance<'a> {
    /// Returns the provenance of a program's recording that is made now.
    pub(crate) fn for_program(program: &'a str) -> Self {
        Self {
            program,
            when: save::now_rfc3339(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain_result(event: u64, reason: Option<&str>) -> ChainResult {
        ChainResult {
            end: driver_mali::JobEnd {
                status: 1,
                fault_address: None,
            },
            report: ChainReport {
                submit_event: event,
                status: 1,
                computed: Some(reason.is_none()),
                reason: reason.map(str::to_owned),
            },
        }
    }

    #[test]
    fn each_reason_is_reported_once_with_its_chains() {
        let mut t = RecordingMetadata::default();
        for n in 0..20 {
            t.add_chain(
                GpuVa::new(0x1000 * (n + 1)),
                &chain_result(n * 10, (n % 2 == 1).then_some("not drawn")),
            );
        }
        t.add_chain(GpuVa::new(0x5_0000), &chain_result(300, Some("another")));
        let found = t.findings();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].message.as_str(), found[0].event), ("not drawn", Some(10)));
        assert!(
            found[0].place.starts_with("chains 0x2000, 0x4000"),
            "{}",
            found[0].place
        );
        assert_eq!(found[1].place, "chain 0x50000");
        let mut metadata = Metadata::default();
        t.write_to(&mut metadata, &Provenance::for_program("a test"), 0, Vec::new());
        let TraceKind::Register(trace) = metadata.kind else {
            panic!()
        };
        let reports = trace.chain_reports;
        assert_eq!(reports.iter().filter(|r| r.has_computed()).count(), 10);
    }

    #[test]
    fn labels_name_buffers_without_a_program_name() {
        let mut device = device_mali::factory("mali-g71").unwrap();
        let mut driver = driver_mali::Driver::boot(&mut *device, driver_mali::Recorder::new("a test")).unwrap();
        let space = driver.new_space(trace_core::recording::MmuFormat::MaliLpae).unwrap();
        let place = |va, bytes| GpuRange {
            space,
            va: GpuVa::new(va),
            bytes,
        };
        let mut t = RecordingMetadata::default();
        let named = |name: &str| BufferName {
            name: name.to_owned(),
            role: BufferRole::Output,
            element: ElementType::F32,
            shape: vec![],
        };
        t.add_name(named("c"), place(0x2010, 16));
        t.add_name(named("Texture 2"), place(0x9000, 16));
        let label = |label: &str, va| LabelledObject {
            place: place(va, 0x1000),
            label: label.to_owned(),
        };
        t.add_labels(vec![label("Texture", 0x5000)]);
        let open = vec![
            label("Texture", 0x4000),
            label("c's own", 0x2000),
            label("Texture", 0x3000),
        ];
        let mut metadata = Metadata::default();
        t.write_to(&mut metadata, &Provenance::for_program("a test"), 0, open);
        let names: Vec<(&str, u64)> = metadata.buffers.iter().map(|b| (b.name.as_str(), b.va.get())).collect();
        let expected = [
            ("c", 0x2010),
            ("Texture 2", 0x9000),
            ("Texture", 0x3000),
            ("Texture 3", 0x4000),
            ("Texture 4", 0x5000),
        ];
        assert_eq!(names, expected);
    }
}
