//! Copies of guests, and guests that move to another node.

use super::create::shown_id;
use super::desired::{CloneFrom, Shell};
use crate::look::{Look, Stop};
use crate::pve_common::{self as common, Guest, text};
use crate::pve_foresee::{self as foresee, Setting};
use crate::pve_write;
use plan::{Await, Effect, ErrorKind, Fact, Plan, Refusal, Request, SERVER, Step, Tolerance};
use pve::keys::PveKey;
use pve::volume::{Namer, is_file_storage};
use pve::{Family, PropString, Volid};
use serde_json::{Map, Value, json};

impl Shell {
    /// Clones, then writes our MAC addresses and whatever else was asked for.
    pub(super) fn copy(&self, look: &Look<'_>, c: &CloneFrom) -> Result<Plan, Stop> {
        let source = common::find_existing(look, &c.source, "clone")?;
        let what = format!("clone guest {}", source.vmid());
        let no = |why: String| -> Stop { Refusal::new(format!("unable to {what}: {why}")).into() };
        let (vmid, id_given) = self.new_id(look)?;
        if !c.full && !source.is_template() {
            return Err(no(
                "it is no template, and only templates have linked clones; give full=true"
                    .to_owned(),
            ));
        }
        if !c.full && (c.storage.is_some() || c.format.is_some()) {
            return Err(no("a linked clone stays on the storage of its template; give full=true, or leave storage and format out".to_owned()));
        }
        let node = c.target.as_deref().unwrap_or(source.node());
        Self::check_node(look, node, &what)?;
        self.check_pool(look, &what)?;
        common::settled(look, &source, self.timeout_s, "clone", &[])?;
        let mut request = Request::new("POST", source.path("/clone"))
            .arg("newid", shown_id(vmid, id_given))
            .param("full", u8::from(c.full).to_string());
        let named = [
            ("name", &self.name),
            ("snapname", &c.snapname),
            ("target", &c.target),
            ("storage", &c.storage),
            ("format", &c.format),
            ("pool", &self.pool),
        ];
        for (name, value) in named {
            if let Some(v) = value {
                request = request.param(name, v.clone());
            }
        }
        if let Some(limit) = c.bwlimit {
            request = request.param("bwlimit", limit.to_string());
        }
        pve_write::permitted(look, source.config(), &request, &what)?;
        let kept = match &c.snapname {
            Some(name) => Some(Self::snapshot(look, &source, name, &what)?),
            None => None,
        };
        let from = kept.as_ref().unwrap_or(source.current());
        let mut drives = pve::config::drives(from);
        drives.retain(|d| d.key().family() != pve::Family::Unused && !pve::boot::is_cdrom(d));
        crate::pve_drives::check_drives(look, &source, &drives, &what)?;
        let current = self.copied_config(look, from, &source, c, vmid, node)?;
        let mut copy = self.new_guest(vmid, node, current);
        if kept.is_none() {
            Self::take_pending(&source, &mut copy).map_err(no)?;
        }
        let key = PveKey::Guest(vmid).key();
        let mut step = Step::new(
            request,
            format!("clone guest {} as {}", source.vmid(), self.target),
        )
        .wait(Await::Until {
            key: key.clone(),
            pointer: "/vmid".to_owned(),
            equals: json!(vmid),
            timeout_s: self.timeout_s,
        })
        .effect(Effect::Put(key.clone(), copy.clone()))
        .effect(Effect::Put(
            PveKey::GuestStatus(vmid).key(),
            json!({"status": "stopped"}),
        ));
        if !id_given {
            step = step.tolerate(Tolerance::Replan("already exists"));
        }
        let mut plan = Plan::empty();
        plan.push(step);
        self.adapt(look, &Guest(&copy), &mut plan, &what)?;
        Ok(plan)
    }

    /// What a snapshot kept.
    fn snapshot(
        look: &Look<'_>,
        source: &Guest<'_>,
        name: &str,
        what: &str,
    ) -> Result<Map<String, Value>, Stop> {
        let key = PveKey::SnapshotConfig(source.vmid(), name.to_owned());
        match look.fact(&key)? {
            Fact::Known(v) => Ok(v.as_object().cloned().unwrap_or_default()),
            Fact::Absent => Err(Refusal::kind(
                ErrorKind::NotFound,
                format!("unable to {what}: it has no snapshot `{name}`"),
            )
            .into()),
            Fact::Unreadable(why) => Err(Refusal::new(format!(
                "unable to {what}: its snapshot `{name}` cannot be read: {why}"
            ))
            .into()),
        }
    }

