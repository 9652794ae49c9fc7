//! Targets by name: simulators and QEMU devices in this process, devices of paired agents, and agents by address.

mod factories;
mod listing;

pub use factories::{Factories, LocalApiTargets, LocalChannelTargets};
pub use listing::{Availability, ReplayTarget, list_local, list_name_forms, list_paired};

use super::error::ClientError;
use super::lease::Lease;
use super::session::{Client, Endpoint};
use crate::device::DeviceInfo;
use crate::device::qemu;
use crate::lease_options::LeaseOptions;
use crate::wire::KeyStore;
use std::path::PathBuf;
use trace_core::progress::Progress;

/// A parsed target name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetName {
    /// `software:MODEL`.
    Software(String),
    /// `qemu:DEVICE[,PROPERTY=VALUE…]`.
    Qemu(qemu::Name),
    /// `cuda:N`.
    Cuda(u32),
    /// `nvidia:N`.
    Nvidia(u32),
    /// `agent:NAME/DEVICE`.
    Paired {
        /// Name of the agent in the key store.
        agent: String,
        /// Name of the device.
        device: String,
    },
    /// `agent://HOST:PORT/DEVICE`.
    Tcp {
        /// Host and port.
        address: String,
        /// Name of the device.
        device: String,
    },
    /// `agent:///PATH.sock/DEVICE`.
    Unix {
        /// Path of the socket.
        path: PathBuf,
        /// Name of the device.
        device: String,
    },
}

