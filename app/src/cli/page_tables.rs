//! Text about page tables, which several verbs print.

use trace_core::mmu;

/// Describes in one line the tables and entries of an address space that could not be followed; `None` if all could.
pub fn describe_problems(number: u8, problems: u64, first: Option<&mmu::MmuError>) -> Option<String> {
    let first = first?;
    let what = match problems {
        1 => "1 table or entry".to_owned(),
        n if n < mmu::Scan::MAX_PROBLEMS as u64 => format!("{n} tables and entries"),
        // The walk stops at these tables.
        n => format!("{n} tables and entries, and of all that come after them,"),
    };
    let first_of = if problems > 1 { "the first: " } else { "" };
    Some(format!(
        "Address space {number}: the content behind {what} is unknown and not counted; {first_of}{first}"
    ))
}
