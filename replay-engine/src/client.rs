//! The client side: connects to an agent, leases a device, pushes plans and fetches outcomes.

mod connection;
mod error;
pub mod fitting;
mod lease;
mod live;
mod pair;
mod session;
pub mod targets;
mod wasm;

pub use error::{ClientError, Stage};
pub use lease::{Lease, Phase, PushStats, ReplayEnd};
pub use live::{LiveConnection, LiveLane, LiveOffer, LiveOutcome};
pub use pair::{PairedAgent, pair, pair_with_key};
pub use session::{Client, Endpoint};
pub use wasm::WasmInputRef;
