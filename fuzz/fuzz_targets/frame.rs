//! cargo-fuzz's way to the target `frame`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::frame(bytes));
