//! PUT and POST config, PUT unlink: the request is checked whole, stored as pending, then applied as far as can be.
use super::conf::{self, Options, Pending};
use super::perms::{self, Scope};
use super::work::{self, FileLock, Work};
use super::{drive, hotplug, new_uuid, newdisks, pending};
use crate::pve::propstr;
use crate::pve::storage;
use crate::pve::{Call, Lab, PveError, State};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parameters of the request that are no options.
const CONTROL: [&str; 9] = [
    "node",
    "vmid",
    "digest",
    "delete",
    "revert",
    "skiplock",
    "force",
    "background_delay",
    "import-working-storage",
];

/// A change of a guest, taken apart.
struct Change {
    node: String,
    vmid: u32,
    options: Options,
    delete: Vec<String>,
    revert: BTreeSet<String>,
    force: bool,
    skiplock: bool,
    digest: Option<String>,
    working: Option<String>,
    /// The request as the task's log shows it.
    words: String,
}

/// `PUT config`: answers when it is done.
pub fn put(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    run(lab, call, call.params.clone(), true)
}

/// `POST config`: a task, unless it ends within `background_delay` seconds.
pub fn post(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    run(lab, call, call.params.clone(), false)
}

/// `PUT unlink`: a `delete` of the disks named.
pub fn unlink(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut params = call.params.clone();
    let list = params.shift_remove("idlist").unwrap_or_default();
    params.insert("delete".to_string(), list);
    run(lab, call, params, true)
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_string)
}

