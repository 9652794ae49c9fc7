//! Statistics of groups, with Rust's standard library: lines `NAME NUMBER` give count, sum, mean and extremes of each
//! name, sorted. A line without a number is reported on standard error; the exit code is then 1.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

#[derive(Clone, Copy)]
struct Group {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

fn main() -> ExitCode {
    // The map takes its keys from `random_get`.
    let mut groups: HashMap<String, Group> = HashMap::new();
    let mut bad = 0;
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line.expect("standard input is text");
        let parsed = line.split_once(' ').and_then(|(name, value)| Some((name, value.trim().parse::<f64>().ok()?)));
        let Some((name, value)) = parsed else {
            eprintln!("line {}: no number in {line:?}", number + 1);
            bad += 1;
            continue;
        };
        let group = groups.entry(name.to_owned()).or_insert(Group {
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        });
        group.count += 1;
        group.sum += value;
        group.min = group.min.min(value);
        group.max = group.max.max(value);
    }
    let mut names: Vec<_> = groups.iter().collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (name, group) in names {
        let mean = group.sum / group.count as f64;
        writeln!(
            out,
            "{name:<12} {:>6} {:>14.3} {mean:>12.4} {:>10} {:>10}",
            group.count, group.sum, group.min, group.max
        )
        .expect("standard output takes all bytes");
    }
    ExitCode::from(u8::from(bad > 0))
}
