//! Takes from a command, before it runs, what the worker's account may do beyond reading and
//! writing files: privileges, such as to act as whoever connects to a pipe, and the rank above a
//! user's programs that services have. Without them a task can neither become the system nor open
//! the worker's own process. Thin wrappers; each says why it is sound.
#![allow(unsafe_code)] // Tokens are known to neither std nor a well-kept small crate.

use std::io;
use std::mem::MaybeUninit;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_NOT_ALL_ASSIGNED, GetLastError, HANDLE};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetSidSubAuthority, GetSidSubAuthorityCount, GetTokenInformation,
    LUID_AND_ATTRIBUTES, SE_PRIVILEGE_REMOVED, SID, SID_AND_ATTRIBUTES, SID_IDENTIFIER_AUTHORITY,
    SetTokenInformation, TOKEN_ADJUST_DEFAULT, TOKEN_ADJUST_PRIVILEGES, TOKEN_INFORMATION_CLASS,
    TOKEN_MANDATORY_LABEL, TOKEN_PRIVILEGES, TOKEN_QUERY, TokenIntegrityLevel, TokenIsAppContainer,
    TokenPrivileges,
};
use windows_sys::Win32::System::Threading::OpenProcessToken;

use super::sys::{self, ProcessHandle};

/// The one privilege that is left, by its number: to reach a file through directories that cannot
/// be listed. Without it hardly a program starts.
const PASS_THROUGH: u32 = 23;
/// The rank of a user's programs, and the mark of a rank in a token.
const MEDIUM: u32 = 0x2000;
const INTEGRITY: u32 = 0x20;
/// The authority of ranks (S-1-16).
const LABELS: [u8; 6] = [0, 0, 0, 0, 0, 16];
/// The number that stands for this process's own token.
const OWN_TOKEN: HANDLE = ptr::without_provenance_mut(usize::MAX - 3);
/// Room for what is asked of a token, in words of eight bytes.
const ROOM: usize = 512;

/// Takes privileges and rank from a process that does not run yet.
///
/// # Errors
/// If the system refuses; the process may have lost a part of them then.
pub(super) fn restrict(process: &ProcessHandle) -> io::Result<()> {
    let token = Token::of(process)?;
    token.drop_privileges()?;
    if token.rank()? > MEDIUM {
        token.set_rank(MEDIUM)?;
    }
    Ok(())
}

/// Whether this process is in an AppContainer.
///
/// # Errors
/// If the system does not say.
pub(super) fn in_container() -> io::Result<bool> {
    let answer = ask(OWN_TOKEN, TokenIsAppContainer)?;
    Ok(answer[0] as u32 != 0)
}

struct Token(OwnedHandle);

impl Token {
    fn of(process: &ProcessHandle) -> io::Result<Self> {
        let rights = TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES | TOKEN_ADJUST_DEFAULT;
        let mut token = MaybeUninit::<HANDLE>::uninit();
        // SAFETY: an open handle; what comes back is checked, and ours alone.
        unsafe {
            sys::checked(OpenProcessToken(process.raw(), rights, token.as_mut_ptr()))?;
            Ok(Self(OwnedHandle::from_raw_handle(token.assume_init())))
        }
    }

    fn ask(&self, what: TOKEN_INFORMATION_CLASS) -> io::Result<Vec<u64>> {
        ask(self.0.as_raw_handle(), what)
    }

    /// Returns its privileges as the system writes them, marked to be removed but for
    /// `PASS_THROUGH`, and their numbers.
    fn privileges(&self) -> io::Result<(Vec<u64>, Vec<u32>)> {
        let mut answer = self.ask(TokenPrivileges)?;
        let head = answer.as_mut_ptr().cast::<TOKEN_PRIVILEGES>();
        let mut found = Vec::new();

        // SAFETY: the system wrote this struct, with as many entries as it says; the buffer has room
        // for all of them.
        unsafe {
            let first: *mut LUID_AND_ATTRIBUTES = (&raw mut (*head).Privileges).cast();
            for entry in 0..(*head).PrivilegeCount as usize {
                let entry = first.add(entry);
                let number = (*entry).Luid.LowPart;
                if number != PASS_THROUGH {
                    (*entry).Attributes = SE_PRIVILEGE_REMOVED;
                }
                found.push(number);
            }
        }
        Ok((answer, found))
    }

    fn drop_privileges(&self) -> io::Result<()> {
        let (marked, _) = self.privileges()?;
        let token = self.0.as_raw_handle();

        // SAFETY: the struct that the system wrote, with other marks.
        unsafe {
            let marks = marked.as_ptr().cast();
            if AdjustTokenPrivileges(token, 0, marks, 0, ptr::null_mut(), ptr::null_mut()) == 0
                || GetLastError() == ERROR_NOT_ALL_ASSIGNED
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    fn rank(&self) -> io::Result<u32> {
        let answer = self.ask(TokenIntegrityLevel)?;
        // SAFETY: the system wrote this struct, which points to a number of its own in the buffer;
        // that has at least one part.
        unsafe {
            let label = &*answer.as_ptr().cast::<TOKEN_MANDATORY_LABEL>();
            let parts = u32::from(*GetSidSubAuthorityCount(label.Label.Sid));
            Ok(*GetSidSubAuthority(
                label.Label.Sid,
                parts.saturating_sub(1),
            ))
        }
    }

    fn set_rank(&self, rank: u32) -> io::Result<()> {
        let mut number = SID {
            Revision: 1,
            SubAuthorityCount: 1,
            IdentifierAuthority: SID_IDENTIFIER_AUTHORITY { Value: LABELS },
            SubAuthority: [rank],
        };
        let label = TOKEN_MANDATORY_LABEL {
            Label: SID_AND_ATTRIBUTES {
                Sid: (&raw mut number).cast(),
                Attributes: INTEGRITY,
            },
        };
        let bytes = size_of_val(&label) as u32;
        let token = self.0.as_raw_handle();

        // SAFETY: a struct of the length that is said, which points to another one; both are locals.
        let set = unsafe {
            SetTokenInformation(token, TokenIntegrityLevel, (&raw const label).cast(), bytes)
        };
        sys::checked(set)
    }
}

/// Asks a token for one kind of information; as `u64`s, so that it is aligned for any of them.
fn ask(token: HANDLE, what: TOKEN_INFORMATION_CLASS) -> io::Result<Vec<u64>> {
    let mut answer = vec![0_u64; ROOM];
    let bytes = size_of_val(&*answer) as u32;
    let mut length = 0;
    let to = answer.as_mut_ptr().cast();

    // SAFETY: a token that is open, or our own, and a buffer of the length that is said, aligned for any of these structs.
    let told = unsafe { GetTokenInformation(token, what, to, bytes, &raw mut length) };
    sys::checked(told).map(|()| answer)
}

#[cfg(test)]
mod tests {
    use std::os::windows::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_command_has_no_privilege_but_to_pass_through_directories() {
        let mut child = Command::new("cmd")
            .creation_flags(sys::SUSPENDED_AND_IDLE)
            .spawn()
            .unwrap();
        let process = sys::open(child.id()).unwrap();
        let left = |process| Token::of(process).unwrap().privileges().unwrap().1;
        let before = left(&process);
        let done = restrict(&process);
        let after = left(&process);
        child.kill().unwrap();
        child.wait().unwrap();

        done.unwrap();
        assert!(before.len() > 1, "{before:?}");
        assert!(
            after.iter().all(|number| *number == PASS_THROUGH),
            "{after:?}"
        );
    }
}
