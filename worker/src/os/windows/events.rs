//! Writing to the system's event log.
#![allow(unsafe_code)] // Two handles and two strings; the block says why it is sound.

use std::io;
use std::ptr;

use tracing::Level;
use windows_sys::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, EVENTLOG_WARNING_TYPE,
    RegisterEventSourceW, ReportEventW,
};

use super::sys;

/// Writes an event of a source, with its number and its words.
///
/// # Errors
/// If the system does not take it.
pub fn report(source: &str, level: Level, id: u32, text: &str) -> io::Result<()> {
    let kind = match level {
        Level::ERROR => EVENTLOG_ERROR_TYPE,
        Level::WARN => EVENTLOG_WARNING_TYPE,
        _ => EVENTLOG_INFORMATION_TYPE,
    };
    let source = sys::wide(source);
    let text = sys::wide(text);

    // SAFETY: strings with their final zeros, which outlive the calls; the handle is checked, and
    // given back once.
    unsafe {
        let log = RegisterEventSourceW(ptr::null(), source.as_ptr());
        if log.is_null() {
            return Err(io::Error::last_os_error());
        }
        let words = [text.as_ptr()];
        let done = ReportEventW(
            log,
            kind,
            0,
            id,
            ptr::null_mut(),
            1,
            0,
            words.as_ptr(),
            ptr::null(),
        );
        let result = sys::checked(done);
        DeregisterEventSource(log);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_taken_by_the_system() {
        report("deskgrid-test", Level::WARN, 3, "cannot join the grid yet").unwrap();
    }
}
