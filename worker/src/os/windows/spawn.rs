//! Starts a command, suspended and with three streams only, where asked in an AppContainer; and waits for its end. std starts no
//! command in a container. Thin wrappers; each says why it is sound.
#![allow(unsafe_code)] // Attributes of new processes are known to neither std nor a well-kept small crate.

use std::ffi::{OsString, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::PathBuf;
use std::ptr;

use tokio::sync::oneshot;
use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};
use windows_sys::Win32::System::Threading::{
    CREATE_UNICODE_ENVIRONMENT, CreateProcessW, DeleteProcThreadAttributeList,
    EXTENDED_STARTUPINFO_PRESENT, GetExitCodeProcess, INFINITE, InitializeProcThreadAttributeList,
    PROC_THREAD_ATTRIBUTE_HANDLE_LIST, PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES,
    PROCESS_INFORMATION, STARTF_USESTDHANDLES, STARTUPINFOEXW, UpdateProcThreadAttribute,
    WaitForSingleObject,
};

use super::arguments;
use super::container::Container;
use super::sys::{ProcessHandle, SUSPENDED_AND_IDLE, checked};

/// The stack of a thread that only waits, in bytes.
const SMALL_STACK: usize = 64 * 1024;

/// A command that was found, with all that it is given but its outputs.
#[derive(Debug)]
pub(super) struct FoundCommand {
    /// The program's file.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// The whole environment; of a name that comes twice the later value counts.
    pub env: Vec<(String, OsString)>,
    /// The directory in which it begins.
    pub dir: PathBuf,
    pub stdin: OwnedHandle,
}

/// Opens `NUL`: a stream from which nothing comes, and to which everything is lost.
pub(super) fn nowhere() -> io::Result<OwnedHandle> {
    let nul = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("NUL")?;
    Ok(nul.into())
}

/// Starts a command that waits to be resumed, by `CreateProcessW`.
///
/// # Errors
/// If the system starts none.
pub(super) fn spawn(
    command: &FoundCommand,
    outputs: [OwnedHandle; 2],
    container: Option<&Container>,
) -> io::Result<ProcessHandle> {
    let (program, mut line) = arguments::command_line(&command.program, &command.arguments)?;
    let env = arguments::environment(&command.env)?;
    let dir = arguments::ended(command.dir.as_os_str().encode_wide())?;
    let [stdout, stderr] = outputs;
    let streams = [
        command.stdin.as_raw_handle(),
        stdout.as_raw_handle(),
        stderr.as_raw_handle(),
    ];
    for stream in streams {
        // SAFETY: changes one mark of an open handle of ours.
        checked(unsafe { SetHandleInformation(stream, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT) })?;
    }

    // What the attributes point to is dropped after them.
    let capabilities = container.map(Container::capabilities);
    let mut attributes = AttributeList::new()?;
    let bytes = size_of_val(&streams);
    attributes.set(
        PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
        streams.as_ptr().cast(),
        bytes,
    )?;
    if let Some(capabilities) = &capabilities {
        let value = ptr::from_ref(capabilities).cast();
        let bytes = size_of_val(capabilities);
        attributes.set(PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES, value, bytes)?;
    }

    let mut startup = STARTUPINFOEXW::default();
    startup.StartupInfo.cb = size_of::<STARTUPINFOEXW>() as u32;
    startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
    [
        startup.StartupInfo.hStdInput,
        startup.StartupInfo.hStdOutput,
        startup.StartupInfo.hStdError,
    ] = streams;
    startup.lpAttributeList = attributes.as_system();
    let flags = SUSPENDED_AND_IDLE | EXTENDED_STARTUPINFO_PRESENT | CREATE_UNICODE_ENVIRONMENT;
    let mut born = MaybeUninit::<PROCESS_INFORMATION>::zeroed();

    // SAFETY: texts with their final zeroes, of which the line may be written to; the startup information says its own size, and
    // what it points to lives until the end of this function. The handles that come back are ours alone.
    unsafe {
        checked(CreateProcessW(
            program.as_ptr(),
            line.as_mut_ptr(),
            ptr::null(),
            ptr::null(),
            1,
            flags,
            env.as_ptr().cast(),
            dir.as_ptr(),
            (&raw const startup).cast(),
            born.as_mut_ptr(),
        ))?;
        let born = born.assume_init();
        drop(OwnedHandle::from_raw_handle(born.hThread));
        Ok(ProcessHandle::of(OwnedHandle::from_raw_handle(
            born.hProcess,
        )))
    }
}

/// The end of a process, which a thread waits for.
#[derive(Debug)]
pub(super) enum ProcessEnd {
    Awaited(oneshot::Receiver<u32>),
    /// The exit code; `None` if the system does not say it.
    Known(Option<u32>),
}

impl ProcessEnd {
    /// Begins to wait.
    ///
    /// # Errors
    /// If no thread can be had.
    pub(super) fn of(process: &ProcessHandle) -> io::Result<Self> {
        let process = process.again()?;
        let (tell, told) = oneshot::channel();

        let wait = move || {
            // SAFETY: an open handle, and a local.
            unsafe {
                WaitForSingleObject(process.raw(), INFINITE);
                let mut code = 0;
                if GetExitCodeProcess(process.raw(), &raw mut code) != 0 {
                    let _ = tell.send(code);
                }
            }
        };

        std::thread::Builder::new()
            .name("process end".to_owned())
            .stack_size(SMALL_STACK)
            .spawn(wait)?;
        Ok(Self::Awaited(told))
    }

    /// Waits for the exit code; `None` if the system does not say it. Safe to cancel, and to call again.
    pub(super) async fn code(&mut self) -> Option<u32> {
        let code = match self {
            Self::Awaited(told) => told.await.ok(),
            Self::Known(code) => *code,
        };
        *self = Self::Known(code);
        code
    }
}

/// Attributes of a process that is to be made.
struct AttributeList(Vec<u64>);

impl AttributeList {
    /// The number of attributes that it has room for.
    const MOST: u32 = 2;

    fn new() -> io::Result<Self> {
        let mut bytes = 0;
        // SAFETY: asks for the size only, and fails as documented.
        unsafe {
            InitializeProcThreadAttributeList(ptr::null_mut(), Self::MOST, 0, &raw mut bytes)
        };

        let mut list = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
        let to = list.as_mut_ptr().cast();
        // SAFETY: room of the size that the system asked for.
        checked(unsafe { InitializeProcThreadAttributeList(to, Self::MOST, 0, &raw mut bytes) })?;
        Ok(Self(list))
    }

    fn as_system(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Sets an attribute to a value that stays where it is until the process is made.
    fn set(&mut self, attribute: u32, value: *const c_void, bytes: usize) -> io::Result<()> {
        let attribute = attribute as usize;
        // SAFETY: an initialised list with room for it, and a value of the size that is said, which `spawn` keeps.
        checked(unsafe {
            UpdateProcThreadAttribute(
                self.as_system(),
                0,
                attribute,
                value,
                bytes,
                ptr::null_mut(),
                ptr::null(),
            )
        })
    }
}

impl Drop for AttributeList {
    fn drop(&mut self) {
        // SAFETY: an initialised list, which is not used any more.
        unsafe { DeleteProcThreadAttributeList(self.as_system()) };
    }
}
