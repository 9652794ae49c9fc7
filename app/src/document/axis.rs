//! Where an event lies on the timeline's axis, as the window calls it.

pub use trace_core::timeline::{Axis, AxisKind};
