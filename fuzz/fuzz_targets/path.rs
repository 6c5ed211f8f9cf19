//! cargo-fuzz's way to the target `path`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::path(bytes));
