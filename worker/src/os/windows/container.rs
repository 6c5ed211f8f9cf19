//! An AppContainer for one attempt: what is started in it reads only what all containers may read (the system's programs),
//! reads and writes what is opened to it, and has no network unless it is given leave. Thin wrappers; each says why it is sound.
#![allow(unsafe_code)] // Containers are known to neither std nor a well-kept small crate.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::mem::transmute;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use windows_sys::Win32::Foundation::{FARPROC, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    EXPLICIT_ACCESS_W, GRANT_ACCESS, GetSecurityInfo, SE_FILE_OBJECT, SE_OBJECT_TYPE,
    SE_WINDOW_OBJECT, SetEntriesInAclW, SetSecurityInfo, TRUSTEE_IS_SID, TRUSTEE_W,
};
use windows_sys::Win32::Security::{
    ACL, DACL_SECURITY_INFORMATION, FreeSid, PSID, SECURITY_CAPABILITIES, SID_AND_ATTRIBUTES,
    SID_IDENTIFIER_AUTHORITY, SUB_CONTAINERS_AND_OBJECTS_INHERIT,
};
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_FLAG_BACKUP_SEMANTICS, FILE_GENERIC_EXECUTE, FILE_GENERIC_READ,
    FILE_GENERIC_WRITE, READ_CONTROL, WRITE_DAC,
};
use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};
use windows_sys::Win32::System::StationsAndDesktops::{GetProcessWindowStation, GetThreadDesktop};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;
use windows_sys::core::{HRESULT, PCSTR, PCWSTR};
use windows_sys::{s, w};

use super::sys;
use crate::blocking::behind;

/// The authority of packages and their capabilities (S-1-15).
const PACKAGES: SID_IDENTIFIER_AUTHORITY = SID_IDENTIFIER_AUTHORITY {
    Value: [0, 0, 0, 0, 0, 15],
};
/// The capabilities to reach other machines: those of the internet, also as a server, and those of the own network.
static NETWORK: [ShortSid; 3] = [
    ShortSid::of([3, 1]),
    ShortSid::of([3, 2]),
    ShortSid::of([3, 3]),
];
/// All containers.
static ALL_CONTAINERS: ShortSid = ShortSid::of([2, 1]);
/// The mark of a capability that counts.
const ENABLED: u32 = 4;
/// The rights of a task in its own directory.
const OWN: u32 = FILE_GENERIC_READ | FILE_GENERIC_WRITE | FILE_GENERIC_EXECUTE | DELETE;
/// The rights that a program which links `user32.dll` needs at the window station and the desktop of its session so that it
/// starts: to look at both, and to make windows that nobody sees.
const STATION: u32 = 0x103 | READ_CONTROL;
const DESKTOP: u32 = 0xC7 | READ_CONTROL;
/// The first part of an [`HRESULT`] that is one of the system's usual errors.
const USUAL: u32 = 0x8007;

/// A security identifier of two parts.
#[repr(C)]
#[derive(Clone, Copy)]
struct ShortSid {
    revision: u8,
    parts: u8,
    authority: SID_IDENTIFIER_AUTHORITY,
    numbers: [u32; 2],
}

impl ShortSid {
    const fn of(numbers: [u32; 2]) -> Self {
        Self {
            revision: 1,
            parts: 2,
            authority: PACKAGES,
            numbers,
        }
    }

    fn as_system(&self) -> PSID {
        ptr::from_ref(self).cast_mut().cast()
    }
}

type CreateProfile = unsafe extern "system" fn(
    PCWSTR,
    PCWSTR,
    PCWSTR,
    *const SID_AND_ATTRIBUTES,
    u32,
    *mut PSID,
) -> HRESULT;
type DeleteProfile = unsafe extern "system" fn(PCWSTR) -> HRESULT;

/// The two functions of `userenv.dll` that make containers and remove them. They are looked for when they are needed: Wine lacks them.
#[derive(Debug, Clone, Copy)]
struct Profiles {
    create: CreateProfile,
    delete: DeleteProfile,
}

impl Profiles {
    fn find() -> io::Result<Self> {
        let lacks = || io::Error::other("this system has no AppContainers");
        // SAFETY: a library of the system's own, which stays loaded, and names with their final zeroes; functions of these names
        // have the types above.
        unsafe {
            let library = LoadLibraryExW(
                w!("userenv.dll"),
                ptr::null_mut(),
                LOAD_LIBRARY_SEARCH_SYSTEM32,
            );
            if library.is_null() {
                return Err(io::Error::last_os_error());
            }

            let find = |name: PCSTR| -> FARPROC { GetProcAddress(library, name) };
            let create = find(s!("CreateAppContainerProfile")).ok_or_else(lacks)?;
            let delete = find(s!("DeleteAppContainerProfile")).ok_or_else(lacks)?;
            Ok(Self {
                create: transmute::<unsafe extern "system" fn() -> isize, CreateProfile>(create),
                delete: transmute::<unsafe extern "system" fn() -> isize, DeleteProfile>(delete),
            })
        }
    }

