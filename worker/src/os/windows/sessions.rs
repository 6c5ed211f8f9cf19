//! Sessions of users: which there are, what a process of one can tell of its own, and the pipe
//! between watchers and the service. Thin wrappers; what follows from them is in
//! `owner::sensors::sessions`.
#![allow(unsafe_code)] // Thin wrappers over windows-sys; every block says why it is sound.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::ptr;

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES,
    SetKernelObjectSecurity, TOKEN_ADJUST_PRIVILEGES,
};
use windows_sys::Win32::System::Pipes::{GetNamedPipeClientProcessId, GetNamedPipeClientSessionId};
use windows_sys::Win32::System::RemoteDesktop::{
    WTS_CURRENT_SESSION, WTS_SESSION_INFOW, WTS_SESSIONSTATE_UNLOCK, WTSConnectQuery, WTSConnected,
    WTSDisconnected, WTSDown, WTSEnumerateSessionsW, WTSFreeMemory, WTSGetActiveConsoleSessionId,
    WTSINFOEXW, WTSIdle, WTSInit, WTSListen, WTSQuerySessionInformationW, WTSQueryUserToken,
    WTSReset, WTSSessionInfoEx,
};
use windows_sys::Win32::System::Threading::{
    CreateProcessAsUserW, GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_INFORMATION,
    PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
    STARTUPINFOW,
};
use windows_sys::Win32::UI::Shell::{
    QUNS_BUSY, QUNS_PRESENTATION_MODE, QUNS_RUNNING_D3D_FULL_SCREEN, SHQueryUserNotificationState,
};
use windows_sys::core::PCWSTR;
use windows_sys::w;

use crate::owner::sensors::sessions::SessionState;

use super::sys;

pub(crate) use super::sys::session as own;

/// The rights to the pipe: all for the system, administrators and the account that made it; users
/// who are logged on may connect and write, but not make an instance of their own. Nobody
/// from the network gets in.
const PIPE_RIGHTS: PCWSTR =
    w!("D:P(D;;GA;;;NU)(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;OW)(A;;0x120182;;;IU)");
/// The rights to a watcher: beside its user, the system and administrators, every service may look
/// which program it is (and wait for its end), and nothing else.
const WATCHER_RIGHTS: PCWSTR = w!("D:P(A;;GA;;;OW)(A;;GA;;;SY)(A;;GA;;;BA)(A;;0x101000;;;SU)");
/// What the system says where no session is at the screen.
const NO_SESSION: u32 = u32::MAX;
/// The longest path of a program, in characters.
const PATH: usize = 32_768;

/// Lists the sessions, `0` included.
///
/// # Errors
/// If the system does not list them.
pub(crate) fn list() -> io::Result<BTreeMap<u32, SessionState>> {
    let mut first: *mut WTS_SESSION_INFOW = ptr::null_mut();
    let mut count = 0;

    // SAFETY: pointers to locals; 0 is this machine. What comes back is read while it is there, as
    // many entries as the system says, and given back.
    unsafe {
        sys::checked(WTSEnumerateSessionsW(
            ptr::null_mut(),
            0,
            1,
            &raw mut first,
            &raw mut count,
        ))?;
        let entries = (0..count as usize).map(|n| &*first.add(n));
        let listed = entries
            .map(|entry| (entry.SessionId, state(entry.State)))
            .collect();
        WTSFreeMemory(first.cast());
        Ok(listed)
    }
}

/// What is not known counts as somebody at a screen.
#[allow(non_upper_case_globals)] // The names of Windows.
fn state(number: i32) -> SessionState {
    match number {
        WTSDisconnected => SessionState::Disconnected,
        WTSConnected | WTSConnectQuery | WTSIdle | WTSListen | WTSReset | WTSDown | WTSInit => {
            SessionState::Nobody
        }
        _ => SessionState::Active,
    }
}

/// Returns the session that keyboard and screen of the PC belong to, unless they are just changing
/// hands.
pub(crate) fn console() -> Option<u32> {
    // SAFETY: takes nothing.
    let session = unsafe { WTSGetActiveConsoleSessionId() };
    (session != NO_SESSION).then_some(session)
}

