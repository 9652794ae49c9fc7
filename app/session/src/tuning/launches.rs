//! The launches of a recording that can be tuned: names, lookup, and targets of pointer parameters.

use replay_cuda::tune::RecordedLaunch;
use replay_engine::tune::Axes;
use trace_core::GpuVa;
use trace_core::api_trace::Buffers;
use trace_core::recording::{Api, ApiTraceMetadata, CALL_CAPTURED, CallEvent, EventKind, LaunchRow, Recording};

/// A launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Event of the launch.
    pub event: u64,
    /// Recorded parameters of the launch.
    pub row: LaunchRow,
}

/// The launches of a recording, in order. Launches that were captured into a graph and launches that failed are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// Recorded metadata of the calls.
    pub metadata: ApiTraceMetadata,
    /// The launches.
    pub list: Vec<Launch>,
}

/// Why no launch is found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There are no launches.
    #[error("the recording has no kernel launch")]
    None,
    /// No launch was named, and there are several.
    #[error("the recording has {launches} launches of {functions}; name one by its event or its kernel")]
    Several {
        /// Number of launches.
        launches: usize,
        /// Names of the functions.
        functions: String,
    },
    /// The event is not a launch.
    #[error("event {event} is not a successful kernel launch{near}")]
    NotOne {
        /// The event.
        event: u64,
        /// Description of the launch that follows.
        near: String,
    },
    /// No function has the name.
    #[error("no launched kernel has the name '{name}' (launched kernels: {known})")]
    NoFunction {
        /// The name.
        name: String,
        /// Names of the available functions.
        known: String,
    },
    /// The name matches several functions.
    #[error("several launched kernels have '{name}' in their names: {known}")]
    Unclear {
        /// The name.
        name: String,
        /// Names of the matching functions.
        known: String,
    },
    /// The function has fewer launches.
    #[error("{name} was launched {count} times, so there is no launch {wanted} of it (they count from 0)")]
    TooFew {
        /// The function.
        name: String,
        /// Number of its launches.
        count: usize,
        /// Requested launch.
        wanted: usize,
    },
}

impl Launches {
    /// Returns the launches of a recording, or `None` if it is not a CUDA API trace.
    #[must_use]
    pub fn from_recording(recording: &Recording) -> Option<Self> {
        let metadata = recording.api().filter(|m| m.api == Api::Cuda)?.clone();
        let events = &recording.events;
        let mut list = Vec::new();
        for at in 0..events.len() {
            if events.kind(at) != Some(EventKind::Launch) {
                continue;
            }
            if let Some(CallEvent::Launch(row)) = events.call(at)
                && row.result == 0
                && row.flags & CALL_CAPTURED == 0
            {
                list.push(Launch { event: at as u64, row });
            }
        }
        Some(Self { metadata, list })
    }

    /// Returns the display name of a launch's function.
    #[must_use]
    pub fn function(&self, launch: &Launch) -> &str {
        let function = self.metadata.functions.get(launch.row.function as usize);
        function.map_or("", |f| f.display_name())
    }

    /// Returns the launch at an event.
    #[must_use]
    pub fn at(&self, event: u64) -> Option<&Launch> {
        let n = self.list.binary_search_by_key(&event, |l| l.event).ok()?;
        self.list.get(n)
    }

    /// Finds a launch by its event, or by its kernel name and, after a colon, its index among the launches of the
    /// kernel, from 0. A unique part of the kernel name is sufficient. Without a name, finds the only launch.
    ///
    /// # Errors
    /// Returns an error if no launch or several launches match.
    pub fn find(&self, name: Option<&str>) -> Result<&Launch, FindError> {
        let first = self.list.first().ok_or(FindError::None)?;
        let Some(name) = name else {
            return match self.list.len() {
                1 => Ok(first),
                n => Err(FindError::Several {
                    launches: n,
                    functions: self.names(|_| true),
                }),
            };
        };
        if let Ok(event) = name.parse::<u64>() {
            return self.at(event).ok_or_else(|| {
                let next = self.list.iter().find(|l| l.event > event);
                FindError::NotOne {
                    event,
                    near: next.map_or_else(String::new, |l| format!("; the next one is event {}", l.event)),
                }
            });
        }
        let (name, wanted) = numbered(name);
        let function = self.named(name)?;
        let mut of = self.list.iter().filter(|l| l.row.function == function);
        of.clone().nth(wanted).ok_or_else(|| FindError::TooFew {
            name: of.next().map_or_else(String::new, |l| self.function(l).to_owned()),
            count: self.list.iter().filter(|l| l.row.function == function).count(),
            wanted,
        })
    }