    fn remove(self, name: &[u16]) {
        // SAFETY: a text with its final zero, as all of `name_of`.
        let gone = unsafe { (self.delete)(name.as_ptr()) };
        if gone < 0 {
            tracing::debug!(why = said(gone), "a container is left");
        }
    }

    /// Removes containers that an earlier process has left, once for each prefix.
    fn sweep(self, prefix: &str) {
        static SWEPT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if !swept.insert(prefix.to_owned()) {
            return;
        }

        let entries = folders().and_then(|folders| fs::read_dir(folders).ok());
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some(name) = name.to_str().filter(|name| name.starts_with(prefix)) {
                self.remove(&sys::wide(name));
            }
        }
    }
}

/// A container. It is removed when this is dropped; nothing may run in it then.
pub(super) struct Container {
    profiles: Profiles,
    /// With its final zero.
    name: Vec<u16>,
    sid: PSID,
    /// The capabilities of what runs in it.
    granted: Vec<SID_AND_ATTRIBUTES>,
}

// SAFETY: what `sid` points to is read only, and given back once, when the container is dropped.
unsafe impl Send for Container {}
// SAFETY: as above.
unsafe impl Sync for Container {}

impl Container {
    /// Makes an empty container for the attempt in `dir`, and lets it read and write there. Its name is drawn, so that no other one
    /// has the rights of this one, also where its directory is still there. The first one for attempts beside `dir` also removes
    /// what a worker that was killed has left.
    ///
    /// # Errors
    /// If the system makes none, with the step that failed.
    pub(super) fn new(dir: &Path, network: bool) -> io::Result<Self> {
        let profiles = Profiles::find()?;
        let prefix = prefix_of(dir.parent().unwrap_or(dir));
        profiles.sweep(&prefix);

        let drawn = RandomState::new().hash_one(std::process::id());
        let name = sys::wide(format!("{prefix}{drawn:016x}"));
        let granted = granted(network);
        let mut sid: PSID = ptr::null_mut();

        // SAFETY: texts with their final zeroes, as many capabilities as is said, and a local.
        let made = unsafe {
            (profiles.create)(
                name.as_ptr(),
                name.as_ptr(),
                w!("A task of deskgrid"),
                first(&granted).cast_const(),
                granted.len() as u32,
                &raw mut sid,
            )
        };
        if made < 0 {
            let why = format!("no container can be made: {}", said(made));
            return Err(io::Error::other(why));
        }

        let container = Self {
            profiles,
            name,
            sid,
            granted,
        };
        let_into(dir, container.sid).map_err(|error| {
            let dir = dir.display();
            io::Error::other(format!("{dir} cannot be opened to a container: {error}"))
        })?;
        Ok(container)
    }

