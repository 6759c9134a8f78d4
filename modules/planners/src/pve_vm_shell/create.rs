//! A guest that is not there yet.

use super::desired::{Efi, Shell, Tpm};
use crate::look::{Look, Stop};
use crate::pve_common::{self as common, Target, text};
use crate::pve_drives::Drives;
use crate::pve_foresee::{self as foresee, Change, Setting, json_of};
use crate::pve_write;
use plan::{
    Arg, Await, Effect, ErrorKind, Fact, Facts, Plan, Refusal, Request, SERVER, Step, Tolerance,
};
use pve::keys::PveKey;
use pve::{ConfigKey, PropString};
use serde_json::{Map, Value, json};

/// The id that the next guest gets, as far as these facts go.
pub(super) fn free_id_in(facts: &Facts) -> Option<u32> {
    let first = id_of(facts.known(PveKey::NextId.key())?)?;
    let taken = |id: &u32| facts.known(PveKey::IdFree(*id).key()) == Some(&json!(false));
    (first..).find(|id| !taken(id))
}

fn id_of(v: &Value) -> Option<u32> {
    v.as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .or_else(|| v.as_str()?.parse().ok())
}

/// What a new EFI disk is to be. Type and keys are always sent (docs/bugs.md P21).
pub(super) fn new_efi(e: &Efi, default_storage: Option<&str>) -> Result<PropString, String> {
    let storage = e
        .storage
        .as_deref()
        .or(default_storage)
        .ok_or("efidisk0 needs a storage; give it")?;
    let mut t = format!(
        "{storage}:1,efitype={},pre-enrolled-keys={}",
        e.efitype.as_deref().unwrap_or("4m"),
        u8::from(e.keys.unwrap_or(false))
    );
    if let Some(f) = &e.format {
        t = format!("{t},format={f}");
    }
    PropString::parse_checked("efidisk0", &t).map_err(|e| e.to_string())
}

/// What a new TPM state is to be.
pub(super) fn new_tpm(t: &Tpm) -> Result<PropString, String> {
    PropString::parse_checked(
        "tpmstate0",
        &format!("{}:1,version={}", t.storage, t.version),
    )
    .map_err(|e| e.to_string())
}

/// How tags are kept there; only asked for when it can matter.
pub(super) fn tag_style(look: &Look<'_>, tags: &[String]) -> Result<pve::tags::TagStyle, Stop> {
    if !tags.iter().any(|t| t.chars().any(char::is_uppercase)) {
        return Ok(pve::tags::TagStyle::default());
    }
    let options = look.aux(&PveKey::ClusterOptions, "how the cluster keeps tags")?;
    let style = options.and_then(Fact::known).map(|o| &o["tag-style"]);
    Ok(match style {
        Some(Value::String(s)) => pve::tags::TagStyle::parse(s),
        Some(Value::Object(o)) => {
            let parts: Vec<String> = o.iter().map(|(k, v)| format!("{k}={}", text(v))).collect();
            pve::tags::TagStyle::parse(&parts.join(","))
        }
        _ => pve::tags::TagStyle::default(),
    })
}

impl Shell {
    fn refuse(&self, what: &str, why: impl std::fmt::Display) -> Stop {
        Refusal::new(format!("unable to {what}: {why}")).into()
    }

    /// The id of the new guest, and whether it was given.
    pub(super) fn new_id(&self, look: &Look<'_>) -> Result<(u32, bool), Stop> {
        if let Target::Vmid(v) = self.target {
            return Ok((v, true));
        }
        let mut id = look
            .fact(&PveKey::NextId)?
            .known()
            .and_then(id_of)
            .ok_or_else(|| {
                Refusal::kind(
                    ErrorKind::Permission,
                    format!(
                        "unable to create {}: the server names no free id; give a vmid",
                        self.target
                    ),
                )
            })?;
        while look.fact(&PveKey::IdFree(id))?.known() == Some(&json!(false)) {
            id += 1;
        }
        Ok((id, false))
    }

