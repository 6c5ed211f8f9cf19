//! The few system calls that std does not offer, each behind a safe function: processes and their
//! suspension, clocks, processor time, memory, power, input, and changes of a directory. Jobs are
//! in `job`.
#![allow(unsafe_code)] // Thin wrappers over windows-sys; every block says why it is sound.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    FILETIME, HANDLE, HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, NTSTATUS, SetHandleInformation,
    WAIT_FAILED,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_NOTIFY_CHANGE_DIR_NAME, FILE_NOTIFY_CHANGE_FILE_NAME, FindCloseChangeNotification,
    FindFirstChangeNotificationW, FindNextChangeNotification,
};
use windows_sys::Win32::System::Power::{GetSystemPowerStatus, SYSTEM_POWER_STATUS};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, RRF_RT_REG_DWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::SystemInformation::{
    GetTickCount, GetTickCount64, GlobalMemoryStatusEx, MEMORYSTATUSEX,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_SUSPENDED, GetCurrentProcess, GetProcessTimes, GetSystemTimes,
    IDLE_PRIORITY_CLASS, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SET_QUOTA,
    PROCESS_SUSPEND_RESUME, PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;
use windows_sys::Win32::UI::Input::KeyboardAndMouse::{GetLastInputInfo, LASTINPUTINFO};
use windows_sys::w;

/// The flags of a new command's process: suspended, without a window, at the lowest priority, which
/// its children inherit.
pub(super) const SUSPENDED_AND_IDLE: u32 =
    CREATE_SUSPENDED | CREATE_NO_WINDOW | IDLE_PRIORITY_CLASS;

// Not in the documentation of Windows, but unchanged since XP, and what its own tools use.
#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    fn NtSuspendProcess(process: HANDLE) -> NTSTATUS;
    fn NtResumeProcess(process: HANDLE) -> NTSTATUS;
}

/// A process that may be suspended, resumed, ended, and put into a job.
#[derive(Debug)]
pub(super) struct ProcessHandle(OwnedHandle);

impl ProcessHandle {
    /// The process that was just started, with all rights.
    pub(super) fn of(handle: OwnedHandle) -> Self {
        Self(handle)
    }

    pub(super) fn raw(&self) -> HANDLE {
        self.0.as_raw_handle()
    }

    /// Returns another handle of the same process.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

/// Opens the process with this number.
pub(super) fn open(id: u32) -> io::Result<ProcessHandle> {
    let rights = PROCESS_QUERY_LIMITED_INFORMATION
        | PROCESS_SET_QUOTA
        | PROCESS_SUSPEND_RESUME
        | PROCESS_TERMINATE;

    // SAFETY: numbers only; the handle is ours alone.
    unsafe { owned(OpenProcess(rights, 0, id)) }.map(ProcessHandle)
}

/// Turns a handle that the system has just made into ours: null is an error.
///
/// # Safety
/// A handle that is not null must be open, and nobody else's.
pub(super) unsafe fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Turns a result of the system's into ours: zero is an error.
pub(super) fn checked(done: i32) -> io::Result<()> {
    if done == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn told(status: NTSTATUS) -> io::Result<()> {
    if status < 0 {
        Err(io::Error::other(format!("status {status:#x}")))
    } else {
        Ok(())
    }
}

/// Suspends every thread of a process once more.
pub(super) fn suspend(process: &ProcessHandle) -> io::Result<()> {
    // SAFETY: an open handle with the right to do so.
    told(unsafe { NtSuspendProcess(process.raw()) })
}

/// Takes back one suspension of every thread.
pub(super) fn resume(process: &ProcessHandle) -> io::Result<()> {
    // SAFETY: an open handle with the right to do so.
    told(unsafe { NtResumeProcess(process.raw()) })
}

/// Kills one process with the exit code `code`.
pub(super) fn end(process: &ProcessHandle, code: u32) {
    // SAFETY: an open handle with the right to do so. If it has ended already, that is what was
    // wanted.
    unsafe { TerminateProcess(process.raw(), code) };
}

/// Keeps the worker's own standard handles from being inherited by every program that it starts.
pub(super) fn keep_standard_handles() {
    for handle in [
        io::stdin().as_raw_handle(),
        io::stdout().as_raw_handle(),
        io::stderr().as_raw_handle(),
    ] {
        // SAFETY: changes one mark of a handle; fails where there is none.
        unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) };
    }
}