fn run(
    lab: &Arc<Lab>,
    call: &Call,
    params: Map<String, Value>,
    sync: bool,
) -> Result<Value, PveError> {
    let change = read(lab, call, params)?;
    let scope = Scope {
        auth: &call.auth,
        vmid: change.vmid,
        pool: None,
    };
    check(lab, &scope, &change)?;
    // A missing guest is told apart before anybody waits for its lock.
    super::load_guest(lab, &change.node, change.vmid)?;
    let lock = FileLock::take(lab, change.vmid)?;
    let guest = super::load_guest(lab, &change.node, change.vmid)?;
    if change.digest.as_ref().is_some_and(|d| *d != guest.digest()) {
        return Err(PveError::die(
            "checksum mismatch (file change by other user?)",
        ));
    }
    if !change.skiplock {
        guest.check_lock()?;
    }
    check_balloon(&change.options, &guest.config, &guest.pending)?;
    if sync {
        let work = Work {
            lab,
            task: None,
            node: change.node.clone(),
            auth: call.auth.clone(),
            vmid: change.vmid,
        };
        let result = apply(&work, change);
        drop(lock);
        return result.map(|()| Value::Null);
    }
    let delay = call.int("background_delay").filter(|d| *d > 0);
    let (node, vmid) = (change.node.clone(), change.vmid);
    let upid = work::start(lab, &node, "qmconfig", vmid, &call.auth, move |work| {
        let _lock = lock;
        work.log(format!("update VM {vmid}: {}", change.words));
        work.pause("qmconfig")?;
        apply(work, change)
    });
    if let Some(seconds) = delay {
        let end = Instant::now() + Duration::from_secs(seconds.unsigned_abs());
        while Instant::now() < end {
            match lab.tasks.get(&upid).and_then(|t| t.exitstatus()) {
                Some(status) if status == "OK" => return Ok(Value::Null),
                Some(_) => break,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    Ok(json!(upid))
}

fn read(lab: &Arc<Lab>, call: &Call, params: Map<String, Value>) -> Result<Change, PveError> {
    let control = |key: &str| params.get(key).map(text_of);
    let mut options: Options = params
        .iter()
        .filter(|(k, _)| !CONTROL.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), json!(text_of(v))))
        .collect();
    let mut words: Vec<(String, String)> = params
        .iter()
        .filter(|(k, _)| !["node", "vmid", "digest", "background_delay"].contains(&k.as_str()))
        .map(|(k, v)| {
            (
                k.clone(),
                if k == "cipassword" {
                    "<hidden>".to_string()
                } else {
                    text_of(v)
                },
            )
        })
        .collect();
    words.sort();
    let skiplock = perms::skiplock(&call.auth, &params)?;
    if let Some(keys) = conf::text(&options, "sshkeys") {
        super::create::check_ssh_keys(keys)?;
    }
    let delete_text = control("delete").unwrap_or_default();
    let revert_text = control("revert").unwrap_or_default();
    if options.is_empty() && delete_text.is_empty() && revert_text.is_empty() {
        return Err(PveError::die("no options specified"));
    }
    if let Some(cdrom) = options.shift_remove("cdrom") {
        options.insert(
            "ide2".to_string(),
            json!(format!("{},media=cdrom", text_of(&cdrom))),
        );
    }
    let mut revert = BTreeSet::new();
    for key in propstr::split_list(&revert_text) {
        if !conf::option_exists(key) {
            return Err(PveError::param("revert", format!("unknown option '{key}'")));
        }
        if options.contains_key(key) {
            return Err(PveError::param(
                "delete",
                format!("you can't use '-{key}' and -revert {key}' at the same time"),
            ));
        }
        revert.insert(key.to_string());
    }
    let mut delete = Vec::new();
    for key in propstr::split_list(&delete_text) {
        let key = if key == "cdrom" { "ide2" } else { key };
        if options.contains_key(key) {
            return Err(PveError::param(
                "delete",
                format!("you can't use '-{key}' and -delete {key}' at the same time"),
            ));
        }
        if revert.contains(key) {
            return Err(PveError::param(
                "revert",
                format!("you can't use '-delete {key}' and '-revert {key}' at the same time"),
            ));
        }
        if !conf::option_exists(key) {
            return Err(PveError::param("delete", format!("unknown option '{key}'")));
        }
        delete.push(key.to_string());
    }
    let change = Change {
        node: call.arg("node"),
        vmid: call.vmid(),
        options,
        delete,
        revert,
        force: control("force").as_deref() == Some("1"),
        skiplock,
        digest: control("digest").filter(|d| !d.is_empty()),
        working: control("import-working-storage"),
        words: words
            .iter()
            .map(|(k, v)| format!("-{k} {v}"))
            .collect::<Vec<_>>()
            .join(" "),
    };
    complete(lab, change)
}

/// Fills in what the server makes up (MACs, a new generation id) and refuses malformed drives.
fn complete(lab: &Arc<Lab>, mut change: Change) -> Result<Change, PveError> {
    let keys: Vec<String> = change.options.keys().cloned().collect();
    for key in keys {
        let value = text_of(&change.options[&key]);
        let new = if drive::is_drive(&key) {
            newdisks::clean(&lab.st(), &key, &value)?
        } else if is_net(&key) {
            super::with_mac(lab, &key, &value)
        } else if key == "vmgenid" && value == "1" {
            new_uuid(lab)
        } else if key == "hookscript" {
            check_hookscript(&lab.st(), &change.node, &value)?;
            value
        } else {
            let st = lab.st();
            conf::normalise(&key, &value, &st.options).map_err(PveError::die)?
        };
        change.options.insert(key, json!(new));
    }
    Ok(change)
}

fn is_net(key: &str) -> bool {
    key.strip_prefix("net")
        .is_some_and(|n| n.parse::<u32>().is_ok())
}

fn check_hookscript(st: &State, node: &str, volid: &str) -> Result<(), PveError> {
    use std::os::unix::fs::PermissionsExt;
    let volume = storage::parse_volid(st, volid)?;
    let fails = |why: &str| {
        Err(PveError::param(
            "hookscript",
            format!("script '{volid}' {why}\n"),
        ))
    };
    if volume.vtype != "snippets" {
        return Err(PveError::param(
            "hookscript",
            format!("'{volid}' is not in the snippets directory\n"),
        ));
    }
    match std::fs::metadata(storage::path_of(st, node, volid)?) {
        Err(_) => fails("does not exist"),
        Ok(meta) if meta.permissions().mode() & 0o111 == 0 => fails("is not executable"),
        Ok(_) => Ok(()),
    }
}

/// The checks that come before anything is stored.
fn check(lab: &Arc<Lab>, scope: &Scope, change: &Change) -> Result<(), PveError> {
    let st = lab.st();
    scope.options(&st, change.delete.iter().map(String::as_str))?;
    scope.options(&st, change.options.keys().map(String::as_str))?;
    scope.storages(&st, &change.options, change.working.as_deref())?;
    let nets = change.options.iter().filter(|(k, _)| is_net(k));
    for (_, value) in nets {
        scope.bridge(&st, value.as_str().unwrap_or(""))?;
    }
    if let Some(guest) = st.guests.get(&change.vmid) {
        let touched = change
            .options
            .keys()
            .chain(&change.delete)
            .filter(|k| is_net(k));
        for old in touched.filter_map(|k| conf::text(&guest.config, k)) {
            scope.bridge(&st, old)?;
        }
    }
    Ok(())
}

fn check_balloon(options: &Options, config: &Options, waiting: &Options) -> Result<(), PveError> {
    if !options.contains_key("memory") && !options.contains_key("balloon") {
        return Ok(());
    }
    let number = |key: &str| {
        let value = [options, waiting, config]
            .iter()
            .find_map(|o| conf::text(o, key))?;
        let inner = conf::parse_option(key, value).and_then(|mut p| p.take("current"));
        inner
            .unwrap_or_else(|| value.to_string())
            .parse::<u64>()
            .ok()
    };
    if number("balloon").unwrap_or(0) > number("memory").unwrap_or(512) {
        return Err(PveError::die(
            "balloon value too large (must be smaller than assigned memory)",
        ));
    }
    Ok(())
}

fn apply(work: &Work, mut change: Change) -> Result<(), PveError> {
    let scope = Scope {
        auth: &work.auth,
        vmid: work.vmid,
        pool: None,
    };
    let guest = work.guest()?;
    for key in std::mem::take(&mut change.revert) {
        if let Some(value) = guest.config.get(&key) {
            change.options.insert(key, value.clone());
        } else if guest.pending.contains_key(&key) {
            change.delete.push(key);
        }
    }
    let mut order = conf::boot_order(&guest.config);
    let mut touched = BTreeSet::new();
    for key in &change.delete {
        if delete(work, &scope, &change, key, &mut order)? {
            touched.insert(key.clone());
            touched.insert("boot".to_string());
        }
    }
    let mut keys: Vec<&String> = change.options.keys().collect();
    keys.sort();
    for key in keys {
        touched.insert(key.clone());
        store(work, &scope, &change, key, &mut order)?;
    }
    work.edit(|g| {
        conf::cleanup_pending(&g.config, &mut g.pending);
        Ok(())
    })?;
    let guest = work.guest()?;
    if guest.pending.is_empty() {
        return Ok(());
    }
    let errors = if guest.run.is_some() {
        hotplug::apply(work, &scope, &touched)?
    } else {
        pending::apply(work, &scope)?
    };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(PveError::params(errors))
    }
}

