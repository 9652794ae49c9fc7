//! The devices of an agent that a program computes on, as a user names them.

use replay_engine::client::targets::{self, TargetName};
use replay_engine::client::{Client, ClientError};
use replay_engine::wire::KeyStore;
use std::sync::Arc;

/// Devices of an agent: `agent:NAME/DEVICE[,DEVICE…]`, and the same with an address or a socket.
#[derive(Clone, Debug)]
pub struct AgentTarget {
    /// The name that [`targets::connect`] takes.
    name: String,
    devices: Vec<String>,
    is_local: bool,
    keys: Arc<KeyStore>,
}

impl AgentTarget {
    /// Parses the name of devices of an agent. Returns `None` for a target that is not on an agent.
    ///
    /// # Errors
    /// If the name has no known form.
    pub fn parse(name: &str, keys: &Arc<KeyStore>) -> Result<Option<Self>, ClientError> {
        let (devices, is_local) = match targets::parse(name)? {
            TargetName::Tcp { device, .. } => (device, false),
            TargetName::Paired { agent, device } => {
                let peer = keys.find_by_name(&agent)?;
                // The address of an agent on this machine can be the path of its socket.
                let is_local = peer.is_some_and(|peer| peer.address.contains('/'));
                (device, is_local)
            }
            TargetName::Unix { device, .. } => (device, true),
            _ => return Ok(None),
        };
        Ok(Some(Self {
            name: name.to_owned(),
            devices: devices.split(',').map(str::to_owned).collect(),
            is_local,
            keys: Arc::clone(keys),
        }))
    }

    /// Connects to the agent.
    ///
    /// # Errors
    /// If it cannot be reached, or is not paired.
    pub fn connect(&self) -> Result<Client, ClientError> {
        targets::connect(&self.name, &self.keys).map(|(client, _)| client)
    }

    /// Returns the names of the devices at the agent.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Returns whether the agent is on this machine, so that programs reach their workers by shared memory.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }
}
