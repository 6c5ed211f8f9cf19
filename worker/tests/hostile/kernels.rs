//! What the kernel keeps for programs that share it by number or name: made for hostile tasks to
//! reach, and removed.
#![allow(unsafe_code)] // System calls that no library has a safe form of; nothing shared is ever read or written.

use super::acts::queue;

/// Makes a segment of shared memory that every account may use.
pub(crate) fn share(key: libc::key_t) {
    // SAFETY: makes a segment, and attaches nothing.
    let id = unsafe { libc::shmget(key, 4_096, libc::IPC_CREAT | 0o666) };
    assert!(id >= 0, "{}", std::io::Error::last_os_error());
}

/// Removes what there is of this key; whether there was something.
pub(crate) fn remove(key: libc::key_t) -> bool {
    // SAFETY: finds and removes things of the kernel's; the name is a string.
    unsafe {
        let none = std::ptr::null_mut();
        let memory = libc::shmget(key, 0, 0);
        let messages = libc::msgget(key, 0);
        let semaphores = libc::semget(key, 0, 0);
        let removed = [
            memory >= 0 && libc::shmctl(memory, libc::IPC_RMID, none) == 0,
            messages >= 0 && libc::msgctl(messages, libc::IPC_RMID, std::ptr::null_mut()) == 0,
            semaphores >= 0 && libc::semctl(semaphores, 0, libc::IPC_RMID) == 0,
            libc::mq_unlink(queue(key).as_ptr()) == 0,
        ];
        removed.contains(&true)
    }
}
