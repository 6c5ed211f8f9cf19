//! cargo-fuzz's way to the target `certificate`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::certificate(bytes));