fn delete(
    work: &Work,
    scope: &Scope,
    change: &Change,
    key: &str,
    order: &mut Vec<String>,
) -> Result<bool, PveError> {
    let guest = work.guest()?;
    let waiting = match conf::pending(&guest.pending, key) {
        Pending::Value(v) => Some(v.to_string()),
        _ => None,
    };
    let Some(value) = conf::text(&guest.config, key)
        .map(str::to_string)
        .or_else(|| waiting.clone())
    else {
        work.log(format!(
            "cannot delete '{key}' - not set in current configuration!"
        ));
        return Ok(false);
    };
    let protected = |what: String| match conf::is_on(&guest.config, "protection") {
        true => Err(PveError::die(format!(
            "can't remove {what} - protection mode enabled"
        ))),
        false => Ok(()),
    };
    if key.starts_with("unused") {
        protected(format!("unused disk '{value}'"))?;
        scope.check(&work.lab.st(), &["VM.Config.Disk"])?;
        let volid = conf::parse_option(key, &value)
            .and_then(|mut p| p.take("file"))
            .unwrap_or(value);
        pending::deallocate(work, scope, &guest, key, &volid)?;
    } else if drive::is_drive(key) {
        protected(format!("drive '{key}'"))?;
        scope.drive(&work.lab.st(), key, &value)?;
    } else if key == "tags" {
        scope.tags(&work.lab.st(), "", &value)?;
    } else {
        scope.device(&work.lab.st(), key, &value, "modify")?;
    }
    work.edit(|g| {
        g.pending.shift_remove(key);
        if order.iter().any(|d| d == key) {
            order.retain(|d| d != key);
            g.pending
                .insert("boot".to_string(), json!(conf::print_boot_order(order)));
        }
        if key.starts_with("unused") {
            g.config.shift_remove(key);
            return Ok(());
        }
        if drive::is_drive(key)
            && let Some(new) = &waiting
        {
            pending::keep_as_unused(g, key, new);
        }
        g.pending
            .insert(key.to_string(), conf::deletion(change.force));
        Ok(())
    })?;
    Ok(true)
}

