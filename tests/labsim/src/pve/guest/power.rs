//! Power of a guest, and what its agent says.
use super::conf;
use super::perms::{self, Scope};
use super::read::{agent_enabled, volumes};
use super::work::{self, FileLock, Work};
use super::{Guest, Run, disks, load_guest, pending};
use crate::pve::storage;
use crate::pve::{Auth, Call, Lab, PveError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long shutdown and reboot wait for the guest when nobody says, seconds (PVE::QemuServer::vm_shutdown).
const DEFAULT_TIMEOUT_S: u64 = 60;

fn guest(lab: &Lab, call: &Call) -> Result<Guest, PveError> {
    load_guest(lab, &call.arg("node"), call.vmid())
}

fn job<F>(lab: &Arc<Lab>, call: &Call, kind: &str, job: F) -> Result<Value, PveError>
where
    F: FnOnce(&Work) -> Result<(), PveError> + Send + 'static,
{
    Ok(json!(work::start(
        lab,
        &call.arg("node"),
        kind,
        call.vmid(),
        &call.auth,
        job
    )))
}

/// `POST .../status/start`.
pub fn start(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    guest(lab, call)?;
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    job(lab, call, "qmstart", move |work| {
        work.pause("qmstart")?;
        let _lock = FileLock::take(work.lab, work.vmid)?;
        start_now(work, skiplock)
    })
}

/// Starts the machine: applies what is pending, then looks at what it needs.
///
/// # Errors
/// 500: locked, template, running already, a bridge, volume or machine version that is not there.
pub fn start_now(work: &Work, skiplock: bool) -> Result<(), PveError> {
    let g = work.guest()?;
    let resumes = conf::text(&g.config, "lock") == Some("suspended");
    if !skiplock && !resumes {
        g.check_lock()?;
    }
    if g.template {
        return Err(PveError::die("you can't start a vm if it's a template"));
    }
    if g.run.is_some() {
        return Err(PveError::die(format!("VM {} already running", g.vmid)));
    }
    apply_pending(work)?;
    let g = work.guest()?;
    check_start(work, &g)?;
    let since_ms = work.lab.now_ms();
    work.edit(|g| {
        if resumes {
            g.config.shift_remove("lock");
            g.config.shift_remove("vmstate");
        }
        g.set_run(Some(Run {
            since_ms,
            ..Run::default()
        }));
        Ok(())
    })
}

/// Pending values of a guest that does not run, applied on behalf of the node itself.
fn apply_pending(work: &Work) -> Result<(), PveError> {
    let root = Auth {
        userid: "root@pam".to_string(),
        token: None,
    };
    let errors = pending::apply(
        work,
        &Scope {
            auth: &root,
            vmid: work.vmid,
            pool: None,
        },
    )?;
    errors.values().for_each(|e| work.log(e.clone()));
    Ok(())
}

fn check_start(work: &Work, g: &Guest) -> Result<(), PveError> {
    let hotplug = conf::text(&g.config, "hotplug").unwrap_or("");
    if hotplug.contains("memory") && !conf::is_on(&g.config, "numa") {
        return Err(PveError::die("NUMA needs to be enabled for memory hotplug"));
    }
    let count = |key: &str| {
        conf::text(&g.config, key)
            .and_then(|v| v.parse::<u64>().ok())
            .unwrap_or(1)
    };
    let most = work
        .lab
        .st()
        .nodes
        .iter()
        .find(|n| n.name == g.node)
        .map_or(u64::MAX, |n| n.maxcpu);
    if count("cores") * count("sockets") > most {
        return Err(PveError::die(format!(
            "MAX {most} vcpus allowed per VM on this node"
        )));
    }
    let machine = conf::parse_option("machine", conf::text(&g.config, "machine").unwrap_or("pc"))
        .and_then(|mut m| m.take("type"));
    if let Some(machine) = machine {
        let version = machine
            .split('+')
            .next()
            .and_then(|m| m.rsplit('-').next())
            .and_then(|v| v.split_once('.'));
        if let Some((major, _)) = version
            && major.parse::<u32>().is_ok_and(|m| m > 10)
        {
            let qemu = super::create::QEMU_VERSION;
            let node = &g.node;
            return Err(PveError::die(format!(
                "Installed QEMU version '{qemu}' is too old to run machine type '{machine}', please upgrade node '{node}'"
            )));
        }
    }
    for (key, id, _) in volumes(&g.config)
        .into_iter()
        .filter(|(k, _, _)| !k.starts_with("unused"))
    {
        let there = disks::volume_size(work.lab, &work.node, &id);
        storage::usable(&work.lab.st(), id.split(':').next().unwrap_or(""), &g.node)?;
        if let Err(e) = there {
            let text = if e.message.starts_with("failed to stat") {
                format!("volume '{id}' does not exist")
            } else {
                e.message
            };
            return Err(PveError::die(if key.starts_with("tpmstate") {
                format!("start failed: {text}")
            } else {
                text
            }));
        }
    }
    let st = work.lab.st();
    for (key, value) in g.config.iter().filter(|(k, _)| k.starts_with("net")) {
        let bridge = conf::parse_option(key, value.as_str().unwrap_or(""))
            .and_then(|mut p| p.take("bridge"));
        if let Some(bridge) = bridge
            && !st
                .nodes
                .iter()
                .any(|n| n.name == g.node && n.has_bridge(&bridge))
        {
            return Err(PveError::die(format!("bridge '{bridge}' does not exist")));
        }
    }
    Ok(())
}

/// Ends the machine and applies what was pending.
fn stop_now(work: &Work) -> Result<(), PveError> {
    work.edit(|g| {
        g.set_run(None);
        Ok(())
    })?;
    apply_pending(work)?;
    clean_up_after(work);
    Ok(())
}

/// `qm cleanup` of a stop takes the file lock and keeps it for a while, so that changes right after it fail
/// (docs/pve-running.md, rule 13: up to 30 s). Only if the world sets `timing.kinds.qmcleanup`.
fn clean_up_after(work: &Work) {
    let limit = work
        .lab
        .st()
        .timing
        .kinds
        .get("qmcleanup")
        .copied()
        .unwrap_or(0);
    let (lab, vmid) = (work.lab.clone(), work.vmid);
    if limit == 0 {
        return;
    }
    std::thread::spawn(move || {
        let Ok(_lock) = FileLock::take(&lab, vmid) else {
            return;
        };
        std::thread::sleep(Duration::from_millis(limit));
    });
}

/// `POST .../status/stop`: of a stopped guest it is fine as well.
pub fn stop(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    guest(lab, call)?;
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    job(lab, call, "qmstop", move |work| {
        work.pause("qmstop")?;
        let g = work.guest()?;
        if g.run.is_none() {
            return Ok(());
        }
        if !skiplock {
            g.check_lock()?;
        }
        let _lock = FileLock::take(work.lab, work.vmid)?;
        stop_now(work)
    })
}

/// Waits until a guest without a system gives up, or one with a system goes down.
fn powerdown(work: &Work, kind: &str, timeout_s: u64, force: bool) -> Result<(), PveError> {
    let g = work.guest()?;
    if g.guest_os && !g.run.as_ref().is_some_and(|r| r.paused) {
        return work.pause(kind);
    }
    let end = Instant::now() + Duration::from_secs(timeout_s);
    while Instant::now() < end && work.guest()?.run.is_some() {
        work.sleep(50)?;
    }
    if work.guest()?.run.is_none() {
        return Ok(());
    }
    if !force {
        return Err(PveError::die("VM quit/powerdown failed - got timeout"));
    }
    work.log("VM still running - terminating now with SIGTERM");
    Ok(())
}

/// `POST .../status/shutdown`; `forceStop` ends the machine when the time is over.
pub fn shutdown(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    guest(lab, call)?;
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    let timeout = call
        .int("timeout")
        .and_then(|t| u64::try_from(t).ok())
        .unwrap_or(DEFAULT_TIMEOUT_S);
    let force = call.flag("forceStop");
    job(lab, call, "qmshutdown", move |work| {
        let g = work.guest()?;
        if g.run.is_none() {
            return Ok(());
        }
        if !skiplock {
            g.check_lock()?;
        }
        powerdown(work, "qmshutdown", timeout, force)?;
        let _lock = FileLock::take(work.lab, work.vmid)?;
        stop_now(work)
    })
}

/// `POST .../status/reboot`: shuts down, applies what is pending, starts.
pub fn reboot(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    running(lab, call)?;
    let timeout = call
        .int("timeout")
        .and_then(|t| u64::try_from(t).ok())
        .unwrap_or(DEFAULT_TIMEOUT_S);
    job(lab, call, "qmreboot", move |work| {
        work.guest()?.check_lock()?;
        powerdown(work, "qmreboot", timeout, false)?;
        let _lock = FileLock::take(work.lab, work.vmid)?;
        stop_now(work)?;
        start_now(work, false)
    })
}

fn running(lab: &Lab, call: &Call) -> Result<Guest, PveError> {
    let g = guest(lab, call)?;
    if g.run.is_none() {
        return Err(PveError::die(format!("VM {} not running", g.vmid)));
    }
    Ok(g)
}

/// `POST .../status/reset`.
pub fn reset(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    running(lab, call)?;
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    job(lab, call, "qmreset", move |work| {
        if !skiplock {
            work.guest()?.check_lock()?;
        }
        work.pause("qmreset")
    })
}

/// `POST .../status/suspend`: pauses, or with `todisk` ends the machine and keeps its memory.
pub fn suspend(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    running(lab, call)?;
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    let todisk = call.flag("todisk");
    job(lab, call, "qmsuspend", move |work| {
        if !skiplock {
            work.guest()?.check_lock()?;
        }
        work.pause("qmsuspend")?;
        let _lock = FileLock::take(work.lab, work.vmid)?;
        work.edit(|g| {
            if todisk {
                g.set_run(None);
                g.config.insert("lock".to_string(), json!("suspended"));
            } else if let Some(run) = g.run.as_mut() {
                run.paused = true;
            }
            Ok(())
        })
    })
}

/// `POST .../status/resume`: of a guest suspended to disk it is a start.
pub fn resume(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let from_disk = conf::text(&g.config, "lock") == Some("suspended");
    if g.run.is_none() && !from_disk {
        return Err(PveError::die(format!("VM {} not running", g.vmid)));
    }
    job(lab, call, "qmresume", move |work| {
        work.pause("qmresume")?;
        let _lock = FileLock::take(work.lab, work.vmid)?;
        if from_disk {
            return start_now(work, true);
        }
        work.edit(|g| {
            if let Some(run) = g.run.as_mut() {
                run.paused = false;
            }
            Ok(())
        })
    })
}

/// The guest, if its agent answers.
fn agent(lab: &Lab, call: &Call) -> Result<Guest, PveError> {
    let g = guest(lab, call)?;
    if !agent_enabled(&g.config) {
        return Err(PveError::die("No QEMU guest agent configured"));
    }
    if g.run.is_none() {
        return Err(PveError::die(format!("VM {} is not running", g.vmid)));
    }
    if !g.guest_os || g.run.as_ref().is_some_and(|r| r.paused) {
        return Err(PveError::die("QEMU guest agent is not running"));
    }
    Ok(g)
}

/// `POST .../agent/ping`.
pub fn agent_ping(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    agent(lab, call).map(|_| json!({"result": {}}))
}

/// `GET .../agent/network-get-interfaces`.
pub fn agent_interfaces(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = agent(lab, call)?;
    let address = |text: &str| {
        let (ip, prefix) = text.split_once('/').unwrap_or((text, "24"));
        let kind = if ip.contains(':') { "ipv6" } else { "ipv4" };
        json!({"ip-address": ip, "ip-address-type": kind, "prefix": prefix.parse::<u32>().unwrap_or(24)})
    };
    let mut all = vec![
        json!({"name": "lo", "hardware-address": "00:00:00:00:00:00",
        "ip-addresses": [address("127.0.0.1/8"), address("::1/128")]}),
    ];
    for (n, key) in (0..32).map(|n| (n, format!("net{n}"))) {
        let mac = conf::text(&g.config, &key)
            .and_then(|v| conf::parse_option(&key, v))
            .and_then(|mut p| p.take("macaddr"));
        if let Some(mac) = mac {
            let ips = g
                .addresses
                .get(&key)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let ips: Vec<Value> = ips.iter().filter_map(Value::as_str).map(address).collect();
            all.push(json!({"name": format!("eth{n}"), "hardware-address": mac.to_lowercase(), "ip-addresses": ips}));
        }
    }
    Ok(json!({"result": all}))
}

/// `GET .../agent/get-osinfo`.
pub fn agent_osinfo(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    agent(lab, call).map(|_| json!({"result": {"id": "debian", "name": "Debian GNU/Linux", "version-id": "12", "machine": "x86_64"}}))
}

/// `GET .../agent/get-host-name`.
pub fn agent_host_name(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = agent(lab, call)?;
    Ok(json!({"result": {"host-name": conf::text(&g.config, "name").unwrap_or("localhost")}}))
}
