//! A Job Object: what holds a command and everything that it starts. Thin wrappers; each says why
//! it is sound.
#![allow(unsafe_code)] // Job Objects are known to neither std nor a well-kept small crate.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr;
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_MORE_DATA, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_LIMIT_PRIORITY_CLASS,
    JOB_OBJECT_UILIMIT_DESKTOP, JOB_OBJECT_UILIMIT_DISPLAYSETTINGS, JOB_OBJECT_UILIMIT_EXITWINDOWS,
    JOB_OBJECT_UILIMIT_GLOBALATOMS, JOB_OBJECT_UILIMIT_HANDLES, JOB_OBJECT_UILIMIT_READCLIPBOARD,
    JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS, JOB_OBJECT_UILIMIT_WRITECLIPBOARD,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_BASIC_PROCESS_ID_LIST,
    JOBOBJECT_BASIC_UI_RESTRICTIONS, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
    JobObjectBasicAccountingInformation, JobObjectBasicProcessIdList, JobObjectBasicUIRestrictions,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::Threading::IDLE_PRIORITY_CLASS;

use super::load;
use super::sys::{ProcessHandle, checked, owned, ticks_of};
use crate::os::AttemptLimits;

/// The number of processes that a look expects; more only cost a second look.
const EXPECTED: usize = 64;

/// The job of one attempt. When the last handle is closed, however this process ends, everything in
/// it is killed.
#[derive(Debug)]
pub(super) struct JobObject {
    handle: OwnedHandle,
    number: u64,
}

/// The usage by the processes of a job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    /// The number of live processes.
    pub processes: u32,
    /// Processor time of all processes that were ever in it.
    pub cpu: Duration,
}

impl JobObject {
    /// Makes an empty job. It must end with the worker; `limits` that the system refuses are only
    /// logged.
    pub(super) fn new(limits: AttemptLimits) -> io::Result<Self> {
        // SAFETY: neither a name nor rights are passed; the handle is ours alone.
        let handle = unsafe { owned(CreateJobObjectW(ptr::null(), ptr::null()))? };
        let job = Self {
            number: load::enter(&handle)?,
            handle,
        };
        if let Err(error) = job.limit(limits, true) {
            tracing::debug!(%error, "the system does not take every limit of a job");
            job.limit(limits, false)?;
        }

        let forbidden = JOB_OBJECT_UILIMIT_DESKTOP
            | JOB_OBJECT_UILIMIT_DISPLAYSETTINGS
            | JOB_OBJECT_UILIMIT_EXITWINDOWS
            | JOB_OBJECT_UILIMIT_GLOBALATOMS
            | JOB_OBJECT_UILIMIT_HANDLES
            | JOB_OBJECT_UILIMIT_READCLIPBOARD
            | JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS
            | JOB_OBJECT_UILIMIT_WRITECLIPBOARD;

        let forbidden = JOBOBJECT_BASIC_UI_RESTRICTIONS {
            UIRestrictionsClass: forbidden,
        };
        if let Err(error) = job.set(JobObjectBasicUIRestrictions, &forbidden) {
            tracing::debug!(%error, "the system does not keep a job from the desktop");
        }

        Ok(job)
    }

    fn limit(&self, limits: AttemptLimits, all: bool) -> io::Result<()> {
        // SAFETY: a struct of numbers, of which all zeroes are a valid value.
        let mut info: JOBOBJECT_EXTENDED_LIMIT_INFORMATION =
            unsafe { MaybeUninit::zeroed().assume_init() };

        let basic = &mut info.BasicLimitInformation;
        basic.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        if all {
            basic.LimitFlags |=
                JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION | JOB_OBJECT_LIMIT_PRIORITY_CLASS;
            basic.PriorityClass = IDLE_PRIORITY_CLASS;
            if let Some(most) = limits.processes {
                basic.LimitFlags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
                basic.ActiveProcessLimit = u32::try_from(most).unwrap_or(u32::MAX);
            }
            if let Some(bytes) = limits.memory {
                basic.LimitFlags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
                info.JobMemoryLimit = usize::try_from(bytes).unwrap_or(usize::MAX);
            }
        }

        self.set(JobObjectExtendedLimitInformation, &info)
    }

    fn set<T>(&self, class: JOBOBJECTINFOCLASS, info: &T) -> io::Result<()> {
        let size = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
        // SAFETY: our own job, and a struct of the class's type, which the callers in this file
        // pair.
        checked(unsafe {
            SetInformationJobObject(self.raw(), class, ptr::from_ref(info).cast(), size)
        })
    }

    fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }

    /// Puts a process into the job; every process that it starts is in the job from birth.
    pub(super) fn take(&self, process: &ProcessHandle) -> io::Result<()> {
        // SAFETY: two handles that are open.
        checked(unsafe { AssignProcessToJobObject(self.raw(), process.raw()) })
    }

    /// Kills every process in it with this exit code.
    pub(super) fn end(&self, code: u32) {
        // SAFETY: our own handle. Where nothing is left to end, that is what was wanted.
        unsafe { TerminateJobObject(self.raw(), code) };
    }

    /// Returns the processes that are in it now, by process id.
    pub(super) fn members(&self) -> io::Result<Vec<u32>> {
        const HEAD: usize =
            offset_of!(JOBOBJECT_BASIC_PROCESS_ID_LIST, ProcessIdList) / size_of::<usize>();

        let mut room = EXPECTED;
        loop {
            let mut space = vec![0_usize; HEAD + room];
            let size = u32::try_from(size_of_val(&*space)).map_err(io::Error::other)?;
            let class = JobObjectBasicProcessIdList;
            let to = space.as_mut_ptr();

            // SAFETY: the space is as big as is said, aligned, and initialised.
            let done = checked(unsafe {
                QueryInformationJobObject(self.raw(), class, to.cast(), size, ptr::null_mut())
            });
            match done {
                Err(error) if error.raw_os_error() == Some(ERROR_MORE_DATA as i32) => room *= 4,
                Err(error) => return Err(error),
                Ok(()) => {
                    // SAFETY: the space begins with two numbers of 32 bits, of which the second
                    // counts what follows.
                    let listed = unsafe { space.as_ptr().cast::<u32>().add(1).read() } as usize;
                    let ids = space[HEAD..].iter().take(listed);
                    return Ok(ids.filter_map(|id| u32::try_from(*id).ok()).collect());
                }
            }
        }
    }

    /// Returns the usage by its processes, and the number of live ones.
    pub(super) fn used(&self) -> Used {
        used(&self.handle)
    }
}

impl Drop for JobObject {
    fn drop(&mut self) {
        load::leave(self.number, used(&self.handle).cpu);
    }
}

/// Returns the usage by the processes of a job; zero if the system does not report it.
pub(super) fn used(job: &OwnedHandle) -> Used {
    let mut info = MaybeUninit::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>::zeroed();
    let class = JobObjectBasicAccountingInformation;
    let size = size_of_val(&info) as u32;

    // SAFETY: an open handle and a local of the class's type; zeroes are a valid value of it.
    let info = unsafe {
        let to = info.as_mut_ptr().cast();
        if QueryInformationJobObject(job.as_raw_handle(), class, to, size, ptr::null_mut()) == 0 {
            return Used::default();
        }
        info.assume_init()
    };
    let ticks = u64::try_from(info.TotalUserTime + info.TotalKernelTime).unwrap_or(0);

    Used {
        processes: info.ActiveProcesses,
        cpu: ticks_of(ticks),
    }
}
