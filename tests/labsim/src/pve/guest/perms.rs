//! Which privileges the options of a guest need, checked where and in the words in which the server does it
//! (docs/pve-privileges.md, section 2 and "Exceptions").
use super::conf::{self, Options};
use super::drive;
use crate::pve::propstr::{self, Parsed};
use crate::pve::storage;
use crate::pve::{Auth, PveError, State};
use serde_json::{Map, Value};

/// The privilege that an option needs on `/vms/N`; an empty list means that only the root@pam login may set it.
fn needed(key: &str) -> &'static [&'static str] {
    match key {
        "cores" | "cpu" | "cpulimit" | "cpuunits" | "numa" | "smp" | "sockets" | "vcpus" => {
            &["VM.Config.CPU"]
        }
        "memory" | "balloon" | "shares" | "hugepages" | "keephugepages" | "allow-ksm" => {
            &["VM.Config.Memory"]
        }
        "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "smbios1" | "tablet" | "vga"
        | "watchdog" | "audio0" | "rng0" => &["VM.Config.HWType"],
        "agent" | "autostart" | "bios" | "description" | "keyboard" | "localtime"
        | "migrate_downtime" | "migrate_speed" | "name" | "onboot" | "ostype" | "protection"
        | "reboot" | "startdate" | "startup" | "tdf" | "template" => &["VM.Config.Options"],
        "freeze" => &["VM.PowerMgmt"],
        "boot" | "bootdisk" | "vmstatestorage" => &["VM.Config.Disk"],
        "cicustom" | "cipassword" | "citype" | "ciuser" | "ciupgrade" | "nameserver"
        | "searchdomain" | "sshkeys" => &["VM.Config.Cloudinit", "VM.Config.Network"],
        _ => match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "net" => &["VM.Config.Network"],
            "numa" => &["VM.Config.CPU"],
            "ipconfig" => &["VM.Config.Cloudinit", "VM.Config.Network"],
            _ => &[],
        },
    }
}

/// Whether an option's privilege depends on its value and is checked elsewhere.
fn is_late(key: &str) -> bool {
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    drive::is_drive(key)
        || matches!(key, "cdrom" | "tags")
        || matches!(family, "unused" | "serial" | "usb" | "hostpci" | "virtiofs")
}

/// Which guest, and the pool that it will be in.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Who asks.
    pub auth: &'a Auth,
    /// The guest.
    pub vmid: u32,
    /// `pool=` of a create: privileges on it count as well.
    pub pool: Option<&'a str>,
}

