//! `POST /nodes/{node}/qemu`: a new guest.
use super::conf::{self, Options};
use super::perms::Scope;
use super::work::{self, Work};
use super::{Guest, drive, new_uuid, newdisks, power, with_mac};
use crate::pve::{Call, Lab, PveError, State};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The QEMU that the lab's nodes claim to run (that of the recordings).
pub const QEMU_VERSION: &str = "10.0.13";
/// The newest machine version of that QEMU, as guests get pinned to it.
const MACHINE_VERSION: &str = "10.0+pve1";

/// Parameters of the request that are no options of the guest.
const CONTROL: [&str; 13] = [
    "node",
    "vmid",
    "archive",
    "bwlimit",
    "force",
    "pool",
    "start",
    "storage",
    "unique",
    "live-restore",
    "import-working-storage",
    "ha-managed",
    "cdrom",
];

/// Refuses public keys that are not such (percent-encoded, one a line): the second word must be the first one's key.
///
/// # Errors
/// 500 `SSH public key validation error`.
pub fn check_ssh_keys(encoded: &str) -> Result<(), PveError> {
    let text = crate::log::decode(encoded, false);
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    match lines.all(is_ssh_key) {
        true => Ok(()),
        false => Err(PveError::die("SSH public key validation error")),
    }
}

/// Whether a line is `TYPE BASE64 [comment]` and the decoded key is a row of fields with their lengths, the type first.
fn is_ssh_key(line: &str) -> bool {
    use base64::Engine;
    let mut words = line.split_whitespace();
    let (Some(kind), Some(blob)) = (words.next(), words.next()) else {
        return false;
    };
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(blob) else {
        return false;
    };
    let mut rest = bytes.as_slice();
    let mut fields: Vec<&[u8]> = Vec::new();
    while let Some((length, tail)) = rest.split_at_checked(4) {
        let length = length.iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
        let Some((field, tail)) = tail.split_at_checked(length) else {
            return false;
        };
        fields.push(field);
        rest = tail;
    }
    let is_whole = kind != "ssh-ed25519" || fields.get(1).is_some_and(|key| key.len() == 32);
    rest.is_empty() && fields.len() > 1 && fields[0] == kind.as_bytes() && is_whole
}

/// The machine type with its version, for Windows guests: they get confused when it changes. `None` if there is nothing to pin.
pub fn pinned_machine(ostype: &str, machine: Option<&str>) -> Option<String> {
    let windows = matches!(
        ostype,
        "wxp" | "w2k" | "w2k3" | "w2k8" | "wvista" | "win7" | "win8" | "win10" | "win11"
    );
    let mut parsed = machine.map_or_else(Default::default, |m| {
        conf::parse_option("machine", m).unwrap_or_default()
    });
    let pinned = match parsed.get("type").unwrap_or("pc") {
        "q35" => format!("pc-q35-{MACHINE_VERSION}"),
        "pc" => format!("pc-i440fx-{MACHINE_VERSION}"),
        _ => return None,
    };
    parsed.set("type", pinned);
    let format = conf::option_schema("machine")?["format"].as_object()?;
    windows.then(|| crate::pve::propstr::print(format, &parsed))
}

/// The handler.
pub fn create(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let vmid = call.vmid();
    let pool = call.text("pool").filter(|p| !p.is_empty());
    if let Some(keys) = call.text("sshkeys") {
        check_ssh_keys(&keys)?;
    }
    let options = checked(lab, call, vmid, pool.as_deref())?;
    reserve(lab, call, vmid)?;
    let (working, start) = (call.text("import-working-storage"), call.flag("start"));
    let upid = work::start(
        lab,
        &call.arg("node"),
        "qmcreate",
        vmid,
        &call.auth,
        move |work| {
            let scope = Scope {
                auth: &work.auth,
                vmid,
                pool: pool.as_deref(),
            };
            if let Err(e) = build(work, &scope, options, working.as_deref()) {
                forget(work.lab, vmid);
                let text = work::one_line(&e);
                // The parser of volume ids speaks for itself (recorded: `none,media=disk`).
                return Err(PveError::die(
                    if text.starts_with("unable to parse volume ID") {
                        text
                    } else {
                        format!("unable to create VM {vmid} - {text}")
                    },
                ));
            }
            if start {
                work.log("Execute autostart");
                if let Err(e) = power::start_now(work, false) {
                    work.log(work::one_line(&e));
                }
            }
            Ok(())
        },
    );
    Ok(json!(upid))
}

