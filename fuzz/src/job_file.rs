//! The target of job files. It is apart from the others because it needs the whole program, which
//! takes long to build for fuzzing.

/// A job file.
pub fn job_file(bytes: &[u8]) {
    let _ = cli::check_job_file(bytes);
}
