//! cargo-fuzz's way to the target `job_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::job_file(bytes));
