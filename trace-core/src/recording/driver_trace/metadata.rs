//! Metadata that only driver traces have.

use serde::{Deserialize, Serialize};

/// Metadata of a driver trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriverTraceMetadata {
    /// Version of the kernel driver, as it states it: `580.159.04`. Empty if the source does not state it.
    pub driver_version: String,
    /// Names of functions and requests: [`super::ObjectRow::caller`] and [`crate::recording::CallRow::name`] are indices
    /// into it.
    pub names: Vec<String>,
    /// Whether the source holds the arguments of requests. Without them the recording has no handles and classes.
    pub has_arguments: bool,
    /// Start of the event times on the machine's monotonic clock, nanoseconds, if the source states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_start: Option<u64>,
    /// Process id on the recorded machine, if the source states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

impl DriverTraceMetadata {
    /// Returns the name with an index, or `None` for [`super::ObjectRow::NO_NAME`] and indices past the end.
    #[must_use]
    pub fn name(&self, index: u32) -> Option<&str> {
        self.names.get(index as usize).map(String::as_str)
    }

    /// Returns the index of a name, which is added if it is new.
    pub fn add_name(&mut self, name: &str) -> u32 {
        let found = self.names.iter().position(|n| n == name);
        let index = found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        u32::try_from(index).unwrap_or(super::ObjectRow::NO_NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ObjectRow;

    #[test]
    fn names_are_stored_once() {
        let mut metadata = DriverTraceMetadata::default();
        let indices = ["gopen", "gmalloc", "gopen"].map(|n| metadata.add_name(n));
        assert_eq!((indices, metadata.name(1)), ([0, 1, 0], Some("gmalloc")));
        assert_eq!(metadata.name(ObjectRow::NO_NAME), None);
    }
}
