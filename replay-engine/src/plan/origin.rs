//! What a plan says of the recording that it was made of and that no device needs: roles and shapes of buffers, and the
//! ranges that the driver allocated. The recording of an outcome has them from here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::Recording;
use trace_core::recording::{BufferRole, RecordedRange, Region};

/// What the outcome's recording takes over from the recording that was played.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// What buffers are for, by name.
    #[serde(with = "role_names")]
    pub roles: BTreeMap<String, BufferRole>,
    /// Shapes of buffers, by name: the length of each dimension, the slowest first.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Ranges that the driver allocated.
    pub regions: Vec<Region>,
    /// Where the recording has memory that a device reaches by bus addresses. `at` counts from the start of the arena.
    pub ranges: Vec<RecordedRange>,
}

impl Origin {
    /// What a recording says of its buffers and regions.
    #[must_use]
    pub fn from_recording(recording: &Recording) -> Self {
        let buffers = recording.facts.buffers.iter();
        Self {
            roles: buffers.map(|b| (b.name.clone(), b.role)).collect(),
            shapes: recording.buffer_shapes(),
            regions: recording.facts.regions.clone(),
            ranges: Vec::new(),
        }
    }
}

/// Roles by the names that JSON and tables use.
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

/// The origin among fixed-width fields: its JSON text, which takes fields that come later.
pub(super) mod origin_json {
    use super::Origin;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de, ser};

    pub fn serialize<S: Serializer>(origin: &Option<Origin>, to: S) -> Result<S::Ok, S::Error> {
        let json = origin.as_ref().map(serde_json::to_string).transpose();
        json.map_err(ser::Error::custom)?.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Origin>, D::Error> {
        let json = Option::<String>::deserialize(from)?;
        let read = json.map(|text| serde_json::from_str(&text)).transpose();
        read.map_err(de::Error::custom)
    }
}
