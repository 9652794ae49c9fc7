//! Labels of a target: from the description of its device, and from the user.

use kinescope_campaign::Labels;
use replay_engine::device::{DeviceInfo, DeviceInterface};
use trace_core::PAGE_SIZE;

/// Maximum length of a label's value, characters.
const MAX_VALUE: usize = 64;

/// Returns a name as the value of a label: lower-case letters, digits and `-`.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let words: Vec<String> = words.filter(|w| !w.is_empty()).map(str::to_ascii_lowercase).collect();
    words.join("-").chars().take(MAX_VALUE).collect()
}

/// Returns what the target takes. The agent does not know the name of the device's driver.
fn interface(device: &DeviceInfo) -> &'static str {
    match device.interface {
        DeviceInterface::Registers => "registers",
        DeviceInterface::Api => "calls",
        DeviceInterface::Channel => "submissions",
    }
}

/// Returns the labels of a target: `gpu`, `device`, `interface`, `memory` (MiB for plans) and `kind` from its device, then
/// those of the user, which replace them.
#[must_use]
pub fn labels_of(device: &DeviceInfo, user: &Labels) -> Labels {
    let memory = device.arena.pages.saturating_mul(PAGE_SIZE as u64) >> 20;
    let kind = if device.virtual_time { "simulator" } else { "hardware" };
    let mut labels: Labels = [
        ("gpu", slug(&device.gpu_name)),
        ("device", slug(&device.name)),
        ("interface", interface(device).to_owned()),
        ("memory", memory.to_string()),
        ("kind", kind.to_owned()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    labels.extend(user.clone());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinescope_campaign::TargetSelector;
    use kinescope_session::targets::Targets;

    #[test]
    fn labels_describe_the_device() {
        let device = Targets::new(None).open("software:mali-g71").unwrap().info().clone();
        let user = Labels::from([("rack".to_owned(), "3".to_owned())]);
        let labels = labels_of(&device, &user);
        let selector =
            TargetSelector::parse("label:gpu=mali-g71,kind=simulator,rack=3,interface=registers,memory>=16").unwrap();
        assert!(selector.matches(&labels), "{labels:?}");
        assert_eq!(slug("NVIDIA H200 (SXM)"), "nvidia-h200-sxm");
    }
}
