//! Lists that rows point into: streams, events, functions, modules and call names, by the driver's handles.

use std::collections::HashMap;
use trace_core::finding::Finding;
use trace_core::recording::{ApiTraceMetadata, CallFunction, CallStream, Identity};

/// The part of the tables that is written to the file, at one version.
#[derive(Debug)]
pub(crate) struct TablesSnapshot {
    pub metadata: ApiTraceMetadata,
    pub identity: Identity,
    pub findings: Vec<Finding>,
    pub version: u64,
}

/// Known streams, code and calls of the program so far.
#[derive(Debug, Default)]
pub struct Tables {
    /// Metadata for the file.
    pub metadata: ApiTraceMetadata,
    /// Identity of the recorded program and device.
    pub identity: Identity,
    /// Findings about what the recorder could not store, each once.
    pub findings: Vec<Finding>,
    streams: HashMap<usize, u32>,
    events: HashMap<usize, u32>,
    made_events: u32,
    functions: HashMap<usize, u32>,
    names: HashMap<&'static str, u32>,
    version: u64,
}

impl Tables {
    /// Returns the version, which increases with each change: content written at the same version is current.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Marks the metadata, the identity or the findings as changed.
    pub fn mark_changed(&mut self) {
        self.version += 1;
    }

    pub(crate) fn snapshot(&self) -> TablesSnapshot {
        TablesSnapshot {
            metadata: self.metadata.clone(),
            identity: self.identity.clone(),
            findings: self.findings.clone(),
            version: self.version,
        }
    }

    /// Returns the number of the stream with this handle. An unknown stream gets a number now.
    pub fn stream(&mut self, handle: usize, name: impl FnOnce(u32) -> String) -> u32 {
        if let Some(n) = self.streams.get(&handle) {
            return *n;
        }
        self.new_stream(handle, 0, 0, name)
    }

    /// Adds a new stream. From now on a reused handle is this stream's.
    pub fn new_stream(&mut self, handle: usize, flags: u32, priority: i32, name: impl FnOnce(u32) -> String) -> u32 {
        let n = u32::try_from(self.metadata.streams.len()).unwrap_or(u32::MAX);
        self.metadata.streams.push(CallStream {
            name: name(n),
            flags,
            priority,
        });
        self.streams.insert(handle, n);
        self.mark_changed();
        n
    }

    /// Adds a new event.
    pub fn new_event(&mut self, handle: usize) -> u32 {
        let n = self.made_events;
        self.made_events = n.saturating_add(1);
        self.events.insert(handle, n);
        n
    }

    /// Returns the number of the event with this handle.
    pub fn event(&mut self, handle: usize) -> u32 {
        match self.events.get(&handle) {
            Some(n) => *n,
            None => self.new_event(handle),
        }
    }

    /// Returns the number of the function with this handle, or `None` if it is unknown.
    #[must_use]
    pub fn function(&self, handle: usize) -> Option<u32> {
        self.functions.get(&handle).copied()
    }

    /// Adds a function. One of the same name and module keeps its number.
    pub fn new_function(&mut self, handle: usize, function: CallFunction) -> u32 {
        let same = |f: &CallFunction| f.name == function.name && f.module == function.module;
        let n = match self.metadata.functions.iter().position(same) {
            Some(n) => n,
            None => {
                self.metadata.functions.push(function);
                self.mark_changed();
                self.metadata.functions.len() - 1
            }
        };
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        self.functions.insert(handle, n);
        n
    }

    /// Returns the number of a call's name.
    pub fn name(&mut self, name: &'static str) -> u32 {
        if let Some(n) = self.names.get(name) {
            return *n;
        }
        let n = u32::try_from(self.metadata.names.len()).unwrap_or(u32::MAX);
        self.metadata.names.push(name.to_owned());
        self.names.insert(name, n);
        self.mark_changed();
        n
    }

    /// Adds a finding, unless one of the same kind, location and message exists.
    pub fn add_finding(&mut self, finding: Finding) {
        let same = |f: &Finding| f.kind == finding.kind && f.place == finding.place && f.message == finding.message;
        if !self.findings.iter().any(same) {
            self.findings.push(finding);
            self.mark_changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_stream_handle_is_a_new_stream() {
        let mut t = Tables::default();
        let name = |n| format!("stream {n}");
        assert_eq!(t.stream(0, |_| "default stream".into()), 0);
        assert_eq!(t.new_stream(0x100, 1, -1, name), 1);
        assert_eq!(t.stream(0x100, name), 1);
        assert_eq!(t.new_stream(0x100, 0, 0, name), 2);
        assert_eq!(t.stream(0x100, name), 2);
        assert_eq!(t.metadata.streams[2].name, "stream 2");
        assert_eq!((t.event(5), t.new_event(6), t.event(5), t.new_event(5)), (0, 1, 0, 2));
        let f = |name: &str, module| CallFunction {
            name: name.into(),
            module,
            ..Default::default()
        };
        assert_eq!(t.new_function(1, f("a", Some(0))), 0);
        assert_eq!(t.new_function(2, f("a", Some(1))), 1);
        assert_eq!(t.new_function(3, f("a", Some(0))), 0);
        assert_eq!(t.function(3), Some(0));
        assert_eq!(t.function(2), Some(1));
        let v = t.version();
        assert_eq!((t.name("cuInit"), t.name("cuCtxCreate"), t.name("cuInit")), (0, 1, 0));
        assert!(t.version() > v);
    }
}