/// All checks that come before the task, in the server's order; returns the options with MACs and cleaned drives.
fn checked(
    lab: &Arc<Lab>,
    call: &Call,
    vmid: u32,
    pool: Option<&str>,
) -> Result<Options, PveError> {
    let text_of = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
    let mut options: Options = call
        .params
        .iter()
        .filter(|(k, _)| !CONTROL.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), json!(text_of(v))))
        .collect();
    {
        let st = lab.st();
        if let Some(pool) = pool
            && !st.pool_names().contains(pool)
        {
            return Err(PveError::denied(&format!("pool '{pool}' does not exist")));
        }
        if let Some(storage) = call.text("storage") {
            st.check(
                &call.auth,
                &format!("/storage/{storage}"),
                &["Datastore.AllocateSpace"],
            )?;
        }
        if call.flag("start") {
            st.check(&call.auth, &format!("/vms/{vmid}"), &["VM.PowerMgmt"])?;
        }
        let by_pool =
            pool.is_some_and(|p| st.may(&call.auth, &format!("/pool/{p}"), &["VM.Allocate"]));
        if !by_pool && !st.may(&call.auth, &format!("/vms/{vmid}"), &["VM.Allocate"]) {
            return Err(PveError::denied(""));
        }
    }
    if call.text("archive").is_some() {
        return Err(PveError::new(
            501,
            "labsim: restoring an archive is not implemented",
        ));
    }
    if let Some(cdrom) = call.text("cdrom") {
        options.insert("ide2".to_string(), json!(format!("{cdrom},media=cdrom")));
    }
    let st = lab.st();
    let scope = Scope {
        auth: &call.auth,
        vmid,
        pool,
    };
    scope.storages(
        &st,
        &options,
        call.text("import-working-storage").as_deref(),
    )?;
    scope.options(&st, options.keys().map(String::as_str))?;
    for (key, value) in &options {
        scope.device(&st, key, value.as_str().unwrap_or(""), "set")?;
    }
    for (_, value) in options.iter().filter(|(k, _)| is_net(k)) {
        scope.bridge(&st, value.as_str().unwrap_or(""))?;
    }
    let keys: Vec<String> = options.keys().cloned().collect();
    let style = st.options.clone();
    drop(st);
    for key in keys {
        let value = conf::text(&options, &key).unwrap_or("").to_string();
        let new = if drive::is_drive(&key) {
            newdisks::clean(&lab.st(), &key, &value)?
        } else if is_net(&key) {
            with_mac(lab, &key, &value)
        } else {
            conf::normalise(&key, &value, &style).map_err(PveError::die)?
        };
        match new.as_str() {
            "" => options.shift_remove(&key),
            _ => options.insert(key, json!(new)),
        };
    }
    Ok(options)
}

fn is_net(key: &str) -> bool {
    key.strip_prefix("net")
        .is_some_and(|n| n.parse::<u32>().is_ok())
}

/// Takes the id: from now on the guest is there, locked, without a configuration of its own.
fn reserve(lab: &Arc<Lab>, call: &Call, vmid: u32) -> Result<(), PveError> {
    let created_ms = lab.now_ms();
    let mut st = lab.st();
    if let Some(other) = st.guests.get(&vmid) {
        let what = if other.kind == "lxc" { "CT" } else { "VM" };
        return Err(PveError::die(format!(
            "unable to create VM {vmid} - {what} {vmid} already exists on node '{}'",
            other.node
        )));
    }
    let mut guest = Guest::new(vmid, &call.arg("node"), created_ms);
    guest.config.insert("lock".to_string(), json!("create"));
    guest.flock = true;
    st.guests.insert(vmid, guest);
    Ok(())
}

fn build(
    work: &Work,
    scope: &Scope,
    mut options: Options,
    working: Option<&str>,
) -> Result<(), PveError> {
    work.pause("qmcreate")?;
    if let Some(tags) = conf::text(&options, "tags") {
        scope.tags(&work.lab.st(), tags, "")?;
    }
    let made = newdisks::create(work, scope, &options, working)?;
    options.extend(made.options);
    finish(work.lab, &mut options);
    if let Some(pinned) = pinned_machine(
        conf::text(&options, "ostype").unwrap_or("other"),
        conf::text(&options, "machine"),
    ) {
        work.log(format!(
            "pinning machine type to '{pinned}' for Windows guest OS"
        ));
        options.insert("machine".to_string(), json!(pinned));
    }
    work.edit(|g| {
        g.config = options;
        g.flock = false;
        Ok(())
    })?;
    // Only now: until here the pool's privileges count by the request alone.
    if scope.pool.is_some() {
        work.lab.st().set_pool(work.vmid, scope.pool);
    }
    Ok(())
}

/// What the server adds to every new guest: meta data, boot order, BIOS uuid, generation id.
pub fn finish(lab: &Arc<Lab>, options: &mut Options) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    options.insert(
        "meta".to_string(),
        json!(format!("creation-qemu={QEMU_VERSION},ctime={now}")),
    );
    if conf::text(options, "boot").is_none_or(|b| b.trim().is_empty()) {
        let boot = conf::default_boot(options);
        options.insert("boot".to_string(), json!(boot));
    }
    if !options.contains_key("smbios1") {
        options.insert(
            "smbios1".to_string(),
            json!(format!("uuid={}", new_uuid(lab))),
        );
    }
    if conf::text(options, "vmgenid").is_none_or(|v| v == "1") {
        options.insert("vmgenid".to_string(), json!(new_uuid(lab)));
    }
}

/// Whether the guest may be seen by somebody in a list.
pub fn may_see(st: &State, call: &Call, vmid: u32) -> bool {
    st.may(&call.auth, &format!("/vms/{vmid}"), &["VM.Audit"])
}

/// Forgets a guest that did not come to be.
fn forget(lab: &Lab, vmid: u32) {
    let mut st = lab.st();
    st.guests.remove(&vmid);
    st.set_pool(vmid, None);
}