/// Whether the screen of this session is locked. Where the system does not say so, it is not.
pub(crate) fn locked() -> bool {
    let mut info = ptr::null_mut();
    let mut bytes = 0;

    // SAFETY: pointers to locals; what comes back is read only if it is as long as the struct that
    // was asked for, and given back.
    unsafe {
        let asked = WTSQuerySessionInformationW(
            ptr::null_mut(),
            WTS_CURRENT_SESSION,
            WTSSessionInfoEx,
            &raw mut info,
            &raw mut bytes,
        );
        if asked == 0 || info.is_null() {
            return false;
        }
        let known = bytes as usize >= size_of::<WTSINFOEXW>();
        let locked = known && {
            let info = ptr::read_unaligned(info.cast::<WTSINFOEXW>());
            info.Level == 1 && locks(info.Data.WTSInfoExLevel1.SessionFlags)
        };
        WTSFreeMemory(info.cast());
        locked
    }
}

/// Interprets the flags of a session: 0 is locked, 1 is not, and all bits are not known.
fn locks(flags: i32) -> bool {
    (0..WTS_SESSIONSTATE_UNLOCK as i32).contains(&flags)
}

/// Whether a program fills the screen of this session, or shows a presentation.
pub(crate) fn full_screen() -> bool {
    let mut state = 0;
    // SAFETY: a pointer to a local.
    let asked = unsafe { SHQueryUserNotificationState(&raw mut state) };
    let fills = [
        QUNS_BUSY,
        QUNS_RUNNING_D3D_FULL_SCREEN,
        QUNS_PRESENTATION_MODE,
    ];
    asked >= 0 && fills.contains(&state)
}

/// A description of rights, in the system's form.
struct Rights(PSECURITY_DESCRIPTOR);

impl Rights {
    fn of(text: PCWSTR) -> io::Result<Self> {
        let mut rights = ptr::null_mut();

        // SAFETY: a constant string with its final zero, and a pointer to a local.
        let read = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text,
                SDDL_REVISION_1,
                &raw mut rights,
                ptr::null_mut(),
            )
        };
        sys::checked(read).map(|()| Self(rights))
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        // SAFETY: the system's own memory, given back once.
        unsafe { LocalFree(self.0) };
    }
}

/// Makes an instance of the watchers' pipe, to which users who are logged on may write.
///
/// # Errors
/// If another process has a pipe of this name, and `first` is set.
pub(crate) fn listen(name: &str, first: bool) -> io::Result<NamedPipeServer> {
    let rights = Rights::of(PIPE_RIGHTS)?;
    let mut attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: rights.0,
        bInheritHandle: 0,
    };

    // SAFETY: the attributes and the rights in them live until after the call.
    unsafe {
        ServerOptions::new()
            .first_pipe_instance(first)
            .access_outbound(false)
            .reject_remote_clients(true)
            .create_with_security_attributes_raw(name, (&raw mut attributes).cast())
    }
}

/// A process at the other end of a pipe, as the system knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipeClient {
    /// The session in which it runs.
    pub session: u32,
    /// Its number.
    pub process: u32,
}

/// Returns who has connected to this pipe.
///
/// # Errors
/// If the system does not say.
pub(crate) fn client(pipe: &NamedPipeServer) -> io::Result<PipeClient> {
    let handle: HANDLE = pipe.as_raw_handle();
    let mut session = 0;
    let mut process = 0;

    // SAFETY: an open pipe, and pointers to locals.
    unsafe {
        sys::checked(GetNamedPipeClientSessionId(handle, &raw mut session))?;
        sys::checked(GetNamedPipeClientProcessId(handle, &raw mut process))?;
    }
    Ok(PipeClient { session, process })
}

