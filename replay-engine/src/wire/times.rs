//! The time limits of a connection.

use std::time::Duration;

/// Maximum silence before the other end counts as gone. Agents send a heartbeat every [`HEARTBEAT`].
pub const SILENCE: Duration = Duration::from_secs(20);
/// Maximum time of one write.
pub const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// Interval at which an agent checks that the client is alive.
pub const HEARTBEAT: Duration = Duration::from_secs(4);
/// Maximum time for preamble and handshake together, on both ends.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
