//! Data from the source recording that no device needs: roles and shapes of buffers, and the ranges that the driver
//! allocated. The recording of an outcome takes them from here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::Recording;
use trace_core::recording::{BufferRole, RecordedRange, Region};

/// Data that the outcome's recording takes over from the source recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// Roles of buffers, by name.
    #[serde(with = "role_names")]
    pub roles: BTreeMap<String, BufferRole>,
    /// Shapes of buffers, by name: the length of each dimension, slowest first.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Ranges that the driver allocated.
    pub regions: Vec<Region>,
    /// The recorded bus addresses of memory that the device accesses. `at` is the offset from the start of the arena.
    pub ranges: Vec<RecordedRange>,
}

impl Origin {
    /// Returns the origin data of a recording.
    #[must_use]
    pub fn from_recording(recording: &Recording) -> Self {
        let buffers = recording.metadata.buffers.iter();
        Self {
            roles: buffers.map(|b| (b.name.clone(), b.role)).collect(),
            shapes: recording.metadata.valid_shapes(),
            regions: recording.metadata.regions.clone(),
            ranges: Vec::new(),
        }
    }
}

/// Serializes roles by their names in JSON and tables.
mod role_names {
    use super::{BTreeMap, BufferRole};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de};

    pub fn serialize<S: Serializer>(roles: &BTreeMap<String, BufferRole>, to: S) -> Result<S::Ok, S::Error> {
        let names: BTreeMap<&str, &str> = roles.iter().map(|(name, role)| (name.as_str(), role.name())).collect();
        names.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<BTreeMap<String, BufferRole>, D::Error> {
        let names = BTreeMap::<String, String>::deserialize(from)?;
        let role = |(buffer, name): (String, String)| match BufferRole::from_name(&name) {
            Some(role) => Ok((buffer, role)),
            None => Err(de::Error::custom(format!("`{name}` is not the role of a buffer"))),
        };
        names.into_iter().map(role).collect()
    }
}