/// Converts a time in units of 100 ns.
pub(super) fn ticks_of(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(100))
}

fn ticks(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}

/// Returns the time since the host was started, with suspensions of the host; in steps of some
/// milliseconds.
pub(crate) fn since_boot() -> common::Time {
    // SAFETY: takes nothing, and cannot fail.
    common::Time(unsafe { GetTickCount64() }.saturating_mul(1_000))
}

/// Returns the time since the host was started, without suspensions of the host.
pub(crate) fn awake() -> common::Span {
    let mut ticks = 0;
    // SAFETY: a pointer to a local.
    unsafe { QueryUnbiasedInterruptTime(&raw mut ticks) };
    common::Span(ticks / 10)
}

/// Returns the processor time that this process has used.
pub(super) fn own_cpu() -> Duration {
    // SAFETY: takes nothing; this process's own handle needs no closing.
    cpu(unsafe { GetCurrentProcess() })
}

/// Returns the processor time that a process has used, also after its end.
pub(super) fn cpu_of(process: &ProcessHandle) -> Duration {
    cpu(process.raw())
}

fn cpu(process: HANDLE) -> Duration {
    let [mut born, mut ended, mut kernel, mut user] = [FILETIME {
        dwLowDateTime: 0,
        dwHighDateTime: 0,
    }; 4];

    // SAFETY: both callers pass an open handle; pointers to locals, which stay zero where the
    // system does not say.
    unsafe {
        GetProcessTimes(
            process,
            &raw mut born,
            &raw mut ended,
            &raw mut kernel,
            &raw mut user,
        )
    };

    ticks_of(ticks(kernel) + ticks(user))
}

/// Returns the whole and the used time of all processors together, in units of 100 ns.
pub(super) fn processors() -> Option<(u64, u64)> {
    let [mut idle, mut kernel, mut user] = [FILETIME {
        dwLowDateTime: 0,
        dwHighDateTime: 0,
    }; 3];
    // SAFETY: pointers to locals.
    let known = unsafe { GetSystemTimes(&raw mut idle, &raw mut kernel, &raw mut user) };
    // What is idle is counted to the kernel's, too.
    let total = ticks(kernel) + ticks(user);
    (known != 0).then(|| (total, total.saturating_sub(ticks(idle))))
}

/// Returns the host's memory in bytes: the whole, and the part available to programs.
pub(super) fn memory() -> Option<(u64, u64)> {
    // SAFETY: a struct of numbers, of which zeroes are a valid value; it says its own size, and is
    // a local.
    unsafe {
        let mut status: MEMORYSTATUSEX = MaybeUninit::zeroed().assume_init();
        status.dwLength = size_of::<MEMORYSTATUSEX>() as u32;
        (GlobalMemoryStatusEx(&raw mut status) != 0)
            .then_some((status.ullTotalPhys, status.ullAvailPhys))
    }
}

/// The highest clock of a processor, in MHz, and the memory, in MiB; zero where the system does not
/// say.
pub(crate) fn clock_and_memory() -> (u64, u64) {
    let mut clock = 0_u32;
    let mut size = size_of::<u32>() as u32;
    let key = w!(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0");

    // SAFETY: two strings with their final zeroes, a local of the asked type, and its size.
    let failed = unsafe {
        let to = (&raw mut clock).cast();
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            w!("~MHz"),
            RRF_RT_REG_DWORD,
            ptr::null_mut(),
            to,
            &raw mut size,
        )
    };
    let clock = if failed == 0 { clock } else { 0 };

    (clock.into(), memory().map_or(0, |(total, _)| total >> 20))
}

