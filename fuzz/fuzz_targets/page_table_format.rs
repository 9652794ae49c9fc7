//! Fuzzes `fuzz_targets::machine::page_table_format`; see scripts/fuzz.sh.
#![no_main]
#![allow(unsafe_code, reason = "the macro exports libFuzzer's C entry points")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_targets::machine::page_table_format(data);
});