    /// Returns what a process in it may do beyond its files. It points into this container.
    pub(super) fn capabilities(&self) -> SECURITY_CAPABILITIES {
        SECURITY_CAPABILITIES {
            AppContainerSid: self.sid,
            Capabilities: first(&self.granted),
            CapabilityCount: self.granted.len() as u32,
            Reserved: 0,
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let profiles = self.profiles;
        let name = std::mem::take(&mut self.name);
        behind(move || profiles.remove(&name));
        // SAFETY: an identifier that the system made, given back once.
        unsafe { FreeSid(self.sid) };
    }
}

/// Returns where a list begins; null if it is empty.
fn first(listed: &[SID_AND_ATTRIBUTES]) -> *mut SID_AND_ATTRIBUTES {
    if listed.is_empty() {
        ptr::null_mut()
    } else {
        listed.as_ptr().cast_mut()
    }
}

/// Returns the capabilities of tasks with or without leave to use the network.
fn granted(network: bool) -> Vec<SID_AND_ATTRIBUTES> {
    let entry = |sid: &ShortSid| SID_AND_ATTRIBUTES {
        Sid: sid.as_system(),
        Attributes: ENABLED,
    };
    NETWORK.iter().filter(|_| network).map(entry).collect()
}

/// Returns what the names of containers begin with whose attempts lie in this directory.
fn prefix_of(place: &Path) -> String {
    let hash = blake3::hash(place.as_os_str().as_encoded_bytes()).to_hex();
    format!("deskgrid.{}.", &hash[..16])
}

/// Returns where the system keeps the folders of containers, named as they are: below `LOCALAPPDATA`.
fn folders() -> Option<PathBuf> {
    let local = std::env::var_os("LOCALAPPDATA")?;
    Some(Path::new(&local).join("Packages"))
}

/// Lets containers start programs in the session of the services, whose window station is opened to none of them; elsewhere
/// they may. Where the system refuses, programs with a window do not start in a container there, which a worker notices by its trial.
pub(super) fn open_session() {
    // SAFETY: neither handle is to be closed; both stay valid as long as the process.
    let (station, desktop) = unsafe {
        (
            GetProcessWindowStation(),
            GetThreadDesktop(GetCurrentThreadId()),
        )
    };

    for (handle, rights) in [(station, STATION), (desktop, DESKTOP)] {
        let rule = AccessRule {
            whose: ALL_CONTAINERS.as_system(),
            rights,
            inherited: 0,
        };
        if let Err(error) = add(handle.cast(), SE_WINDOW_OBJECT, &rule) {
            tracing::warn!(%error, "containers may not use the services' desktop: programs with a window do not start in them");
        }
    }
}

/// Lets a container read and write a directory and all in it.
fn let_into(dir: &Path, whose: PSID) -> io::Result<()> {
    let open = OpenOptions::new()
        .access_mode(FILE_GENERIC_READ | READ_CONTROL | WRITE_DAC)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
        .open(dir)?;
    let rule = AccessRule {
        whose,
        rights: OWN,
        inherited: SUB_CONTAINERS_AND_OBJECTS_INHERIT,
    };
    add(open.as_raw_handle(), SE_FILE_OBJECT, &rule)
}

/// A rule of an access list that allows something.
struct AccessRule {
    whose: PSID,
    rights: u32,
    inherited: u32,
}

/// Adds a rule to those of an object.
fn add(handle: HANDLE, kind: SE_OBJECT_TYPE, rule: &AccessRule) -> io::Result<()> {
    let entry = EXPLICIT_ACCESS_W {
        grfAccessPermissions: rule.rights,
        grfAccessMode: GRANT_ACCESS,
        grfInheritance: rule.inherited,
        Trustee: TRUSTEE_W {
            TrusteeForm: TRUSTEE_IS_SID,
            // Where the form is an identifier the system takes a pointer to one for the name.
            ptstrName: rule.whose.cast(),
            ..TRUSTEE_W::default()
        },
    };

    let checked = |code: u32| match i32::try_from(code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(io::Error::from_raw_os_error(code)),
        Err(_) => Err(io::Error::other(format!("error {code:#x}"))),
    };
    let mut before: *mut ACL = ptr::null_mut();
    let mut after: *mut ACL = ptr::null_mut();
    let mut descriptor = ptr::null_mut();
    let none = ptr::null_mut();

    // SAFETY: an open handle of this kind, and locals; `before` points into `descriptor`. What the system gave is given back.
    unsafe {
        checked(GetSecurityInfo(
            handle,
            kind,
            DACL_SECURITY_INFORMATION,
            none,
            none,
            &raw mut before,
            none.cast(),
            &raw mut descriptor,
        ))?;
        if before.is_null() {
            LocalFree(descriptor);
            let why = "everybody has all rights to it, so that a rule would take theirs away";
            return Err(io::Error::other(why));
        }
        let done = checked(SetEntriesInAclW(
            1,
            &raw const entry,
            before,
            &raw mut after,
        ))
        .and_then(|()| {
            checked(SetSecurityInfo(
                handle,
                kind,
                DACL_SECURITY_INFORMATION,
                ptr::null_mut(),
                ptr::null_mut(),
                after,
                ptr::null(),
            ))
        });
        LocalFree(after.cast());
        LocalFree(descriptor);
        done
    }
}

/// Explains a result of the system's for people.
fn said(result: HRESULT) -> String {
    let result = result.cast_unsigned();
    if result >> 16 == USUAL {
        let code = i32::from((result & 0xFFFF) as u16);
        io::Error::from_raw_os_error(code).to_string()
    } else {
        format!("result {result:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_a_container_is_added_to_a_directory_and_takes_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let_into(dir.path(), ALL_CONTAINERS.as_system()).unwrap();
        std::fs::write(dir.path().join("file"), "mine").unwrap();
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"mine");
    }

    #[test]
    fn names_of_containers_are_as_the_system_takes_them() {
        let prefix = prefix_of(Path::new(r"C:\ProgramData\deskgrid\worker\attempts"));
        let name = sys::wide(format!("{prefix}{:016x}", u64::MAX));
        let (end, letters) = name.split_last().unwrap();
        assert_eq!(*end, 0);
        let text = String::from_utf16(letters).unwrap();
        assert!(text.len() <= 64, "{text}");
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_. ".contains(letter);
        assert!(text.chars().all(fine), "{text}");
        assert_ne!(prefix, prefix_of(Path::new(r"C:\elsewhere")));
    }
}