    /// Refuses a node that is not there or not online.
    pub(super) fn check_node(look: &Look<'_>, node: &str, what: &str) -> Result<(), Stop> {
        let Some(fact) = look.aux(&PveKey::Nodes, &format!("whether node {node} is online"))?
        else {
            return Ok(());
        };
        let all = fact
            .known()
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let refuse =
            |why: String| -> Stop { Refusal::new(format!("unable to {what}: {why}")).into() };
        match all.iter().find(|n| n["node"] == node) {
            None => {
                let names: Vec<&str> = all.iter().filter_map(|n| n["node"].as_str()).collect();
                Err(refuse(format!(
                    "there is no node `{node}` (the cluster has: {}); correct `node`",
                    common::list(&names)
                )))
            }
            Some(n) if n["status"] == "offline" => Err(refuse(format!(
                "node {node} is offline; start it, or take another node"
            ))),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn check_pool(&self, look: &Look<'_>, what: &str) -> Result<(), Stop> {
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        let Some(fact) = look.aux(&PveKey::Pools, &format!("whether pool {pool} exists"))? else {
            return Ok(());
        };
        let listed = fact
            .known()
            .and_then(Value::as_array)
            .is_some_and(|a| a.iter().any(|p| p["poolid"] == *pool));
        if listed {
            return Ok(());
        }
        // Pools are listed only with Pool.Audit on them.
        let sees = look.fact(&PveKey::Perms(format!("/pool/{pool}")))?;
        if sees
            .known()
            .is_some_and(|p| common::granted(p, "Pool.Audit"))
        {
            return Err(self.refuse(
                what,
                format_args!("there is no pool `{pool}`; create it, or correct the name"),
            ));
        }
        look.note(format!("whether pool {pool} exists"));
        Ok(())
    }

    /// The settings of a new guest, each as it is sent and as it will be stored.
    fn new_settings(
        &self,
        look: &Look<'_>,
        node: &str,
        vmid: u32,
        what: &str,
    ) -> Result<Vec<Setting>, Stop> {
        let refuse = |e: String| self.refuse(what, e);
        let mut drives: Vec<PropString> = Vec::new();
        for (key, value) in &self.want {
            if crate::pve_drives::is_bus_drive(key) {
                drives.push(PropString::parse(key, value).map_err(|e| refuse(e.to_string()))?);
            }
        }
        if let Some(e) = &self.efi {
            drives.push(new_efi(e, None).map_err(refuse)?);
        }
        if let Some(t) = &self.tpm {
            drives.push(new_tpm(t).map_err(refuse)?);
        }
        // The server allocates in the order of the names (create-uefi-tpm of create-config-cases.json).
        drives.sort_by(|a, b| a.key().as_str().cmp(b.key().as_str()));
        let wanted: Vec<&PropString> = drives.iter().collect();
        let mut placer = Drives::new(
            look,
            node,
            vmid,
            &Map::new(),
            &wanted,
            self.working_storage.as_deref(),
            what,
        )?;
        let mut out: Vec<Setting> = Vec::new();
        for d in &drives {
            out.push(placer.place(d)?);
        }
        for (key, value) in &self.want {
            let k: ConfigKey = key
                .parse()
                .map_err(|e: pve::KeyError| refuse(e.to_string()))?;
            if k.is_bus_drive() {
                continue;
            }
            if k.is_net() {
                let named = PropString::parse(key, value).map_err(|e| refuse(e.to_string()))?;
                out.push(Setting::plain(
                    key,
                    new_card(look, vmid, &named, what)?.print(),
                ));
            } else {
                let stored = match key.as_str() {
                    "description" => value.trim_end().to_owned(),
                    // The server answers with this in its place (docs/pve-facts.md, Types).
                    "cipassword" => "**********".to_owned(),
                    // Source: `cpuunits-clamp` of create-config-cases.json.
                    "cpuunits" => value
                        .parse::<u32>()
                        .map_or(value.clone(), |n| n.min(10_000).to_string()),
                    _ => value.clone(),
                };
                out.push(Setting {
                    key: key.clone(),
                    sent: value.clone(),
                    stored,
                });
            }
        }
        if let Some(n) = self.name.as_ref().filter(|n| !n.is_empty()) {
            out.push(Setting::plain("name", n));
        }
        let tags: Vec<String> = self
            .tags
            .iter()
            .flatten()
            .chain(&self.tags_add)
            .cloned()
            .collect();
        if !tags.is_empty() {
            let t = pve::tags::normal(&tags.join(";"), tag_style(look, &tags)?);
            out.push(Setting::plain("tags", t));
        }
        out.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(out)
    }

    /// Makes the guest.
    pub(super) fn create(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let (vmid, id_given) = self.new_id(look)?;
        let what = format!("create {}", self.target);
        let Some(node) = self.node.as_deref() else {
            return Err(Refusal::kind(
                ErrorKind::InvalidArgs,
                format!("unable to {what}: it is not there, and `node` does not say where to make it; give node"),
            )
            .into());
        };
        if let (Some(guard), Some(smbios)) = (&self.guard, self.want.get("smbios1"))
            && let Ok(p) = pve::parse("smbios1", smbios)
            && let Some(uuid) = p.get("uuid")
            && !pve::smbios::same_uuid(guard, uuid)
        {
            return Err(self.refuse(
                &what,
                format_args!(
                    "smbios gives uuid {uuid}, but guard_uuid is {guard}; make them equal"
                ),
            ));
        }
        Self::check_node(look, node, &what)?;
        self.check_pool(look, &what)?;
        let settings = self.new_settings(look, node, vmid, &what)?;
        let config = new_config(&settings);
        self.check_config(look, node, &config, &Map::new(), &what)?;
        let change = Change {
            set: settings,
            ..Change::default()
        };
        let mut request = Request::new("POST", format!("/nodes/{node}/qemu"));
        request = request.arg("vmid", shown_id(vmid, id_given));
        request = pve_write::with_settings(request, &change);
        if !id_given {
            hide_derived_macs(&mut request, &self.want);
        }
        request = self.create_extras(request);
        let mut step = Step::new(request, what.clone())
            .wait(Await::Until {
                key: PveKey::Guest(vmid).key(),
                pointer: "/vmid".to_owned(),
                equals: json!(vmid),
                timeout_s: self.timeout_s,
            })
            .effect(Effect::Put(
                PveKey::Guest(vmid).key(),
                self.new_guest(vmid, node, config.clone()),
            ))
            .effect(Effect::Put(
                PveKey::GuestStatus(vmid).key(),
                self.new_status(),
            ));
        if !id_given {
            // Somebody took the id meanwhile: another one is chosen.
            step = step.tolerate(Tolerance::Replan("already exists"));
        }
        pve_write::permitted(look, &Map::new(), &step.request, &what)?;
        let mut plan = Plan::empty();
        plan.push(step);
        self.warn_efi(&config, &mut plan);
        Ok(plan)
    }

    fn create_extras(&self, mut request: Request) -> Request {
        if let Some(p) = &self.pool {
            request = request.param("pool", p.clone());
        }
        if let Some(s) = &self.working_storage {
            request = request.param("import-working-storage", s.clone());
        }
        for (name, on) in [("start", self.start), ("ha-managed", self.ha_managed)] {
            if on {
                request = request.param(name, "1");
            }
        }
        request
    }

    pub(super) fn new_guest(&self, vmid: u32, node: &str, config: Map<String, Value>) -> Value {
        let template = config.get("template") == Some(&json!(1));
        let mut g = json!({
            "vmid": vmid, "node": node, "type": "qemu", "config": config, "current": config, "pending": {}, "digest": "",
            "template": template,
        });
        if let Some(p) = &self.pool {
            g["pool"] = json!(p);
        }
        g
    }

    fn new_status(&self) -> Value {
        match self.start {
            true => json!({"status": "running", "qmpstatus": "running"}),
            false => json!({"status": "stopped"}),
        }
    }

    /// Looks at what the server accepts although it cannot work: bridges, boot devices, MAC addresses. Only what differs from `old`.
    pub(super) fn check_config(
        &self,
        look: &Look<'_>,
        node: &str,
        new: &Map<String, Value>,
        old: &Map<String, Value>,
        what: &str,
    ) -> Result<(), Stop> {
        for nic in pve::config::nics(new) {
            let key = nic.key().as_str();
            let was = old
                .get(key)
                .and_then(|v| PropString::parse(key, &text(v)).ok());
            let differs = |name: &str| was.as_ref().and_then(|w| w.get(name)) != nic.get(name);
            if differs("bridge")
                && let Some(b) = nic.get("bridge")
            {
                common::check_bridge(look, node, b, what)?;
            }
            if (differs("macaddr") || was.is_none())
                && let Some(other) = pve_write::twin(new, key, nic.get("macaddr"))
            {
                let mac = nic.get("macaddr").unwrap_or_default();
                return Err(self.refuse(what, format_args!("MAC address {mac} is that of {key} and of {other}; give one of them another")));
            }
        }
        if new.get("boot") != old.get("boot")
            && let Some(boot) = new.get("boot").map(text)
        {
            let missing: Vec<String> =
                pve::boot::missing_devices(&pve::boot::order_of(&boot, new), new);
            if !missing.is_empty() {
                return Err(self.refuse(
                    what,
                    format_args!(
                        "boot order `{boot}` names {}, which the guest does not have; give the device too, or set boot after it was made",
                        common::list(&missing)
                    ),
                ));
            }
        }
        if new.get("bootdisk") != old.get("bootdisk")
            && let Some(d) = new.get("bootdisk").map(text)
            && !new.contains_key(&d)
        {
            return Err(self.refuse(
                what,
                format_args!(
                    "bootdisk `{d}` is not there; give the disk too, or leave bootdisk out"
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn warn_efi(&self, config: &Map<String, Value>, plan: &mut Plan) {
        if config.get("bios").map(text).as_deref() == Some("ovmf")
            && !config.contains_key("efidisk0")
        {
            plan.warnings.push(
                "bios is ovmf and there is no efidisk0: the guest forgets its boot entries at every stop; give efidisk0".to_owned(),
            );
        }
    }
}

/// The id as a parameter: a free one that was chosen is shown as a symbol, since another may be free later.
pub(super) fn shown_id(vmid: u32, given: bool) -> Arg {
    match given {
        true => Arg::Lit(json!(vmid)),
        false => Arg::Shown {
            symbol: "<next free id>".to_owned(),
            value: json!(vmid),
        },
    }
}

/// A MAC address of ours follows from the id; it is as uncertain as a free id is.
fn hide_derived_macs(request: &mut Request, want: &std::collections::BTreeMap<String, String>) {
    for (key, arg) in &mut request.params {
        let given = want.get(key).and_then(|w| PropString::parse(key, w).ok());
        let (Some(given), Arg::Lit(Value::String(sent))) = (given, &*arg) else {
            continue;
        };
        if given.key().is_net()
            && given.get("macaddr").is_none()
            && let Ok(p) = PropString::parse(key, sent)
            && let Some(mac) = p.get("macaddr")
        {
            *arg = Arg::Shown {
                symbol: sent.replace(mac, "<MAC of the next free id>"),
                value: json!(sent),
            };
        }
    }
}

/// A card that is not there yet: with the peer's default model, and our MAC address where none is given.
pub(super) fn new_card(
    look: &Look<'_>,
    vmid: u32,
    named: &PropString,
    what: &str,
) -> Result<PropString, Stop> {
    let refuse =
        |e: pve::PropError| -> Stop { Refusal::new(format!("unable to {what}: {e}")).into() };
    let mut card = named.clone();
    if card.get("model").is_none() {
        card.set("model", "virtio").map_err(refuse)?;
    }
    if card.get("macaddr").is_none() {
        let mac = pve_write::mac_for(look, vmid, named.key().as_str())?;
        card.set("macaddr", &mac).map_err(refuse)?;
    }
    Ok(card)
}

/// The configuration that the server makes of a new guest's settings (create-config-cases.json).
fn new_config(settings: &[Setting]) -> Map<String, Value> {
    let mut c: Map<String, Value> = settings
        .iter()
        .map(|s| (s.key.clone(), json_of(&s.key, &s.stored)))
        .collect();
    if !c.contains_key("boot") {
        let order = pve::boot::print_order(&pve::boot::default_order(&c));
        let boot = if order.is_empty() {
            " ".to_owned()
        } else {
            order
        };
        c.insert("boot".into(), json!(boot));
    }
    if !c.contains_key("smbios1") {
        c.insert("smbios1".into(), json!(format!("uuid={SERVER}")));
    }
    match c.get("vmgenid").map(text).as_deref() {
        None | Some("1") => {
            c.insert("vmgenid".into(), json!(SERVER));
        }
        _ => {}
    }
    c.insert("meta".into(), json!(SERVER));
    if foresee::is_windows_unpinned(&c) {
        let machine = foresee::pinned_machine(c.get("machine").map(text).as_deref());
        c.insert("machine".into(), json!(machine));
    }
    c
}