    /// Returns the ids of all launched functions, each once.
    fn launched(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.list.iter().map(|l| l.row.function).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn named(&self, name: &str) -> Result<u32, FindError> {
        let of = |n: &u32| self.metadata.functions.get(*n as usize);
        let exactly = |n: &u32| {
            of(n).is_some_and(|f| {
                let base = f.display_name().split(['(', '<']).next().unwrap_or_default();
                f.name == name
                    || f.display_name() == name
                    || base == name
                    || base.rsplit([' ', ':']).next() == Some(name)
            })
        };
        let partly = |n: &u32| of(n).is_some_and(|f| f.name.contains(name) || f.display_name().contains(name));
        let launched = self.launched();
        for matches in [&exactly as &dyn Fn(&u32) -> bool, &partly] {
            let found: Vec<u32> = launched.iter().copied().filter(|n| matches(n)).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(*one),
                _ => {
                    return Err(FindError::Unclear {
                        name: name.to_owned(),
                        known: self.names(|n| found.contains(&n)),
                    });
                }
            }
        }
        Err(FindError::NoFunction {
            name: name.to_owned(),
            known: self.names(|_| true),
        })
    }

    /// Returns the names of the first few launched functions.
    fn names(&self, is_match: impl Fn(u32) -> bool) -> String {
        const MAX_LISTED_NAMES: usize = 8;
        let all: Vec<u32> = self.launched().into_iter().filter(|n| is_match(*n)).collect();
        let name = |n: &u32| {
            self.metadata
                .functions
                .get(*n as usize)
                .map_or("?", |f| f.display_name())
        };
        let mut text = all
            .iter()
            .take(MAX_LISTED_NAMES)
            .map(name)
            .collect::<Vec<_>>()
            .join(", ");
        if all.len() > MAX_LISTED_NAMES {
            text.push_str(&format!(" and {} more", all.len() - MAX_LISTED_NAMES));
        }
        text
    }

    /// Returns the default axes of a launch.
    #[must_use]
    pub fn default_axes(&self, launch: &Launch) -> Axes {
        let function = self.metadata.functions.get(launch.row.function as usize);
        RecordedLaunch::from(&launch.row).default_axes(function.map_or(0, |f| f.most_threads))
    }
}

/// Splits a name at the last colon into name and number; `ns::kernel` has no number.
fn numbered(name: &str) -> (&str, usize) {
    let split = name.rsplit_once(':').filter(|(before, _)| !before.ends_with(':'));
    match split.and_then(|(before, n)| Some((before, n.parse().ok()?))) {
        Some((before, n)) => (before, n),
        None => (name, 0),
    }
}

/// Returns first byte and size of the memory that contains an address at an event: an allocation of the program, memory
/// from before the recorded range, or a module variable.
#[must_use]
pub fn allocation(buffers: &Buffers, event: u64, address: GpuVa) -> Option<(GpuVa, u64)> {
    let place = buffers.locate(address, event)?;
    let buffer = buffers.get(place.buffer)?;
    Some((buffer.at, buffer.bytes))
}

