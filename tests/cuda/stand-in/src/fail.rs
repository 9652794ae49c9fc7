//! Calls that fail because a test asks for it, by a variable of the environment.

use crate::codes::is_sticky;
use crate::context;
use cuda_driver::CuResult;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// `cuMemAlloc_v2@3=2,cuLaunchKernel@10=719`: the third call of the one answers 2, the tenth of the other 719, and
/// neither does anything. Calls are counted from 1, in both forms of a function.
const VARIABLE: &str = "KINESCOPE_STAND_IN_FAIL";

struct Failure {
    function: String,
    call: u64,
    code: CuResult,
    so_far: AtomicU64,
}

fn wanted() -> &'static [Failure] {
    static WANTED: OnceLock<Vec<Failure>> = OnceLock::new();
    WANTED.get_or_init(|| std::env::var(VARIABLE).map(|text| parse(&text)).unwrap_or_default())
}

fn parse(text: &str) -> Vec<Failure> {
    let one = |part: &str| {
        let (function, rest) = part.trim().split_once('@')?;
        let (call, code) = rest.split_once('=')?;
        let (call, code) = (call.trim().parse().ok()?, code.trim().parse().ok()?);
        Some(Failure { function: function.trim().to_owned(), call, code, so_far: AtomicU64::new(0) })
    };
    let parts = text.split(',').filter(|p| !p.trim().is_empty());
    parts
        .filter_map(|part| {
            let failure = one(part);
            if failure.is_none() {
                eprintln!("{VARIABLE}: `{part}` is not of the form function@call=code");
            }
            failure
        })
        .collect()
}

/// What this call of a function has to answer instead of doing its work.
pub fn due(function: &str) -> Option<CuResult> {
    let mut due = None;
    for failure in wanted().iter().filter(|f| f.function == function) {
        if failure.so_far.fetch_add(1, Ordering::Relaxed) + 1 == failure.call {
            due = Some(failure.code);
        }
    }
    let code = due?;
    if is_sticky(code) {
        context::hurt_current(code);
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read() {
        let all = parse("cuMemAlloc_v2@3=2, cuLaunchKernel@10=719,");
        let all: Vec<_> = all.iter().map(|f| (f.function.as_str(), f.call, f.code)).collect();
        assert_eq!(all, [("cuMemAlloc_v2", 3, 2), ("cuLaunchKernel", 10, 719)]);
        assert!(parse("cuInit,cuInit@x=1").is_empty());
    }
}