/// Parses a target name.
///
/// # Errors
/// If the name has no known form.
pub fn parse(name: &str) -> Result<TargetName, ClientError> {
    let bad = |reason: &str| ClientError::InvalidTargetName {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(model) = name.strip_prefix("software:") {
        return if model.is_empty() {
            Err(bad("the model is missing"))
        } else {
            Ok(TargetName::Software(model.to_owned()))
        };
    }
    if let Some(device) = name.strip_prefix("qemu:") {
        return match qemu::Name::parse(device) {
            Ok(name) => Ok(TargetName::Qemu(name)),
            Err(qemu::QemuError::Name { reason, .. }) => Err(bad(&reason)),
            Err(e) => Err(e.into()),
        };
    }
    if let Some(number) = name.strip_prefix("cuda:") {
        let number = number
            .parse()
            .map_err(|_| bad("the device's number is missing: `cuda:0`"))?;
        return Ok(TargetName::Cuda(number));
    }
    if let Some(number) = name.strip_prefix("nvidia:") {
        let number = number
            .parse()
            .map_err(|_| bad("the GPU's number is missing: `nvidia:0`"))?;
        return Ok(TargetName::Nvidia(number));
    }
    let rest = name
        .strip_prefix("agent:")
        .ok_or_else(|| bad("it must begin with `software:`, `qemu:`, `cuda:`, `nvidia:` or `agent:`"))?;
    let (place, device) = rest.rsplit_once('/').ok_or_else(|| bad("the device is missing"))?;
    let device = device.to_owned();
    if device.is_empty() {
        return Err(bad("the device is missing"));
    }
    match place.strip_prefix("//") {
        Some(path) if path.starts_with('/') => Ok(TargetName::Unix {
            path: PathBuf::from(path),
            device,
        }),
        Some("") | None if place.is_empty() || place == "//" || place == "/" => Err(bad("the agent is missing")),
        Some(address) => match Endpoint::parse(address) {
            Endpoint::Tcp(address) => Ok(TargetName::Tcp { address, device }),
            _ => Err(bad("the address contains a `/`")),
        },
        None if place.contains('/') => Err(bad("an agent's name cannot contain a `/`")),
        None => Ok(TargetName::Paired {
            agent: place.to_owned(),
            device,
        }),
    }
}

/// Opens a target: `software:MODEL`, `qemu:DEVICE[,PROPERTY=VALUE…]`, `agent:NAME/DEVICE`, `agent://HOST:PORT/DEVICE`,
/// `agent:///PATH.sock/DEVICE`.
///
/// # Errors
/// If the name has no known form, or the target cannot be reached or leased.
pub fn open(name: &str, factories: &Factories, keys: &KeyStore) -> Result<Lease, ClientError> {
    open_with(name, factories, keys, LeaseOptions::default(), &Progress::new())
}

/// Opens a target like [`open`], with options of the lease. They are for agents: no other client can hold a target of this
/// process.
///
/// # Errors
/// Like [`open`], and if the agent is too old for the options, or the wait for another client is cancelled.
pub fn open_with(
    name: &str,
    factories: &Factories,
    keys: &KeyStore,
    options: LeaseOptions,
    progress: &Progress,
) -> Result<Lease, ClientError> {
    let (client, device) = match parse(name)? {
        TargetName::Software(model) => return factories.open(&model),
        TargetName::Qemu(name) => return factories.open_qemu(&name),
        TargetName::Cuda(number) => return factories.open_cuda(number),
        TargetName::Nvidia(number) => return factories.open_nvidia(number),
        agent => connect_to(name, agent, keys)?,
    };
    Ok(factories.equip(client.lease_with(&device, options, progress)?))
}

/// Connects to the agent in a target name. Returns the connection and the name of the device, which is not leased.
///
/// # Errors
/// If the name has no known form or names no agent, or the agent cannot be reached.
pub fn connect(name: &str, keys: &KeyStore) -> Result<(Client, String), ClientError> {
    connect_to(name, parse(name)?, keys)
}

fn connect_to(name: &str, target: TargetName, keys: &KeyStore) -> Result<(Client, String), ClientError> {
    match target {
        TargetName::Paired { agent, device } => Ok((paired_with(&agent, keys)?, device)),
        TargetName::Tcp { address, device } => Ok((Client::connect(&Endpoint::Tcp(address), keys, None)?, device)),
        TargetName::Unix { path, device } => Ok((Client::connect(&Endpoint::Unix(path), keys, None)?, device)),
        TargetName::Software(_) | TargetName::Qemu(_) | TargetName::Cuda(_) | TargetName::Nvidia(_) => {
            Err(ClientError::InvalidTargetName {
                name: name.to_owned(),
                reason: "it names no agent".to_owned(),
            })
        }
    }
}

/// Returns the description of a target's device. An agent's device is not leased for this and may be held by another
/// client. A target in this process is leased briefly.
///
/// # Errors
/// If the name has no known form, its agent cannot be reached or has no such device, or the device cannot work.
pub fn query_device(name: &str, factories: &Factories, keys: &KeyStore) -> Result<DeviceInfo, ClientError> {
    match parse(name)? {
        TargetName::Software(model) => Ok(factories.open(&model)?.info().clone()),
        TargetName::Qemu(name) => Ok(factories.open_qemu(&name)?.info().clone()),
        TargetName::Cuda(number) => Ok(factories.open_cuda(number)?.info().clone()),
        TargetName::Nvidia(number) => Ok(factories.open_nvidia(number)?.info().clone()),
        TargetName::Paired { agent, device } => query_agent_device(&paired_with(&agent, keys)?, device),
        TargetName::Tcp { address, device } => {
            query_agent_device(&Client::connect(&Endpoint::Tcp(address), keys, None)?, device)
        }
        TargetName::Unix { path, device } => {
            query_agent_device(&Client::connect(&Endpoint::Unix(path), keys, None)?, device)
        }
    }
}

/// Connects to the agent that was paired under a name.
fn paired_with(agent: &str, keys: &KeyStore) -> Result<Client, ClientError> {
    let Some(peer) = keys.find_by_name(agent)?.filter(|p| !p.address.is_empty()) else {
        let known: Vec<String> = keys.peers()?.into_iter().map(|p| p.name).collect();
        return Err(ClientError::UnknownAgent {
            name: agent.to_owned(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        });
    };
    Client::connect(&Endpoint::parse(&peer.address), keys, Some(agent))
}

/// Returns what a connected agent reports about one of its devices.
fn query_agent_device(client: &Client, device: String) -> Result<DeviceInfo, ClientError> {
    let states = client.states();
    match states.iter().find(|s| s.info.name == device) {
        Some(s) => match &s.out_of_order {
            Some(reason) => Err(ClientError::OutOfOrder {
                device,
                reason: reason.clone(),
            }),
            None => Ok(s.info.clone()),
        },
        None => Err(ClientError::NoDevice {
            device,
            known: states
                .iter()
                .map(|s| s.info.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_names_of_every_form_are_parsed() {
        let device = || "d".to_owned();
        assert_eq!(
            parse("software:mali-g71").unwrap(),
            TargetName::Software("mali-g71".into())
        );
        assert_eq!(
            parse("agent:b/d").unwrap(),
            TargetName::Paired {
                agent: "b".into(),
                device: device()
            }
        );
        assert_eq!(
            parse("agent://h:1/d").unwrap(),
            TargetName::Tcp {
                address: "h:1".into(),
                device: device()
            }
        );
        assert_eq!(
            parse("agent://h/d").unwrap(),
            TargetName::Tcp {
                address: "h:7117".into(),
                device: device()
            }
        );
        assert_eq!(parse("cuda:3").unwrap(), TargetName::Cuda(3));
        assert_eq!(parse("nvidia:1").unwrap(), TargetName::Nvidia(1));
        let edu = qemu::Name::parse("edu,dma_mask=1").unwrap();
        assert_eq!(parse("qemu:edu,dma_mask=1").unwrap(), TargetName::Qemu(edu));
        let path = PathBuf::from("/run/a.sock");
        assert_eq!(
            parse("agent:///run/a.sock/d").unwrap(),
            TargetName::Unix { path, device: device() }
        );
        for bad in [
            "",
            "x",
            "software:",
            "qemu:",
            "qemu:edu,addr=4",
            "qemu:edu;id",
            "cuda:",
            "cuda:x",
            "nvidia:",
            "agent:",
            "agent:b",
            "agent:b/",
            "agent://",
            "agent:///",
            "agent:/d",
            "agent:a/b/d",
        ] {
            assert!(
                matches!(parse(bad), Err(ClientError::InvalidTargetName { .. })),
                "{bad}: {:?}",
                parse(bad)
            );
        }
        assert!(
            matches!(parse("agent:///d"), Err(ClientError::InvalidTargetName { .. })),
            "{:?}",
            parse("agent:///d")
        );
    }
}