fn store(
    work: &Work,
    scope: &Scope,
    change: &Change,
    key: &str,
    order: &mut Vec<String>,
) -> Result<(), PveError> {
    let guest = work.guest()?;
    let value = conf::text(&change.options, key).unwrap_or("").to_string();
    if conf::pending(&guest.pending, key) == Pending::Value(&value) {
        return Ok(());
    }
    let old = conf::text(&guest.config, key);
    if drive::is_drive(key) {
        if let Some(old) = old {
            scope.drive(&work.lab.st(), key, old)?;
        }
        scope.drive(&work.lab.st(), key, &value)?;
        let one: Options = [(key.to_string(), json!(value))].into_iter().collect();
        let made = newdisks::create(work, scope, &one, change.working.as_deref())?;
        // Cloud-init drives do not join the boot order (qemu-server, update_vm_api: drive_is_cdrom($drive, 1)).
        let is_cdrom = drive::is_cdrom(key, conf::text(&made.options, key).unwrap_or(""))
            && !drive::parse_param(key, &value).is_ok_and(|d| drive::is_cloudinit(&d));
        return work.edit(|g| {
            if let Pending::Value(waiting) = conf::pending(&g.pending.clone(), key) {
                pending::keep_as_unused(g, key, waiting);
            }
            g.pending.extend(made.options);
            if !order.is_empty() && is_cdrom && !order.iter().any(|d| d == key) {
                order.push(key.to_string());
                g.pending
                    .insert("boot".to_string(), json!(conf::print_boot_order(order)));
            }
            Ok(())
        });
    }
    {
        let st = work.lab.st();
        if key == "tags" {
            scope.tags(&st, &value, old.unwrap_or(""))?;
        } else {
            for v in [Some(value.as_str()), old].into_iter().flatten() {
                scope.device(&st, key, v, "modify")?;
            }
        }
    }
    if key == "boot" {
        let parsed = conf::parse_option("boot", &value).unwrap_or_default();
        let devices: Vec<&str> = parsed
            .get("order")
            .iter()
            .flat_map(|o| propstr::split_list(o))
            .collect();
        for device in devices {
            let there = guest.config.contains_key(device)
                || matches!(conf::pending(&guest.pending, device), Pending::Value(_))
                || change.options.contains_key(device);
            if !there || change.delete.iter().any(|d| d == device) {
                return Err(PveError::die(format!(
                    "invalid bootorder: device '{device}' does not exist'"
                )));
            }
        }
    }
    work.edit(|g| {
        g.pending.insert(key.to_string(), json!(value));
        if key == "boot" && value.contains("order=") && g.config.contains_key("bootdisk") {
            g.pending
                .insert("bootdisk".to_string(), conf::deletion(false));
        }
        if key == "ostype"
            && let Some(pinned) =
                super::create::pinned_machine(&value, conf::text(&g.config, "machine"))
        {
            g.pending.insert("machine".to_string(), json!(pinned));
        }
        Ok(())
    })
}
