//! `diff --raw`: compares two raw images.

use super::sides::Element;
use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out, format_hex, progress_line};
use serde::Serialize;
use std::path::Path;
use trace_core::diff::{self, Errors, ImageDiff, ImageError, Rules, Tolerance};
use trace_core::recording::ElementType;

/// The comparison of two images, with the comparison of elements at the same level.
#[derive(Serialize)]
struct Report<'a> {
    /// Whether nothing differs.
    same: bool,
    /// Sizes of the images.
    a_bytes: u64,
    b_bytes: u64,
    /// Number of pages and of bytes that differ.
    pages_differ: u64,
    bytes_differ: u64,
    /// Number of ranges of differing bytes.
    ranges_in_all: u64,
    /// The first 1000 of them.
    ranges: Vec<Range>,
    /// As for a buffer.
    element: &'static str,
    compared: u64,
    equal: u64,
    within: u64,
    differ: u64,
    first: Option<Element>,
    errors: Option<&'a Errors>,
    tolerance: Option<Tolerance>,
    /// The applied rules, in the form of `--rules`.
    rules: Vec<String>,
}

/// A range of differing bytes, by its address instead of its offset in the images.
#[derive(Serialize)]
struct Range {
    /// Address of the first byte, with `--base`.
    address: String,
    /// Number of bytes.
    bytes: u64,
}

/// Compares two images whose first bytes are at `base`, and prints at most `max` ranges as text.
pub fn run(
    (a, b): (&Path, &Path),
    base: u64,
    element: ElementType,
    rules: &Rules,
    max: usize,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let found = progress_line::run_with_progress("comparing", |progress, _| {
        diff::compare_images((a, b), base, element, rules, progress).map_err(|e| match e {
            ImageError::Cancelled(c) => Failure::file(a, c),
            e => Failure::usage(e.to_string()),
        })
    })?;
    let report = report(&found, base, rules);
    if out.is_json() {
        out.value(&report)?;
    } else {
        text(&report, max, out)?;
    }
    Ok(Exit::differs_if(!report.same))
}

fn report<'a>(d: &'a ImageDiff, base: u64, rules: &Rules) -> Report<'a> {
    let e = &d.elements;
    Report {
        same: d.is_empty(),
        a_bytes: d.bytes_a,
        b_bytes: d.bytes_b,
        pages_differ: d.pages_differ,
        bytes_differ: d.bytes_differ,
        ranges_in_all: d.ranges_in_all,
        ranges: d
            .ranges
            .iter()
            .map(|r| Range {
                address: format_hex(base.saturating_add(r.offset)),
                bytes: r.bytes,
            })
            .collect(),
        element: e.element.name(),
        compared: e.compared,
        equal: e.equal,
        within: e.within,
        differ: e.differ,
        first: Element::first(e),
        errors: e.errors.as_ref(),
        tolerance: Some(rules.image_tolerance()).filter(Tolerance::is_some),
        rules: rules.list.iter().map(ToString::to_string).collect(),
    }
}

fn text(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    match &r.first {
        _ if r.same => out.line("No difference\n")?,
        None => out.line(format_args!(
            "They differ in size: {} and {} bytes\n",
            r.a_bytes, r.b_bytes
        ))?,
        Some(f) => out.line(format_args!(
            "First difference at {} [{}]: {} becomes {}\n",
            r.element, f.index, f.a, f.b
        ))?,
    }
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("Size", format!("{} and {} bytes", r.a_bytes, r.b_bytes)),
        row(
            "Elements",
            format!(
                "{} {}: {} the same, {} within the tolerance, {} differ",
                r.compared, r.element, r.equal, r.within, r.differ
            ),
        ),
        row(
            "Bytes",
            format!("{} differ, in {}", r.bytes_differ, format_count(r.pages_differ, "page")),
        ),
    ];
    if let Some(e) = r.errors {
        rows.push(row(
            "Error",
            format!(
                "{:.3e} at most at [{}], relative {:.3e} at [{}], {:.3e} on average",
                e.max_absolute, e.max_absolute_at, e.max_relative, e.max_relative_at, e.mean_absolute
            ),
        ));
    }
    out.table(&rows)?;
    for rule in &r.rules {
        out.line(format_args!("By rule: {rule}"))?;
    }
    if !r.ranges.is_empty() {
        out.line("\nBytes that differ")?;
        for d in r.ranges.iter().take(max) {
            out.line(format_args!("  {}: {}", d.address, format_count(d.bytes, "byte")))?;
        }
        let rest = r.ranges_in_all.saturating_sub(max as u64);
        if rest > 0 {
            out.line(format_args!(
                "  and {rest} more ranges (--max-differences N shows more)"
            ))?;
        }
    }
    Ok(())
}