/// Returns a text as the system reads it: in UTF-16, with a final zero.
pub(super) fn wide(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}

/// Whether the system starts a program at each logon: the entry `entry` of `Run`.
pub(crate) fn starts_at_logon(entry: &str) -> bool {
    let entry = wide(entry);
    let key = w!(r"SOFTWARE\Microsoft\Windows\CurrentVersion\Run");
    let nothing = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: two strings with their final zeroes; nothing is to be written.
    let failed = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            entry.as_ptr(),
            RRF_RT_REG_SZ,
            nothing.0,
            nothing.1,
            nothing.2,
        )
    };
    failed == 0
}

/// Returns the three bytes of the system's power status: mains, the battery's flags, and its charge
/// in percent.
pub(super) fn power() -> Option<(u8, u8, u8)> {
    let mut status = MaybeUninit::<SYSTEM_POWER_STATUS>::zeroed();
    // SAFETY: a local; zeroes are a valid value of it.
    unsafe {
        if GetSystemPowerStatus(status.as_mut_ptr()) == 0 {
            return None;
        }
        let status = status.assume_init();
        Some((
            status.ACLineStatus,
            status.BatteryFlag,
            status.BatteryLifePercent,
        ))
    }
}

/// Returns the session of this process; 0 is that of the services.
pub(crate) fn session() -> Option<u32> {
    let mut session = 0;
    // SAFETY: a pointer to a local.
    let known = unsafe { ProcessIdToSessionId(std::process::id(), &raw mut session) };
    (known != 0).then_some(session)
}

/// Returns the time of the session's last input, and the present time, by the system's 32-bit count
/// of milliseconds. The present time is read last.
pub(super) fn last_input() -> Option<(u32, u32)> {
    let mut info = LASTINPUTINFO {
        cbSize: size_of::<LASTINPUTINFO>() as u32,
        dwTime: 0,
    };
    // SAFETY: a local that says its own size.
    unsafe { (GetLastInputInfo(&raw mut info) != 0).then(|| (info.dwTime, GetTickCount())) }
}

/// Moves the mouse by nothing much, as its owner would.
#[cfg(test)]
pub(crate) fn nudge_mouse() {
    use windows_sys::Win32::UI::Input::KeyboardAndMouse::{
        INPUT, INPUT_0, INPUT_MOUSE, MOUSEEVENTF_MOVE, MOUSEINPUT, SendInput,
    };

    let mouse = MOUSEINPUT {
        dx: 1,
        dy: 1,
        mouseData: 0,
        dwFlags: MOUSEEVENTF_MOVE,
        time: 0,
        dwExtraInfo: 0,
    };
    let input = INPUT {
        r#type: INPUT_MOUSE,
        Anonymous: INPUT_0 { mi: mouse },
    };

    // SAFETY: one local of the size that is said.
    unsafe { SendInput(1, &raw const input, size_of::<INPUT>() as i32) };
}

/// A watch of the names that come and go in a directory.
#[derive(Debug)]
pub(super) struct Changes(HANDLE);

// SAFETY: the handle is a number that any thread may wait for and close; only `drop` closes it.
unsafe impl Send for Changes {}

impl Changes {
    /// Watches `dir` from now on.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let name = wide(dir);
        let names = FILE_NOTIFY_CHANGE_FILE_NAME | FILE_NOTIFY_CHANGE_DIR_NAME;
        // SAFETY: a string with its final zero, and numbers.
        let handle = unsafe { FindFirstChangeNotificationW(name.as_ptr(), 0, names) };
        if handle == INVALID_HANDLE_VALUE {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self(handle))
        }
    }

    /// Waits for a change since the last wait, or until the time is over.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let timeout = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1);
        // SAFETY: an open handle.
        unsafe {
            if WaitForSingleObject(self.0, timeout) == WAIT_FAILED
                || FindNextChangeNotification(self.0) == 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // SAFETY: our own handle, closed once.
        unsafe { FindCloseChangeNotification(self.0) };
    }
}
