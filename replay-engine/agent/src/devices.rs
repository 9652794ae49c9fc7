//! The table of devices that this agent can own, by the names that `--device` takes.

use anyhow::{Result, bail};
use device_mali::{Model, SoftwareMali};
use replay_engine::device::Board;
use replay_engine::device::qemu::{self, QemuBoard};
use replay_engine::serve::Factory;
use std::sync::Arc;

/// Names of the devices that it owns unless it is told which: software boards, `software:MODEL`.
pub fn names() -> impl Iterator<Item = String> {
    Model::ALL.into_iter().map(|m| format!("software:{}", m.data().name))
}

/// The factory of a device. One in QEMU is started now.
///
/// # Errors
/// When this agent has no device of that name, or QEMU does not make it.
pub fn factory(name: &str) -> Result<Factory> {
    if let Some(device) = name.strip_prefix("qemu:") {
        return Ok(QemuBoard::factory(&qemu::Name::parse(device)?)?);
    }
    let Some(model) = name.strip_prefix("software:").and_then(Model::from_name) else {
        let known: Vec<String> = names().collect();
        let known = known.join(", ");
        bail!("this agent has no device `{name}`; it can own: {known}, {}", qemu::FORM);
    };
    Ok(Arc::new(move || {
        Ok(Box::new(SoftwareMali::new(model)) as Box<dyn Board>)
    }))
}
