//! Parser of tolerances for outputs: `f32:1e-5`, `f16:2ulp`, `arg1=f32:1e-3,1e-2`.

use super::launches::{Launch, Launches, allocation, pointer};
use replay_engine::tune::{MemoryArea, OutputTolerance};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::api_trace::Buffers;
use trace_core::ranges;
use trace_core::recording::{ElementType, Recording};

/// The memory that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryScope {
    /// All memory without another rule.
    Everywhere,
    /// The allocation that a launch parameter points to, from 0.
    Parameter(usize),
    /// The allocation that contains an address.
    Address(GpuVa),
    /// A range of addresses.
    Range(GpuVa, GpuVa),
}

/// A rule with the memory that it applies to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScopedRule {
    /// The memory.
    pub scope: MemoryScope,
    /// The rule.
    pub rule: OutputTolerance,
}

/// Parses `[WHERE=]TYPE:DISTANCE[,RELATIVE]`, `[WHERE=]TYPE:Nulp` or `[WHERE=]exact`. A single distance is both the
/// absolute and the relative one. WHERE is `argN`, an address, or `0xFIRST..0xEND` (`0xFIRST..=0xLAST` includes the
/// last byte).
///
/// # Errors
/// A description of the error if the text has none of these forms.
pub fn parse_scoped_rule(text: &str) -> Result<ScopedRule, String> {
    // The location may contain `..=`, but rules never contain `=`.
    let (place, rule) = match text.rsplit_once('=') {
        Some((place, rule)) => (place_of(place)?, rule),
        None => (MemoryScope::Everywhere, text),
    };
    Ok(ScopedRule {
        scope: place,
        rule: parse_rule(rule)?,
    })
}

fn place_of(text: &str) -> Result<MemoryScope, String> {
    let bad = || {
        format!(
            "'{text}' names no memory (expected argN, 0xADDRESS, 0xFIRST..0xEND without the end or 0xFIRST..=0xLAST with it)"
        )
    };
    let address = |t: &str| {
        let digits = t.strip_prefix("0x").ok_or_else(bad)?;
        u64::from_str_radix(digits, 16).map_err(|_| bad())
    };
    if let Some(n) = text.strip_prefix("arg") {
        return n.parse().map(MemoryScope::Parameter).map_err(|_| bad());
    }
    match ranges::split(text) {
        Some(typed) => {
            let (first, end) = (address(typed.first)?, address(typed.end)?);
            let end = if typed.inclusive { end.saturating_add(1) } else { end };
            if first < end {
                Ok(MemoryScope::Range(GpuVa::new(first), GpuVa::new(end)))
            } else {
                Err(bad())
            }
        }
        None => address(text).map(|at| MemoryScope::Address(GpuVa::new(at))),
    }
}

/// Parses a rule for one output of a replay, or for all of them: `out0=f32:1e-5`, `f16:2ulp`, `exact`.
///
/// # Errors
/// A description of the error if the text is not a rule.
pub fn parse_output_rule(text: &str) -> Result<(Option<String>, OutputTolerance), String> {
    match text.split_once('=') {
        Some((name, rule)) if !name.trim().is_empty() => Ok((Some(name.trim().to_owned()), parse_rule(rule.trim())?)),
        Some(_) => Err(format!("'{text}' names no output (expected NAME=RULE)")),
        None => Ok((None, parse_rule(text)?)),
    }
}

/// Parses rules for outputs, separated by semicolons: those by name, and the one for all others.
///
/// # Errors
/// A description of the error if one is not a rule, or two are for the same output.
pub fn parse_output_rules(text: &str) -> Result<(BTreeMap<String, OutputTolerance>, Option<OutputTolerance>), String> {
    let (mut named, mut others) = (BTreeMap::new(), None);
    for part in text.split(';').map(str::trim).filter(|t| !t.is_empty()) {
        let (name, rule) = parse_output_rule(part)?;
        let before = match &name {
            Some(name) => named.insert(name.clone(), rule),
            None => others.replace(rule),
        };
        if before.is_some() {
            return Err(format!(
                "two rules are for {}",
                name.as_deref().unwrap_or("all outputs")
            ));
        }
    }
    Ok((named, others))
}

/// Parses a rule without a location: `exact`, `TYPE:DISTANCE[,RELATIVE]`, `TYPE:Nulp`.
///
/// # Errors
/// A description of the error if the text is not a rule.
pub fn parse_rule(text: &str) -> Result<OutputTolerance, String> {
    if text == "exact" {
        return Ok(OutputTolerance::Exact);
    }
    let bad = || {
        format!(
            "'{text}' is not a rule (expected exact, or a type and a distance: f32:1e-5, f32:1e-6,1e-4 or f16:2ulp)"
        )
    };
    let (name, distance) = text.split_once(':').ok_or_else(bad)?;
    let element = ElementType::ALL
        .into_iter()
        .find(|e| e.name() == name)
        .ok_or_else(bad)?;
    if let Some(n) = distance.strip_suffix("ulp") {
        let max = n.parse().map_err(|_| bad())?;
        return if element.is_float() {
            Ok(OutputTolerance::Steps { element, most: max })
        } else {
            Err(bad())
        };
    }
    let number = |t: &str| {
        let value = t.trim().parse::<f64>().ok();
        value.filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(bad)
    };
    let (absolute, relative) = match distance.split_once(',') {
        Some((a, r)) => (number(a)?, number(r)?),
        None => (number(distance)?, number(distance)?),
    };
    Ok(OutputTolerance::Near {
        element,
        absolute,
        relative,
    })
}

