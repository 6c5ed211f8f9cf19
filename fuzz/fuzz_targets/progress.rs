//! cargo-fuzz's way to the target `progress`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::progress(bytes));
