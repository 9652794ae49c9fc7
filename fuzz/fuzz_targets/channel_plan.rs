//! Fuzzes `fuzz_targets::channel_plan::channel_plan`; see scripts/fuzz.sh.
#![no_main]
#![allow(unsafe_code, reason = "the macro exports libFuzzer's C entry points")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_targets::channel_plan::channel_plan(data);
});
