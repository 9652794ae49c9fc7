//! Lists of the targets that a user can choose: those of this process, and those of paired agents.

use super::Factories;
use crate::client::error::ClientError;
use crate::client::session::{Client, Endpoint};
use crate::device::{DeviceInfo, qemu};
use crate::live::LiveLimits;
use crate::wire::message::DeviceState;
use crate::wire::{KeyStore, Peer};
use std::time::Duration;

/// Maximum time that [`list_paired`] waits for an agent.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// Whether and how a target can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The target is in this process.
    Here,
    /// The agent answers and no client holds the target.
    Free,
    /// The agent answers; the client of this name holds the target.
    Busy(String),
    /// The target cannot be used now, with the reason.
    Away(String),
}

/// A target that the user can choose.
#[derive(Clone, Debug)]
pub struct ReplayTarget {
    /// The name that [`open`] accepts, or `agent:NAME` for an agent that does not answer.
    pub name: String,
    /// A description for the user.
    pub description: String,
    /// The device's own description, if the device was reached.
    pub info: Option<DeviceInfo>,
    /// Whether and how it can be used.
    pub reach: Availability,
    /// Limits of each program that computes on it, if its agent runs programs of clients on it.
    pub live: Option<LiveLimits>,
}

impl Factories {
    /// Returns the GPUs of this machine whose channels take submissions.
    fn nvidia(&self) -> Vec<ReplayTarget> {
        let all = self.nvidia.iter().flat_map(|targets| targets.list());
        let target = |(number, info): (u32, DeviceInfo)| ReplayTarget {
            name: format!("nvidia:{number}"),
            description: info.description.clone(),
            info: Some(info),
            reach: Availability::Here,
            live: None,
        };
        all.map(target).collect()
    }

    /// Returns the CUDA devices that this machine's driver lists, or none if there is no driver.
    fn cuda(&self) -> Vec<ReplayTarget> {
        let Some(targets) = &self.cuda else {
            return Vec::new();
        };
        match targets.list() {
            Ok(all) => all
                .into_iter()
                .map(|(number, info)| ReplayTarget {
                    name: format!("cuda:{number}"),
                    description: info.description.clone(),
                    info: Some(info),
                    reach: Availability::Here,
                    live: None,
                })
                .collect(),
            Err(e) => vec![ReplayTarget {
                name: "cuda:0".to_owned(),
                description: "CUDA device 0 of this machine".to_owned(),
                info: None,
                reach: Availability::Away(e.to_string()),
                live: None,
            }],
        }
    }
}

/// Lists the simulators, and the CUDA devices and NVIDIA GPUs of this machine. They need no keys.
#[must_use]
pub fn list_local(factories: &Factories) -> Vec<ReplayTarget> {
    factories
        .made
        .iter()
        .map(|made| software(factories, &made.model))
        .chain(factories.cuda())
        .chain(factories.nvidia())
        .collect()
}

/// Lists the name forms that stand for more targets than can be listed, each with a description. Only forms that can be
/// used here are listed.
#[must_use]
pub fn list_name_forms() -> Vec<(&'static str, &'static str)> {
    let message = "a PCI device that QEMU emulates, such as qemu:ati-vga,model=rv100 or qemu:edu";
    qemu::check_installed().map_or_else(|_| Vec::new(), |()| vec![(qemu::FORM, message)])
}

/// Lists the targets of paired agents. Queries all agents at the same time and takes about two seconds.
///
/// # Errors
/// If the key store cannot be read.
pub fn list_paired(keys: &KeyStore) -> Result<Vec<ReplayTarget>, ClientError> {
    let peers: Vec<Peer> = keys.peers()?.into_iter().filter(|p| !p.address.is_empty()).collect();
    let found: Vec<Vec<ReplayTarget>> = std::thread::scope(|scope| {
        let asked: Vec<_> = peers.iter().map(|p| scope.spawn(move || of_agent(p, keys))).collect();
        asked.into_iter().map(|a| a.join().unwrap_or_default()).collect()
    });
    Ok(found.into_iter().flatten().collect())
}

fn software(factories: &Factories, model: &str) -> ReplayTarget {
    let name = format!("software:{model}");
    match factories.server(model) {
        Ok(server) => {
            let info = server.devices().into_iter().next();
            let description = info.as_ref().map(|i| i.description.clone()).unwrap_or_default();
            ReplayTarget {
                name,
                description,
                info,
                reach: Availability::Here,
                live: None,
            }
        }
        Err(e) => ReplayTarget {
            name,
            description: String::new(),
            info: None,
            reach: Availability::Away(e.to_string()),
            live: None,
        },
    }
}

fn of_agent(peer: &Peer, keys: &KeyStore) -> Vec<ReplayTarget> {
    match Client::connect_within(&Endpoint::parse(&peer.address), keys, Some(&peer.name), ASK_LIMIT) {
        Ok(client) => {
            // An agent that does not answer has no offer; its devices are known.
            let offer = client.describe_live(ASK_LIMIT).ok().flatten();
            let live = |device: &str| {
                let offer = offer.as_ref()?;
                offer.devices.iter().any(|name| name == device).then_some(offer.limits)
            };
            let target = |d: &DeviceState| ReplayTarget {
                name: format!("agent:{}/{}", peer.name, d.info.name),
                description: d.info.description.clone(),
                // A device that its agent could not open has no description.
                info: (d.out_of_order.is_none() || !d.info.windows.is_empty()).then(|| d.info.clone()),
                reach: match (&d.out_of_order, &d.holder) {
                    (Some(why), _) => Availability::Away(why.clone()),
                    (None, Some(who)) => Availability::Busy(who.clone()),
                    (None, None) => Availability::Free,
                },
                live: live(&d.info.name),
            };
            client.states().iter().map(target).collect()
        }
        Err(e) => vec![ReplayTarget {
            name: format!("agent:{}", peer.name),
            description: format!("agent at {}", peer.address),
            info: None,
            reach: Availability::Away(e.to_string()),
            live: None,
        }],
    }
}
