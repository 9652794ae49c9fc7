//! The columns of the table of events, and sets of them.

use crate::error::TableError;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use trace_core::Recording;

/// A column of [`crate::Table::Events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventColumn {
    /// Index of the event.
    Event,
    /// Kind, such as `read`.
    Kind,
    /// Time, nanoseconds or ticks.
    Time,
    /// Thread.
    Thread,
    /// Name of the space.
    Space,
    /// Offset in the space, bytes.
    Offset,
    /// Name of the register.
    Register,
    /// Width of the access, bytes.
    Width,
    /// Value of the access.
    Value,
    /// Description of the event.
    Means,
}

impl EventColumn {
    /// All columns, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Event,
        Self::Kind,
        Self::Time,
        Self::Thread,
        Self::Space,
        Self::Offset,
        Self::Register,
        Self::Width,
        Self::Value,
        Self::Means,
    ];

    /// Returns its name in the table of a recording: times are `time_ns`, or `time_ticks` if the length of a tick is not
    /// known.
    #[must_use]
    pub fn name(self, recording: &Recording) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Kind => "kind",
            Self::Time if recording.counts_ticks() => "time_ticks",
            Self::Time => "time_ns",
            Self::Thread => "thread",
            Self::Space => "space",
            Self::Offset => "offset",
            Self::Register => "register",
            Self::Width => "width",
            Self::Value => "value",
            Self::Means => "means",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Event | Self::Time | Self::Value => DataType::UInt64,
            Self::Thread | Self::Offset | Self::Width => DataType::UInt32,
            Self::Kind | Self::Space | Self::Register | Self::Means => DataType::Utf8View,
        }
    }
}

/// Columns of the table of events, each at most once, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventColumns(Vec<EventColumn>);

impl Default for EventColumns {
    /// Returns all columns.
    fn default() -> Self {
        Self(EventColumn::ALL.to_vec())
    }
}

impl EventColumns {
    /// Returns the columns of these names, in the order of the names.
    ///
    /// # Errors
    /// [`TableError::UnknownColumn`] for a name that the table of the recording does not have,
    /// [`TableError::RepeatedColumn`] for a name that occurs twice, and [`TableError::NoColumn`] without a name.
    pub fn from_names<S: AsRef<str>>(names: &[S], recording: &Recording) -> Result<Self, TableError> {
        let mut columns: Vec<EventColumn> = Vec::new();
        for name in names {
            let name = name.as_ref();
            let found = EventColumn::ALL.into_iter().find(|c| c.name(recording) == name);
            let column = found.ok_or_else(|| TableError::UnknownColumn {
                name: name.to_owned(),
                columns: EventColumn::ALL.map(|c| c.name(recording)).join(", "),
            })?;
            if columns.contains(&column) {
                return Err(TableError::RepeatedColumn { name: name.to_owned() });
            }
            columns.push(column);
        }
        if columns.is_empty() {
            return Err(TableError::NoColumn {
                columns: EventColumn::ALL.map(|c| c.name(recording)).join(", "),
            });
        }
        Ok(Self(columns))
    }

    /// Returns the columns, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = EventColumn> + '_ {
        self.0.iter().copied()
    }

    /// Whether one of these columns is in the set.
    pub(crate) fn has_any(&self, columns: &[EventColumn]) -> bool {
        self.0.iter().any(|column| columns.contains(column))
    }

    /// Returns the schema of batches with these columns. Every column may have empty cells.
    pub(crate) fn schema(&self, recording: &Recording) -> SchemaRef {
        let fields = self.iter().map(|c| Field::new(c.name(recording), c.data_type(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}