    /// What waits for the next stop of the source waits in the copy too, word for word (qemu-server, clone_vm). Of a disk that
    /// would be the volume of the source, which two guests must never share: the reason why not.
    fn take_pending(source: &Guest<'_>, copy: &mut Value) -> Result<(), String> {
        let pending = source.pending();
        for (key, value) in pending {
            let disk = PropString::parse(key, &text(value))
                .ok()
                .filter(|d| d.key().is_drive() && !pve::boot::is_cdrom(d));
            if let Some(volume) = disk.as_ref().and_then(|d| d.get("file")) {
                return Err(format!(
                    "a change of its {key} waits for its next stop, and the copy would name the same volume {volume}; stop the guest or \
                     revert {key} first"
                ));
            }
            let config = copy["config"].as_object_mut();
            if value.is_null() {
                config.map(|c| c.remove(key));
            } else {
                config.map(|c| c.insert(key.clone(), value.clone()));
            }
        }
        copy["pending"] = Value::Object(pending.clone());
        Ok(())
    }

    /// The server gives a clone's cards new random addresses; ours are known beforehand. Other options go into the same request.
    fn adapt(
        &self,
        look: &Look<'_>,
        copy: &Guest<'_>,
        plan: &mut Plan,
        what: &str,
    ) -> Result<(), Stop> {
        let (mut change, grow) = self.change_of(look, copy, what)?;
        for nic in pve::config::nics(copy.config()) {
            let key = nic.key().as_str().to_owned();
            if !change.set.iter().any(|s| s.key == key) && !change.delete.contains(&key) {
                change.set.push(Setting::plain(&key, nic.print()));
            }
        }
        change.set.sort_by(|a, b| a.key.cmp(&b.key));
        let mut after = copy.0.clone();
        if !change.is_empty() {
            let keys: Vec<&str> = change.set.iter().map(|s| s.key.as_str()).collect();
            let why = format!("set {} of the clone", common::list(&keys));
            let mut step = pve_write::put_config(copy, &change, false, why);
            // It has just been made by this run: there is no digest that was read.
            step.request.params.retain(|(k, _)| k != "digest");
            after = foresee::changed(copy, false, &change);
            pve_write::permitted(look, copy.config(), &step.request, what)?;
            plan.push(step.effect(Effect::Put(PveKey::Guest(copy.vmid()).key(), after.clone())));
        }
        self.grow_steps(look, copy, after, &grow, what, plan)
    }

    /// What the clone starts with.
    fn copied_config(
        &self,
        look: &Look<'_>,
        from: &Map<String, Value>,
        source: &Guest<'_>,
        c: &CloneFrom,
        vmid: u32,
        node: &str,
    ) -> Result<Map<String, Value>, Stop> {
        let mut config = from.clone();
        config.retain(|k, _| {
            !k.starts_with("unused")
                && ![
                    "template",
                    "lock",
                    "parent",
                    "digest",
                    "vmstate",
                    "snaptime",
                    "snapstate",
                    "runningcpu",
                    "runningmachine",
                    "running-nets-host-mtu",
                ]
                .contains(&k.as_str())
        });
        if config.contains_key("vmgenid") {
            config.insert("vmgenid".into(), json!(SERVER));
        }
        // The server gives a clone a new uuid, and a name where none is asked for (qemu-server, clone_vm).
        let smbios = config.get("smbios1").map(text).unwrap_or_default();
        if let Ok(mut p) = pve::parse("smbios1", &smbios)
            && p.set("uuid", SERVER).is_ok()
        {
            config.insert("smbios1".into(), json!(p.print()));
        }
        let name = self.name.clone().unwrap_or_else(|| {
            let of = source.name().unwrap_or_else(|| source.vmid().to_string());
            format!("Copy-of-VM-{of}")
        });
        config.insert("name".into(), json!(name));
        for nic in pve::config::nics(from) {
            let key = nic.key().as_str().to_owned();
            let mut card = nic.unset(&["macaddr"]);
            let mac = pve_write::mac_for(look, vmid, &key)?;
            if card.set("macaddr", &mac).is_ok() {
                config.insert(key, json!(card.print()));
            }
        }
        self.copied_disks(look, from, c, vmid, node, &mut config)?;
        Ok(config)
    }

