//! Failures that a test asks for: `MATH_STAND_IN_FAIL=cublasSgemm_v2:2=13` makes the second call answer 13.

use crate::{Answer, lock};
use std::collections::HashMap;
use std::sync::Mutex;

static CALLS: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

/// Counts a call of a function, and returns the failure that the test wants.
pub fn requested(function: &str) -> Answer {
    let Ok(wanted) = std::env::var("MATH_STAND_IN_FAIL") else {
        return Ok(());
    };
    let mut calls = lock(&CALLS);
    let count = calls.get_or_insert_default().entry(function.to_owned()).or_default();
    *count += 1;
    for failure in wanted.split(',') {
        let parsed = failure
            .split_once('=')
            .and_then(|(call, status)| Some((call.split_once(':')?, status.parse::<i32>().ok()?)));
        let Some(((name, number), status)) = parsed else {
            eprintln!("math stand-in: MATH_STAND_IN_FAIL={failure} (expected FUNCTION:N=STATUS)");
            std::process::exit(86);
        };
        if name == function && number == count.to_string() {
            return Err(status);
        }
    }
    Ok(())
}