/// Returns the value of a launch parameter, if it is an 8-byte pointer.
#[must_use]
pub fn pointer(recording: &Recording, metadata: &ApiTraceMetadata, launch: &Launch, parameter: usize) -> Option<GpuVa> {
    let bytes = recording
        .events
        .call_arguments(launch.row.arguments_at, launch.row.arguments)?;
    let [at, length] = *metadata
        .functions
        .get(launch.row.function as usize)?
        .parameters
        .get(parameter)?;
    let at = at as usize;
    let word = bytes.get(at..at.checked_add(8)?).filter(|_| length == 8)?;
    Some(GpuVa::new(u64::from_le_bytes(word.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{
        AllocationKind, AllocationRow, CallFunction, CallGlobal, CallModule, CopyKind, CopyRow, EventsBuilder,
        NO_CONTENT, OrderRow, TraceKind,
    };

    fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        let allocation = AllocationRow {
            at: GpuVa::new(0x1000),
            bytes: 256,
            kind: AllocationKind::Take as u32,
            ..Default::default()
        };
        b.allocation(0, 0, allocation);
        let arguments_at = b.call_bytes(&0x1010u64.to_le_bytes());
        let row = |function| LaunchRow {
            function,
            arguments_at,
            arguments: 8,
            grid: [4, 1, 1],
            block: [256, 1, 1],
            ..Default::default()
        };
        b.launch(1, 0, row(0));
        b.launch(2, 0, row(1));
        b.launch(3, 0, LaunchRow { result: 700, ..row(1) });
        b.launch(
            4,
            0,
            LaunchRow {
                flags: CALL_CAPTURED,
                ..row(1)
            },
        );
        b.launch(5, 0, row(1));
        let function = |name: &str, demangled: &str| CallFunction {
            name: name.into(),
            demangled: demangled.into(),
            parameters: vec![[0, 8]],
            most_threads: 512,
            ..Default::default()
        };
        let metadata = ApiTraceMetadata {
            api: Api::Cuda,
            functions: vec![
                function("_Z3addPf", "add(float*)"),
                function("_ZN2ns5scaleIfEEvPT_", "void ns::scale<float>(float*)"),
            ],
            ..Default::default()
        };
        let mut r = Recording {
            events: b.finish(),
            ..Default::default()
        };
        r.metadata.kind = TraceKind::Api(metadata);
        r
    }

    #[test]
    fn launches_are_named_by_event_or_kernel() {
        let r = recording();
        let l = Launches::from_recording(&r).unwrap();
        assert_eq!(l.list.iter().map(|l| l.event).collect::<Vec<_>>(), [1, 2, 5]);
        let event = |name: &str| l.find(Some(name)).map(|l| l.event);
        assert_eq!(event("2"), Ok(2));
        for name in ["add", "_Z3addPf", "add(float*)", "ad", "add:0"] {
            assert_eq!(event(name), Ok(1), "{name}");
        }
        for name in ["scale:1", "ns::scale:1", "void ns::scale<float>(float*):1"] {
            assert_eq!(event(name), Ok(5), "{name}");
        }
        assert_eq!(event("ns::scale"), Ok(2));
        let e = event("3").unwrap_err();
        assert_eq!(
            e.to_string(),
            "event 3 is not a successful kernel launch; the next one is event 5"
        );
        assert!(matches!(event("float"), Err(FindError::Unclear { .. })));
        assert!(matches!(event("other"), Err(FindError::NoFunction { .. })));
        let e = event("scale:2").unwrap_err().to_string();
        assert!(e.contains("was launched 2 times"), "{e}");
        assert!(matches!(l.find(None), Err(FindError::Several { launches: 3, .. })));
        assert_eq!(Launches::default().find(None), Err(FindError::None));
        assert_eq!(Launches::from_recording(&Recording::default()), None);
    }

    #[test]
    fn parameter_pointer_selects_its_allocation() {
        let r = recording();
        let l = Launches::from_recording(&r).unwrap();
        let launch = l.find(Some("add")).unwrap();
        assert_eq!(pointer(&r, &l.metadata, launch, 0), Some(GpuVa::new(0x1010)));
        assert_eq!(pointer(&r, &l.metadata, launch, 1), None);
        let buffers = Buffers::from_recording(&r, &l.metadata);
        assert_eq!(
            allocation(&buffers, launch.event, GpuVa::new(0x1010)),
            Some((GpuVa::new(0x1000), 256))
        );
        assert_eq!(allocation(&buffers, launch.event, GpuVa::new(0x1100)), None);
        assert_eq!(l.default_axes(launch).block[0], [32, 64, 128, 256, 512]);
    }

    #[test]
    fn earlier_memory_and_module_variables_are_buffers() {
        let mut r = recording();
        let mut b = EventsBuilder::new();
        let piece = CopyRow {
            from: 0x5000,
            bytes: 4096,
            rows: 1,
            kind: CopyKind::DeviceToHost as u32,
            stream: OrderRow::NONE,
            pages_at: NO_CONTENT,
            ..Default::default()
        };
        b.copy(0, 0, piece);
        r.events = b.finish();
        let mut metadata = r.api().unwrap().clone();
        metadata.modules.push(CallModule {
            globals: vec![CallGlobal {
                name: "table".into(),
                at: GpuVa::new(0x9000),
                bytes: 64,
            }],
            ..Default::default()
        });
        let buffers = Buffers::from_recording(&r, &metadata);
        assert_eq!(
            allocation(&buffers, 1, GpuVa::new(0x5800)),
            Some((GpuVa::new(0x5000), 4096))
        );
        assert_eq!(
            allocation(&buffers, 1, GpuVa::new(0x9004)),
            Some((GpuVa::new(0x9000), 64))
        );
        assert_eq!(allocation(&buffers, 1, GpuVa::new(0x9040)), None);
    }
}