    fn copied_disks(
        &self,
        look: &Look<'_>,
        from: &Map<String, Value>,
        c: &CloneFrom,
        vmid: u32,
        node: &str,
        config: &mut Map<String, Value>,
    ) -> Result<(), Stop> {
        let disks: Vec<PropString> = pve::config::drives(from)
            .into_iter()
            .filter(|d| d.key().family() != Family::Unused)
            .filter(|d| !pve::boot::is_cdrom(d) || pve::boot::is_cloudinit(d))
            .collect();
        let volume = |d: &PropString| d.get("file").and_then(|f| f.parse::<Volid>().ok());
        let target = |v: &Volid| c.storage.clone().unwrap_or_else(|| v.storage().to_owned());
        let all = PveKey::Storages(node.to_owned());
        let known = look
            .aux(&all, &format!("storages of node {node}"))?
            .and_then(Fact::known);
        let kind = |name: &str| -> String {
            let list = known
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let found = list.iter().find(|s| s["storage"] == name);
            found
                .and_then(|s| s["type"].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let mut storages: Vec<String> = disks
            .iter()
            .filter_map(volume)
            .map(|v| target(&v))
            .collect();
        storages.sort();
        storages.dedup();
        let volumes = |s: &str| PveKey::Volumes {
            node: node.to_owned(),
            storage: s.to_owned(),
            content: "images".to_owned(),
            vmid: Some(vmid),
        };
        let keys: Vec<PveKey> = storages.iter().map(|s| volumes(s)).collect();
        look.want(&keys)?;
        let mut namer = Namer::new(vmid);
        for s in &storages {
            let listed = look.aux(&volumes(s), &format!("names of volumes on storage {s}"))?;
            let taken: Vec<Volid> = listed
                .and_then(Fact::known)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|v| v["volid"].as_str()?.parse().ok())
                .collect();
            namer.storage(s, &kind(s), &taken);
        }
        for d in disks {
            let Some(old) = volume(&d) else { continue };
            let storage = target(&old);
            let files = is_file_storage(&kind(&storage));
            let name = if pve::boot::is_cloudinit(&d) {
                namer.cloudinit(&storage)
            } else if c.full {
                let format = c.format.as_deref().or(old.format()).filter(|_| files);
                namer.next(&storage, format)
            } else {
                // Source: `clone-linked` of create-config-cases.json.
                let own = namer.next(&storage, files.then_some("qcow2"));
                match (own, files || kind(&storage) == "zfspool") {
                    (Some(o), true) => format!("{storage}:{}/{}", old.name(), o.name())
                        .parse()
                        .ok(),
                    (o, _) => o,
                }
            };
            let mut copy = d.clone();
            let name = name.map_or_else(|| SERVER.to_owned(), |n| n.to_string());
            if copy.set("file", &name).is_ok() {
                config.insert(d.key().as_str().to_owned(), json!(copy.print()));
            }
        }
        Ok(())
    }

    /// Moves the guest to `node`; the server moves it live when it runs.
    pub(super) fn move_to_node(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        let what = format!("migrate guest {}", guest.vmid());
        let Some(node) = self.node.as_deref() else {
            return Err(Refusal::kind(
                plan::ErrorKind::InvalidArgs,
                format!("unable to {what}: `node` does not say where to; give node"),
            )
            .into());
        };
        if guest.node() == node {
            return Ok(Plan::empty());
        }
        Self::check_node(look, node, &what)?;
        common::settled(look, guest, self.timeout_s, "migrate", &[])?;
        let running = common::is_running(common::status(look, guest.vmid(), "migrate")?);
        for nic in pve::config::nics(guest.config()) {
            if let Some(b) = nic.get("bridge") {
                common::check_bridge(look, node, b, &what)?;
            }
        }
        self.check_disks_move(look, guest, node, running, &what)?;
        let mut request = Request::new("POST", guest.path("/migrate"))
            .param("target", node)
            .param("online", u8::from(running).to_string());
        if self.with_local_disks {
            request = request.param("with-local-disks", "1");
        }
        pve_write::permitted(look, guest.config(), &request, &what)?;
        let mut moved = guest.0.clone();
        moved["node"] = json!(node);
        let mut plan = Plan::empty();
        plan.push(
            Step::new(
                request,
                format!(
                    "migrate guest {} from {} to {node}",
                    guest.vmid(),
                    guest.node()
                ),
            )
            .wait(Await::Task {
                timeout_s: self.timeout_s,
            })
            .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), moved)),
        );
        Ok(plan)
    }

    /// Refuses what the migration's task would stumble over: storages that the target lacks, media and disks on one node only.
    fn check_disks_move(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        node: &str,
        running: bool,
        what: &str,
    ) -> Result<(), Stop> {
        let key = PveKey::Storages(node.to_owned());
        let Some(fact) = look.aux(&key, &format!("storages of node {node}"))? else {
            return Ok(());
        };
        let all = fact.known().and_then(Value::as_array);
        let all = all.map_or(&[][..], Vec::as_slice);
        for d in pve::config::drives(guest.config()) {
            let Some(volid) = d.get("file").filter(|f| f.contains(':')) else {
                continue;
            };
            let storage = volid.split(':').next().unwrap_or_default();
            // One that is not listed may only be hidden: the server decides.
            let Some(s) = all.iter().find(|s| s["storage"] == storage) else {
                continue;
            };
            if s["shared"] == 1 || s["shared"] == true {
                continue;
            }
            let key = d.key().as_str().to_owned();
            let why = match pve::boot::is_cdrom(&d) {
                true => "an image on one node only; eject it first",
                false if running && !self.with_local_disks => {
                    "a disk on one node only, and the guest runs; give with_local_disks=true, or stop it first"
                }
                false => continue,
            };
            return Err(Refusal::new(format!("unable to {what}: {key} is {volid}, {why}")).into());
        }
        Ok(())
    }
}
