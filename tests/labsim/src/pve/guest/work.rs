//! What runs on behalf of a guest: the file lock of its configuration, and work inside or outside of a task.
use super::Guest;
use crate::pve::tasks::{TaskCtx, spawn_task};
use crate::pve::{Auth, Lab, PveError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a request waits for a configuration's file lock, milliseconds (PVE::AbstractConfig: 10 s); a world may set
/// `timing.kinds.flock`.
const LOCK_TIMEOUT_MS: u64 = 10_000;

/// The file lock of a guest's configuration, held until it is dropped.
pub struct FileLock {
    lab: Arc<Lab>,
    vmid: u32,
}

impl FileLock {
    /// Takes the lock, waiting as long as the server does.
    ///
    /// # Errors
    /// 500 `can't lock file '/var/lock/qemu-server/lock-N.conf' - got timeout`.
    pub fn take(lab: &Arc<Lab>, vmid: u32) -> Result<FileLock, PveError> {
        let limit = lab
            .st()
            .timing
            .kinds
            .get("flock")
            .copied()
            .unwrap_or(LOCK_TIMEOUT_MS);
        let start = Instant::now();
        loop {
            if let Some(guest) = lab.st().guests.get_mut(&vmid) {
                if !guest.flock {
                    guest.flock = true;
                    return Ok(FileLock {
                        lab: lab.clone(),
                        vmid,
                    });
                }
            } else {
                // Nothing to lock yet: whoever asks finds out by itself that there is no such guest.
                return Ok(FileLock {
                    lab: lab.clone(),
                    vmid,
                });
            }
            if start.elapsed() >= Duration::from_millis(limit) {
                return Err(PveError::die(format!(
                    "can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Some(guest) = self.lab.st().guests.get_mut(&self.vmid) {
            guest.flock = false;
        }
    }
}

/// Work for a guest: inside a task it has a log and can be stopped, outside it has neither.
pub struct Work<'a> {
    /// The cluster.
    pub lab: &'a Arc<Lab>,
    /// The task, if this is one.
    pub task: Option<&'a TaskCtx>,
    /// The node that does it.
    pub node: String,
    /// Who asked for it.
    pub auth: Auth,
    /// The guest.
    pub vmid: u32,
}

impl Work<'_> {
    /// Adds a line to the task's log.
    pub fn log(&self, line: impl Into<String>) {
        if let Some(task) = self.task {
            task.log(line);
        }
    }

    /// Waits.
    ///
    /// # Errors
    /// `received interrupt` when the task is stopped.
    pub fn sleep(&self, ms: u64) -> Result<(), PveError> {
        match self.task {
            Some(task) => task.sleep(ms).map_err(PveError::die),
            None => {
                std::thread::sleep(Duration::from_millis(ms));
                Ok(())
            }
        }
    }

    /// Waits as long as a task of that type takes.
    ///
    /// # Errors
    /// As [`Work::sleep`].
    pub fn pause(&self, kind: &str) -> Result<(), PveError> {
        self.sleep(self.lab.task_ms(kind))
    }

    /// A copy of the guest as it is now.
    ///
    /// # Errors
    /// 500 `Configuration file '...' does not exist`.
    pub fn guest(&self) -> Result<Guest, PveError> {
        super::load_guest(self.lab, &self.node, self.vmid)
    }

    /// Changes the guest; nobody else does meanwhile. Written configurations lose `unusedN` that are used again.
    ///
    /// # Errors
    /// 500 if it is gone, and what `change` returns.
    pub fn edit<T>(
        &self,
        change: impl FnOnce(&mut Guest) -> Result<T, PveError>,
    ) -> Result<T, PveError> {
        let mut st = self.lab.st();
        let guest = st
            .guests
            .get_mut(&self.vmid)
            .ok_or_else(|| super::missing(&self.node, self.vmid))?;
        let out = change(guest)?;
        super::conf::drop_used_unused(&mut guest.config);
        guest.template = super::conf::is_on(&guest.config, "template");
        Ok(out)
    }
}

/// Runs work as a task of the given type and returns its UPID. Several lines of an error become one, as the log shows it.
pub fn start<F>(lab: &Arc<Lab>, node: &str, kind: &str, vmid: u32, auth: &Auth, job: F) -> String
where
    F: FnOnce(&Work) -> Result<(), PveError> + Send + 'static,
{
    let (place, who) = (node.to_string(), auth.clone());
    spawn_task(lab, node, kind, &vmid.to_string(), auth, move |ctx| {
        let work = Work {
            lab: &ctx.lab,
            task: Some(ctx),
            node: place,
            auth: who,
            vmid,
        };
        job(&work).map_err(|e| one_line(&e))
    })
}

/// An error as a task ends with it.
pub fn one_line(error: &PveError) -> String {
    error
        .nested()
        .lines()
        .map(str::trim_end)
        .filter(|l| !l.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
