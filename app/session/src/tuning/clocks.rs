//! Device clocks, temperature and power during a tuning, as text.

use replay_engine::tune::{Health, Load};

/// Formats clocks, temperature and power at one time. Returns `None` if none of them is known.
#[must_use]
pub fn format_clocks(h: &Health) -> Option<String> {
    if h.unknown.is_some() {
        return None;
    }
    let of = |value: Option<u32>| value.map(|v| v.to_string());
    Some(words(
        [of(h.clock_mhz), of(h.memory_mhz), of(h.celsius), of(h.watts)],
        &h.held_back,
    ))
}

/// Formats their minimum and maximum directly after launches. Returns `None` if none was measured.
#[must_use]
pub fn format_load_clocks(l: &Load) -> Option<String> {
    let of = |range: Option<[u32; 2]>| {
        range.map(|[min, max]| match min == max {
            true => min.to_string(),
            false => format!("{min} to {max}"),
        })
    };
    let seen = [of(l.clock_mhz), of(l.memory_mhz), of(l.celsius), of(l.watts)];
    (l.samples > 0).then(|| words(seen, &l.held_back))
}

fn words(seen: [Option<String>; 4], held_back: &[String]) -> String {
    let units = ["MHz", "MHz memory", "°C", "W"];
    let seen = seen.into_iter().zip(units);
    let mut parts: Vec<String> = seen.filter_map(|(v, unit)| Some(format!("{} {unit}", v?))).collect();
    if !held_back.is_empty() {
        parts.push(format!("held back by {}", held_back.join(", ")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_under_load_are_shown_as_min_to_max() {
        let mut load = Load::default();
        assert_eq!(format_load_clocks(&load), None);
        for (clock, celsius) in [(1755, 41), (1980, 41), (1800, 41)] {
            load.add(&Health {
                clock_mhz: Some(clock),
                celsius: Some(celsius),
                held_back: vec!["power".into()],
                ..Health::default()
            });
        }
        load.add(&Health {
            unknown: Some("lost".into()),
            ..Health::default()
        });
        assert_eq!(load.samples, 3);
        assert_eq!(
            format_load_clocks(&load).as_deref(),
            Some("1755 to 1980 MHz, 41 °C, held back by power")
        );
    }
}