/// Builds the rules of a launch: the tolerance for all memory, and areas with their own rules.
///
/// # Errors
/// A description of the error if a rule is for memory that does not exist, or two are for the same memory.
pub fn build_rules(
    recording: &Recording,
    launches: &Launches,
    launch: &Launch,
    all: &[ScopedRule],
) -> Result<(OutputTolerance, Vec<MemoryArea>), String> {
    let mut everywhere = OutputTolerance::Exact;
    let mut areas: Vec<MemoryArea> = Vec::new();
    // Only a rule for a part of memory needs the list of allocations.
    let buffers = OnceCell::new();
    let holding = |address: GpuVa| {
        let buffers = buffers.get_or_init(|| Buffers::from_recording(recording, &launches.metadata));
        allocation(buffers, launch.event, address)
            .ok_or_else(|| format!("there is no memory at {address:#x} before the launch"))
    };
    for ScopedRule { scope: place, rule } in all {
        let (at, bytes) = match place {
            MemoryScope::Everywhere => {
                everywhere = *rule;
                continue;
            }
            MemoryScope::Range(first, end) => (*first, *end - *first),
            MemoryScope::Address(address) => holding(*address)?,
            MemoryScope::Parameter(n) => {
                let address = pointer(recording, &launches.metadata, launch, *n)
                    .ok_or_else(|| format!("parameter {n} of the launch is not a pointer (parameters count from 0)"))?;
                holding(address)?
            }
        };
        let area = MemoryArea { at, bytes, rule: *rule };
        let meets =
            |other: &&MemoryArea| at < other.at.saturating_add(other.bytes) && other.at < at.saturating_add(bytes);
        if let Some(other) = areas.iter().find(meets) {
            return Err(format!(
                "two rules are for the same memory, {:#x} and {:#x}; give one of them",
                other.at.max(at),
                other.at.saturating_add(other.bytes).min(at.saturating_add(bytes))
            ));
        }
        areas.push(area);
    }
    areas.sort_by_key(|a| a.at);
    Ok((everywhere, areas))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerance_rules_are_parsed_with_scopes() {
        let f32_near = |absolute, relative| OutputTolerance::Near {
            element: ElementType::F32,
            absolute,
            relative,
        };
        let rule = |text: &str| parse_scoped_rule(text).map(|n| (n.scope, n.rule));
        assert_eq!(rule("f32:1e-5"), Ok((MemoryScope::Everywhere, f32_near(1e-5, 1e-5))));
        assert_eq!(
            rule("arg1=f32:1,0"),
            Ok((MemoryScope::Parameter(1), f32_near(1.0, 0.0)))
        );
        assert_eq!(
            rule("0x10..0x20=exact"),
            Ok((
                MemoryScope::Range(GpuVa::new(16), GpuVa::new(32)),
                OutputTolerance::Exact
            ))
        );
        assert_eq!(
            rule("0x10..=0x1f=exact"),
            Ok((
                MemoryScope::Range(GpuVa::new(16), GpuVa::new(32)),
                OutputTolerance::Exact
            ))
        );
        let steps = OutputTolerance::Steps {
            element: ElementType::F16,
            most: 2,
        };
        assert_eq!(
            rule("0x1000=f16:2ulp"),
            Ok((MemoryScope::Address(GpuVa::new(0x1000)), steps))
        );
        for bad in [
            "f32",
            "f32:",
            "f33:1",
            "i32:1ulp",
            "f32:-1",
            "f32:nan",
            "arg=f32:1",
            "argx=exact",
            "12=exact",
            "0x2..0x1=exact",
            "=exact",
            "near",
        ] {
            assert!(parse_scoped_rule(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rules_for_outputs_are_by_name_or_for_all_others() {
        let (named, others) = parse_output_rules("out0=exact; f16:2ulp").unwrap();
        assert_eq!(named.get("out0"), Some(&OutputTolerance::Exact));
        assert!(matches!(others, Some(OutputTolerance::Steps { most: 2, .. })));
        assert_eq!(parse_output_rules(" ; "), Ok((BTreeMap::new(), None)));
        for bad in ["=exact", "out0=f32", "exact; exact", "out0=exact;out0=f32:1"] {
            assert!(parse_output_rules(bad).is_err(), "{bad}");
        }
    }
}
