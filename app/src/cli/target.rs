//! Target names: their forms, the built-in targets, and suggestions for a mistyped name.

use crate::document::boards::list_simulators;
use trace_core::filter::distance;

/// The forms of target names, for messages.
pub const FORMS: &str = "software:MODEL, qemu:DEVICE[,PROPERTY=VALUE...], cuda:N, agent:NAME/DEVICE, \
                         agent://HOST:PORT/DEVICE, agent:///PATH.sock/DEVICE";

/// Returns the built-in targets, and the form of CUDA devices, as a list for users.
#[must_use]
pub fn list_targets() -> String {
    let all = list_simulators().map(|(name, _)| name).chain(["cuda:N".to_owned()]);
    all.collect::<Vec<_>>().join(", ")
}

/// Suggests a target for a name that has no known form, or no known model.
#[must_use]
pub fn suggest_target(name: &str) -> Option<String> {
    let typed = name.to_ascii_lowercase();
    let model = typed.strip_prefix("software:").unwrap_or(&typed);
    if let Some(number) = model
        .strip_prefix("cuda")
        .map(|n| n.trim_start_matches([':', '-', ' ']))
        && (number.is_empty() || number.parse::<u32>().is_ok())
    {
        return Some(format!("cuda:{}", if number.is_empty() { "0" } else { number }));
    }
    let far = |target: &String| distance(model, target.strip_prefix("software:").unwrap_or(target));
    let nearest = list_simulators().map(|(target, _)| target).min_by_key(far)?;
    (far(&nearest) <= 2).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_typed_wrong_is_named() {
        for (typed, meant) in [
            ("mali-g71", Some("software:mali-g71")),
            ("Mali-G71", Some("software:mali-g71")),
            ("software:mali-g17", Some("software:mali-g71")),
            ("cuda", Some("cuda:0")),
            ("cuda-1", Some("cuda:1")),
            ("lab", None),
            ("", None),
        ] {
            assert_eq!(suggest_target(typed).as_deref(), meant, "{typed}");
        }
        assert!(list_targets().starts_with("software:") && list_targets().ends_with("cuda:N"));
    }
}
