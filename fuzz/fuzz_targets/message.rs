//! cargo-fuzz's way to the target `message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::message(bytes));
