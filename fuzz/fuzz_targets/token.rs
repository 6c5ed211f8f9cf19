//! cargo-fuzz's way to the target `token`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::token(bytes));
