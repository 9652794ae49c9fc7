//! Fuzzes `fuzz_targets::campaigns::worker_entry`; see scripts/fuzz.sh.
#![no_main]
#![allow(unsafe_code, reason = "the macro exports libFuzzer's C entry points")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_targets::campaigns::worker_entry(data);
});