impl Scope<'_> {
    /// Any one of these privileges on the guest (or the pool).
    ///
    /// # Errors
    /// 403 `Permission check failed (/vms/N, A|B)`.
    pub fn check(&self, st: &State, privs: &[&str]) -> Result<(), PveError> {
        if let Some(pool) = self.pool
            && st
                .check_any(self.auth, &format!("/pool/{pool}"), privs)
                .is_ok()
        {
            return Ok(());
        }
        st.check_any(self.auth, &format!("/vms/{}", self.vmid), privs)
    }

    fn is_root(&self) -> bool {
        self.auth.is_root()
    }

    /// The check of everything whose privilege is known by the option's name.
    ///
    /// # Errors
    /// 403, or 500 `only root can set 'X' config`.
    pub fn options<'k>(
        &self,
        st: &State,
        keys: impl Iterator<Item = &'k str>,
    ) -> Result<(), PveError> {
        if self.is_root() {
            return Ok(());
        }
        for key in keys.filter(|k| !is_late(k)) {
            match needed(key) {
                [] => return Err(PveError::die(format!("only root can set '{key}' config"))),
                privs => self.check(st, privs)?,
            }
            if key == "startup" {
                st.check(self.auth, "/", &["Sys.Modify"])?;
            }
        }
        Ok(())
    }

    /// Serial ports, USB and PCI devices: by value. `verb` is `set` at creation and `modify` afterwards.
    ///
    /// # Errors
    /// 403, or 500 `only root can set 'serial0' config for real devices`.
    pub fn device(&self, st: &State, key: &str, value: &str, verb: &str) -> Result<(), PveError> {
        let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
        if self.is_root() {
            return Ok(());
        }
        let only_root = |what: &str| {
            Err(PveError::die(format!(
                "only root can {verb} '{key}' config for {what}"
            )))
        };
        let parsed = conf::parse_option(key, value).unwrap_or_default();
        match family {
            "serial" if value == "socket" => self.check(st, &["VM.Config.HWType"]),
            "serial" => only_root("real devices"),
            "usb"
                if parsed.get("mapping").is_some()
                    || parsed
                        .get("host")
                        .is_some_and(|h| h.eq_ignore_ascii_case("spice")) =>
            {
                self.check(st, &["VM.Config.HWType"])?;
                self.mapping(st, "usb", &parsed)
            }
            "usb" => only_root("real devices"),
            "hostpci" if parsed.get("mapping").is_some() => {
                self.check(st, &["VM.Config.HWType"])?;
                self.mapping(st, "pci", &parsed)
            }
            "hostpci" => only_root("non-mapped devices"),
            "virtiofs" => self.check(st, &["VM.Config.HWType"]),
            "rng" if parsed.get("source") == Some("/dev/hwrng") => {
                st.check(self.auth, "/mapping/hwrng", &["Mapping.Use"])
            }
            _ => Ok(()),
        }
    }

    fn mapping(&self, st: &State, kind: &str, device: &Parsed) -> Result<(), PveError> {
        match device.get("mapping") {
            Some(id) => st.check(
                self.auth,
                &format!("/mapping/{kind}/{id}"),
                &["Mapping.Use"],
            ),
            None => Ok(()),
        }
    }

    /// The tags that this request adds or removes, by the datacenter's rules.
    ///
    /// # Errors
    /// 403, with `for modifying tag 'X'` where the datacenter restricts tags.
    pub fn tags(&self, st: &State, new: &str, old: &str) -> Result<(), PveError> {
        // Not by the pool's privileges (recorded: create with pool and tags).
        let vm = format!("/vms/{}", self.vmid);
        st.check(self.auth, &vm, &["VM.Config.Options"])?;
        let access = st
            .options
            .get("user-tag-access")
            .cloned()
            .unwrap_or_default();
        let allow = access["user-allow"].as_str().unwrap_or("free").to_string();
        let listed = |value: &Value, tag: &str| match value {
            Value::Array(list) => list.iter().any(|v| v == tag),
            Value::String(s) => propstr::split_list(s).any(|t| t == tag),
            _ => false,
        };
        let registered = st
            .options
            .get("registered-tags")
            .cloned()
            .unwrap_or_default();
        let sets: [Vec<String>; 2] =
            [new, old].map(|s| propstr::split_list(s).map(str::to_lowercase).collect());
        let changed = sets[0]
            .iter()
            .filter(|t| !sets[1].contains(t))
            .chain(sets[1].iter().filter(|t| !sets[0].contains(t)));
        for tag in changed {
            let in_use = || {
                st.guests.values().any(|g| {
                    conf::text(&g.config, "tags")
                        .is_some_and(|t| propstr::split_list(t).any(|t| t == tag))
                })
            };
            let allowed = match allow.as_str() {
                "none" => false,
                "list" => listed(&access["user-allow-list"], tag),
                "existing" => listed(&access["user-allow-list"], tag) || in_use(),
                _ => true,
            };
            if (!allowed || listed(&registered, tag))
                && st.check(self.auth, "/", &["Sys.Modify"]).is_err()
            {
                return Err(PveError::denied(&format!(
                    "/, Sys.Modify for modifying tag '{tag}'"
                )));
            }
        }
        Ok(())
    }

    /// The privilege on the guest that a drive needs, by what it is.
    ///
    /// # Errors
    /// 403.
    pub fn drive(&self, st: &State, key: &str, value: &str) -> Result<(), PveError> {
        let parsed = drive::parse(key, value).unwrap_or_default();
        let all: &[&str] = if drive::is_cloudinit(&parsed) {
            &["VM.Config.Cloudinit", "VM.Config.CDROM"]
        } else if parsed.get("media") == Some("cdrom") {
            &["VM.Config.CDROM"]
        } else {
            &["VM.Config.Disk"]
        };
        all.iter().try_for_each(|p| self.check(st, &[*p]))
    }

    /// `SDN.Use` on the bridge of a NIC, or on each of its VLANs below it.
    ///
    /// # Errors
    /// 403; 500 for a vnet that does not exist.
    pub fn bridge(&self, st: &State, net: &str) -> Result<(), PveError> {
        let Some(parsed) = conf::parse_option("net0", net) else {
            return Ok(());
        };
        let Some(bridge) = parsed.get("bridge") else {
            return Ok(());
        };
        let path = st.bridge_path(bridge);
        let mut vlans: Vec<String> = parsed.get("tag").map(str::to_string).into_iter().collect();
        for part in parsed.get("trunks").iter().flat_map(|t| t.split(';')) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (
                first.parse::<u32>().unwrap_or(1),
                last.parse::<u32>().unwrap_or(1),
            );
            vlans.extend((first..=last.min(4094)).map(|n| n.to_string()));
        }
        if vlans.is_empty() {
            return st.check(self.auth, &path, &["SDN.Use"]);
        }
        vlans
            .iter()
            .try_for_each(|vlan| st.check(self.auth, &format!("{path}/{vlan}"), &["SDN.Use"]))
    }

    /// What every drive of a request needs on storages and on other guests, and what it may not be.
    ///
    /// # Errors
    /// 403, 400 for a storage or source of the wrong kind, 500 for one that does not exist or cannot be parsed.
    pub fn storages(
        &self,
        st: &State,
        params: &Options,
        working: Option<&str>,
    ) -> Result<(), PveError> {
        let mut keys: Vec<&String> = params
            .keys()
            .filter(|k| drive::is_drive(k) || k.starts_with("unused"))
            .collect();
        keys.sort();
        for key in keys {
            let value = conf::text(params, key).unwrap_or("");
            let parsed = match key.starts_with("unused") {
                true => conf::parse_option(key, value).unwrap_or_default(),
                false => drive::parse_param(key, value)?,
            };
            self.storage_of(st, key, &parsed, working)?;
        }
        if let Some(id) = conf::text(params, "vmstatestorage") {
            st.check(
                self.auth,
                &format!("/storage/{id}"),
                &["Datastore.AllocateSpace"],
            )?;
        }
        Ok(())
    }

    fn storage_of(
        &self,
        st: &State,
        key: &str,
        parsed: &Parsed,
        working: Option<&str>,
    ) -> Result<(), PveError> {
        let file = parsed.get("file").unwrap_or("");
        let is_cdrom = parsed.get("media") == Some("cdrom");
        if file == "cdrom" {
            st.check(self.auth, "/", &["Sys.Console"])?;
            self.volume(st, "/dev/cdrom")?;
        } else if file == "none" || file.ends_with(":cloudinit") {
            // Nothing is needed for an empty drive, nor (recorded) for a cloud-init one.
        } else if let (false, Some((Some(id), _))) =
            (is_cdrom || key.starts_with("unused"), drive::new_disk(file))
        {
            st.check(
                self.auth,
                &format!("/storage/{id}"),
                &["Datastore.AllocateSpace"],
            )?;
            let Some(found) = st.storages.get(id) else {
                return Err(PveError::die(format!("storage '{id}' does not exist")));
            };
            if !found.content.iter().any(|c| c == "images") {
                return Err(PveError::param(
                    "storage",
                    format!("storage '{id}' does not support vm images"),
                ));
            }
        } else {
            self.volume(st, file)?;
            if propstr::check_format("pve-volume-id", file).is_ok()
                && storage::parse_volid(st, file)?.vtype == "iso"
                && !is_cdrom
            {
                return Err(PveError::param(
                    key,
                    "explicit 'media=cdrom' is required for iso images",
                ));
            }
        }
        if let Some(source) = parsed.get("import-from") {
            self.import(st, key, file, source, working)?;
        }
        Ok(())
    }

    fn import(
        &self,
        st: &State,
        key: &str,
        target: &str,
        source: &str,
        working: Option<&str>,
    ) -> Result<(), PveError> {
        if source.starts_with('/') {
            return self.volume(st, source);
        }
        let volume = storage::parse_volid(st, source)?;
        if volume.vtype != "images" && volume.vtype != "import" {
            let kind = &volume.vtype;
            return Err(PveError::param(
                key,
                format!("{source} has wrong type '{kind}' - needs to be 'images' or 'import'"),
            ));
        }
        if let Some(owner) = volume.owner {
            return st.check(self.auth, &format!("/vms/{owner}"), &["VM.Clone"]);
        }
        if super::disks::ova_member(source).is_some() {
            let id = working.unwrap_or(&volume.storage);
            st.check(
                self.auth,
                &format!("/storage/{id}"),
                &["Datastore.AllocateSpace"],
            )?;
        } else if !matches!(volume.format.as_str(), "raw" | "qcow2" | "vmdk") {
            let format = &volume.format;
            return Err(PveError::die(format!(
                "volume '{source}' - not a QEMU image format '{format}'"
            )));
        }
        let _ = target;
        self.volume(st, source)
    }

    /// May this volume or path be used by this guest?
    ///
    /// # Errors
    /// 403; 500 `Only root can pass arbitrary filesystem paths.`, unknown storage, a name that does not parse.
    pub fn volume(&self, st: &State, volid: &str) -> Result<(), PveError> {
        if volid.starts_with('/') {
            if self.is_root() {
                return Ok(());
            }
            // The real one ends in its source position; clients must not match on that.
            return Err(PveError::die(
                "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.",
            ));
        }
        let id = volid.split(':').next().unwrap_or("");
        let path = format!("/storage/{id}");
        // Privileges on a storage are looked at before anybody learns whether it exists (docs/pve-privileges.md).
        if !st.storages.contains_key(id) {
            st.check_any(
                self.auth,
                &path,
                &[
                    "Datastore.Audit",
                    "Datastore.AllocateSpace",
                    "Datastore.Allocate",
                ],
            )?;
        }
        let volume = storage::parse_volid(st, volid)?;
        if st.may(self.auth, &path, &["Datastore.Allocate"]) {
            return Ok(());
        }
        match (volume.vtype.as_str(), volume.owner) {
            // By reading only (docs/pve-facts.md): an ESXi host's files need more than a look at the storage.
            ("import", _) if st.storages.get(id).is_some_and(|s| s.kind == "esxi") => {
                st.check(self.auth, &path, &["Datastore.Allocate"])
            }
            ("iso" | "vztmpl" | "import", _) => st.check_any(
                self.auth,
                &path,
                &["Datastore.AllocateSpace", "Datastore.Audit"],
            ),
            (_, Some(owner)) if owner == self.vmid => Ok(()),
            ("images" | "rootdir", Some(owner)) => {
                st.check(self.auth, &path, &["Datastore.Audit"])?;
                st.check(self.auth, &format!("/vms/{owner}"), &["VM.Config.Disk"])
            }
            _ => st.check(self.auth, &path, &["Datastore.Allocate"]),
        }
    }
}

/// Only the real root@pam login may skip a lock.
///
/// # Errors
/// 400 for `skiplock`.
pub fn skiplock(auth: &Auth, params: &Map<String, Value>) -> Result<bool, PveError> {
    let wanted = params.get("skiplock").is_some_and(|v| v == 1 || v == "1");
    if wanted && !auth.is_root() {
        return Err(PveError::param(
            "skiplock",
            "Only root may use this option.",
        ));
    }
    Ok(wanted)
}