/// Returns the path of the program that a process runs.
///
/// # Errors
/// If there is no such process, or it does not let this account look.
pub(crate) fn program_of(process: u32) -> io::Result<PathBuf> {
    let mut path = vec![0_u16; PATH];
    let mut length = PATH as u32;

    // SAFETY: the handle is ours alone; a buffer of the length that is said.
    unsafe {
        let handle = sys::owned(OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, process))?;
        sys::checked(QueryFullProcessImageNameW(
            handle.as_raw_handle(),
            PROCESS_NAME_WIN32,
            path.as_mut_ptr(),
            &raw mut length,
        ))?;
    }

    path.truncate(length as usize);
    Ok(OsString::from_wide(&path).into())
}

/// Starts a program in a session, as the user of it and with no more rights than the user's own
/// programs have. Only the system's own account may do that.
///
/// # Errors
/// If this account may not, or nobody is logged on there.
pub(crate) fn start_in(session: u32, program: &Path) -> io::Result<()> {
    let path = sys::wide(program);
    let mut line = sys::wide(format!("\"{}\"", program.display()));
    let mut desktop = sys::wide(r"winsta0\default");
    let mut token = MaybeUninit::<HANDLE>::uninit();

    // SAFETY: structs of numbers and pointers, of which zeroes are a valid value; strings with
    // their final zeroes, which live until after the call; handles are checked, and ours alone.
    unsafe {
        sys::checked(WTSQueryUserToken(session, token.as_mut_ptr()))?;
        let token = OwnedHandle::from_raw_handle(token.assume_init());
        let mut start: STARTUPINFOW = MaybeUninit::zeroed().assume_init();
        start.cb = size_of::<STARTUPINFOW>() as u32;
        start.lpDesktop = desktop.as_mut_ptr();
        let mut started: PROCESS_INFORMATION = MaybeUninit::zeroed().assume_init();
        sys::checked(CreateProcessAsUserW(
            token.as_raw_handle(),
            path.as_ptr(),
            line.as_mut_ptr(),
            ptr::null(),
            ptr::null(),
            0,
            0,
            ptr::null(),
            ptr::null(),
            &raw const start,
            &raw mut started,
        ))?;
        for handle in [started.hThread, started.hProcess] {
            drop(OwnedHandle::from_raw_handle(handle));
        }
    }
    Ok(())
}

/// Gives up the privileges of this process, and lets services look which program it is.
///
/// # Errors
/// If the system refuses one of them.
pub(crate) fn become_a_watcher() -> io::Result<()> {
    let rights = Rights::of(WATCHER_RIGHTS)?;
    let mut token = MaybeUninit::<HANDLE>::uninit();

    // SAFETY: this process's own handle needs no closing; the token's is checked, and ours alone;
    // the rights live until after the call.
    unsafe {
        let this = GetCurrentProcess();
        sys::checked(SetKernelObjectSecurity(
            this,
            DACL_SECURITY_INFORMATION,
            rights.0,
        ))?;
        sys::checked(OpenProcessToken(
            this,
            TOKEN_ADJUST_PRIVILEGES,
            token.as_mut_ptr(),
        ))?;
        let token = OwnedHandle::from_raw_handle(token.assume_init());
        let none = (ptr::null(), 0, ptr::null_mut(), ptr::null_mut());
        sys::checked(AdjustTokenPrivileges(
            token.as_raw_handle(),
            1,
            none.0,
            none.1,
            none.2,
            none.3,
        ))
    }
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::RemoteDesktop::WTSActive;

    use super::*;

    #[test]
    fn a_state_of_a_session_that_is_not_known_counts_as_somebody_there() {
        assert_eq!(state(WTSActive), SessionState::Active);
        assert_eq!(state(WTSDisconnected), SessionState::Disconnected);
        assert_eq!(state(WTSConnected), SessionState::Nobody);
        assert_eq!(state(77), SessionState::Active);
    }

    #[test]
    fn only_the_mark_of_a_lock_is_a_lock() {
        assert!(locks(0));
        assert!(!locks(1) && !locks(-1));
    }

    #[test]
    fn a_process_finds_its_own_program() {
        let found = program_of(std::process::id()).unwrap();
        assert_eq!(
            found.file_name(),
            std::env::current_exe().unwrap().file_name()
        );
    }
}
