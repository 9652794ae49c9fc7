//! The table of devices that this agent can own, by the names that `--device` takes.

use anyhow::{Result, bail};
use replay_engine::device::BoardError;
use replay_engine::serve::Factory;
use std::sync::Arc;

/// Software boards, `software:MODEL`.
pub const SOFTWARE: &[&str] = &["mali-g71"];

/// The factory of a device.
///
/// # Errors
/// When this agent has no device of that name.
pub fn factory(name: &str) -> Result<Factory> {
    let Some(model) = name.strip_prefix("software:").filter(|m| SOFTWARE.contains(m)) else {
        let known: Vec<String> = SOFTWARE.iter().map(|m| format!("software:{m}")).collect();
        bail!("this agent has no device `{name}`; it can own: {}", known.join(", "));
    };
    let model = model.to_owned();
    Ok(Arc::new(move || {
        device_mali::factory(&model).ok_or_else(|| BoardError::Failed(format!("the model `{model}` is not built in")))
    }))
}
