//! What a task asks for, from its arguments.

use super::spec::{FAMILIES, PLAIN};
use crate::pve_common::{self as common, Target, arg_error};
use crate::pve_drives::{COPIED_FORMATS, NO_COPIED_FORMAT};
use pve::{ConfigKey, PropString};
use serde_json::Value;
use spec::{ArgError, Args};
use std::collections::BTreeMap;

/// The wanted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Present,
    Absent,
    Stopped,
    Started,
    Restarted,
    Current,
    Template,
    Paused,
    Hibernated,
}

/// An EFI disk: what it is to be, and what of that was said.
#[derive(Clone, Debug, Default)]
pub(super) struct Efi {
    pub storage: Option<String>,
    pub format: Option<String>,
    pub efitype: Option<String>,
    pub keys: Option<bool>,
}

/// TPM state likewise.
#[derive(Clone, Debug)]
pub(super) struct Tpm {
    pub storage: String,
    pub version: String,
    pub version_named: bool,
}

/// Where to clone from, and how.
#[derive(Clone, Debug)]
pub(super) struct CloneFrom {
    pub source: Target,
    pub full: bool,
    pub snapname: Option<String>,
    pub target: Option<String>,
    pub storage: Option<String>,
    pub format: Option<String>,
    pub bwlimit: Option<i64>,
}

/// A task of `pve_vm_shell`.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    pub target: Target,
    pub state: State,
    pub name: Option<String>,
    pub node: Option<String>,
    /// Options of the guest and their values as they are sent; drives and cards too.
    pub want: BTreeMap<String, String>,
    pub efi: Option<Efi>,
    pub tpm: Option<Tpm>,
    pub tags: Option<Vec<String>>,
    pub tags_add: Vec<String>,
    pub tags_remove: Vec<String>,
    pub create_only: Vec<String>,
    /// The password is written in every run.
    pub cipassword_always: bool,
    /// `unset` and `delete` together, as names of the configuration.
    pub unset: Vec<String>,
    pub said_delete: bool,
    pub revert: Vec<String>,
    pub update: Option<bool>,
    pub rename: bool,
    pub digest: Option<String>,
    pub guard: Option<String>,
    pub force: bool,
    pub purge: bool,
    pub destroy_unreferenced: bool,
    pub skiplock: bool,
    pub timeout_s: u64,
    pub pool: Option<String>,
    pub start: bool,
    pub ha_managed: bool,
    pub working_storage: Option<String>,
    pub clone: Option<CloneFrom>,
    pub migrate: bool,
    pub with_local_disks: bool,
    pub warnings: Vec<String>,
}

fn flag(v: bool) -> String {
    u8::from(v).to_string()
}

fn scalar(v: &Value) -> Option<String> {
    match v {
        Value::Null => None,
        Value::Bool(b) => Some(flag(*b)),
        Value::String(s) => Some(s.clone()).filter(|s| !s.is_empty()),
        Value::Number(n) => Some(match n.as_f64() {
            // 2.0 is 2 to the server.
            Some(f) if n.is_f64() => f.to_string(),
            _ => n.to_string(),
        }),
        other => Some(other.to_string()),
    }
}

impl Shell {
    /// From coerced arguments.
    pub fn new(args: &Args) -> Result<Shell, Vec<ArgError>> {
        let mut errors = common::sign_in_errors(args);
        let target = Target::from_args(args, &mut errors);
        let state = match args.str("state").unwrap_or("present") {
            "absent" => State::Absent,
            "stopped" => State::Stopped,
            "started" => State::Started,
            "restarted" => State::Restarted,
            "current" => State::Current,
            "template" => State::Template,
            "paused" => State::Paused,
            "hibernated" => State::Hibernated,
            _ => State::Present,
        };
        let name = args.str("name").map(str::to_owned);
        if let Some(n) = name.as_deref().filter(|n| !pve::check::is_dns_name(n)) {
            errors.push(arg_error(
                "name",
                Some(n.to_owned()),
                "is no DNS name; give letters, digits, `-` and `.`, with a letter or digit at both ends of each part",
            ));
        }
        let mut want = BTreeMap::new();
        plain(args, &mut want);
        let default_storage = args.str("storage").filter(|_| args.str("clone").is_none());
        devices(args, default_storage, &mut want, &mut errors);
        for (key, value) in &want {
            if let Err(e) = acceptable(key, value) {
                let value = (key != "cipassword").then(|| value.clone());
                errors.push(arg_error(&argument_of(key), value, e));
            }
        }
        for list in ["tags", "tags_add", "tags_remove"] {
            for t in args.strs(list).unwrap_or_default() {
                if !pve::tags::is_tag(&t) {
                    errors.push(arg_error(
                        list,
                        Some(t),
                        "is no tag; give letters, digits and `_`, after the first character also `-`, `+` and `.`",
                    ));
                }
            }
        }
        let (unset, revert) = removals(args, &want, &mut errors);
        if args.str("archive").is_some() {
            errors.push(arg_error(
                "archive",
                None,
                "restoring from a backup is not done by this module, since what the backup holds cannot be foreseen; restore it first, then give the vmid",
            ));
        }
        if args.str("clone").is_some()
            && let Some(f) = args.str("format").filter(|f| *f != "unspecified")
            && !COPIED_FORMATS.contains(&f)
        {
            errors.push(arg_error("format", Some(f.to_owned()), NO_COPIED_FORMAT));
        }
        let newid = common::vmid_arg(args, "newid", &mut errors);
        if newid.is_some() && args.str("clone").is_none() {
            errors.push(arg_error("newid", None, "is for `clone` only; give `vmid`"));
        }
        let (Some(target), true) = (target, errors.is_empty()) else {
            return Err(errors);
        };
        let clone = args.str("clone").map(|c| CloneFrom {
            source: match args.int("vmid") {
                Some(_) => target.clone(),
                None => Target::Name(c.to_owned()),
            },
            full: args.bool("full").unwrap_or(true),
            snapname: args.str("snapname").map(str::to_owned),
            target: args.str("target").map(str::to_owned),
            storage: args.str("storage").map(str::to_owned),
            format: args
                .str("format")
                .filter(|f| *f != "unspecified")
                .map(str::to_owned),
            bwlimit: args.int("bwlimit"),
        });
        let target = match (&clone, newid, &name) {
            (Some(_), Some(id), _) => Target::Vmid(id),
            (Some(_), None, Some(n)) => Target::Name(n.clone()),
            (Some(_), None, None) => {
                return Err(vec![arg_error(
                    "newid",
                    None,
                    "`clone` needs `newid`, or a `name` by which a second run finds the clone",
                )]);
            }
            (None, ..) => target,
        };
        let mut warnings = args.warnings().to_vec();
        if state != State::Present && (!want.is_empty() || args.given("tags")) {
            warnings.push(format!(
                "options of the guest are not looked at with state={}; give them in a task with state=present",
                args.str("state").unwrap_or_default()
            ));
        }
        Ok(Shell {
            target,
            state,
            name,
            node: args.str("node").map(str::to_owned),
            want,
            efi: args.dict("efidisk0").map(|d| Efi {
                storage: d.get("storage").and_then(scalar),
                format: d.get("format").and_then(scalar),
                efitype: d.get("efitype").and_then(scalar),
                keys: d.get("pre_enrolled_keys").and_then(Value::as_bool),
            }),
            tpm: args.dict("tpmstate0").map(|d| Tpm {
                storage: d.get("storage").and_then(scalar).unwrap_or_default(),
                version: format!(
                    "v{}",
                    d.get("version").and_then(scalar).unwrap_or("2.0".into())
                ),
                version_named: args.given("tpmstate0.version"),
            }),
            tags: args
                .given("tags")
                .then(|| args.strs("tags").unwrap_or_default()),
            tags_add: args.strs("tags_add").unwrap_or_default(),
            tags_remove: args.strs("tags_remove").unwrap_or_default(),
            create_only: args.strs("create_only").unwrap_or_default(),
            cipassword_always: args.str("cipassword_update") == Some("always"),
            unset,
            said_delete: args.given("delete"),
            revert,
            update: args.given("update").then(|| args.flag("update")),
            rename: args.flag("rename"),
            digest: args.str("digest").map(str::to_owned),
            guard: args.str("guard_uuid").map(str::to_owned),
            force: args.flag("force"),
            purge: args.flag("purge"),
            destroy_unreferenced: args.flag("destroy_unreferenced_disks"),
            skiplock: args.flag("skiplock"),
            timeout_s: args
                .int("timeout")
                .and_then(|t| u64::try_from(t).ok())
                .unwrap_or(600),
            pool: args.str("pool").map(str::to_owned),
            start: args.flag("start"),
            ha_managed: args.flag("ha_managed"),
            working_storage: args.str("import_working_storage").map(str::to_owned),
            clone,
            migrate: args.flag("migrate"),
            with_local_disks: args.flag("with_local_disks"),
            warnings,
        })
    }

    /// Whether an option is only written at creation.
    pub fn only_at_creation(&self, key: &str) -> bool {
        let stem = key.parse::<ConfigKey>().map(|k| k.stem().to_owned());
        self.create_only.iter().any(|c| {
            let mapped = PLAIN.iter().find(|(arg, _)| arg == c).map(|(_, k)| *k);
            c == key
                || mapped == Some(key)
                || (FAMILIES.contains(&c.as_str()) && stem.as_deref() == Ok(c))
        })
    }
}

/// Options with one value.
fn plain(args: &Args, want: &mut BTreeMap<String, String>) {
    for (arg, key) in PLAIN {
        let Some(v) = args.get(arg) else { continue };
        let text = match (*arg, v) {
            ("agent", v) => scalar(v).map(|t| pve::check::parse_bool(&t).map_or(t, flag)),
            // The server stores it percent-encoded, and wants it so.
            ("sshkeys", v) => scalar(v).map(|t| pve::ids::percent_encode(t.trim())),
            (_, v) => scalar(v),
        };
        if let Some(t) = text {
            want.insert((*key).to_owned(), t);
        }
    }
    for (arg, key) in [
        ("nameservers", "nameserver"),
        ("searchdomains", "searchdomain"),
    ] {
        if let Some(list) = args.strs(arg).filter(|l| !l.is_empty()) {
            want.insert(key.to_owned(), list.join(" "));
        }
    }
}

/// Numbered options.
fn devices(
    args: &Args,
    storage: Option<&str>,
    want: &mut BTreeMap<String, String>,
    errors: &mut Vec<ArgError>,
) {
    for family in FAMILIES {
        for (key, value) in args.dict(family).into_iter().flatten() {
            let path = format!("{family}.{key}");
            let Ok(k) = key.parse::<ConfigKey>() else {
                errors.push(arg_error(
                    &path,
                    None,
                    format!("is no slot; give {family}0, {family}1, ..."),
                ));
                continue;
            };
            if k.stem() != *family || key == family {
                errors.push(arg_error(
                    &path,
                    None,
                    format!("does not belong under `{family}`; give {family}0, {family}1, ..."),
                ));
                continue;
            }
            let Some(mut text) = scalar(value) else {
                continue;
            };
            if k.is_bus_drive()
                && let Some(s) = storage
            {
                let (size, rest) = text.split_at(text.find(',').unwrap_or(text.len()));
                if size.parse::<f64>().is_ok() {
                    text = format!("{s}:{size}{rest}");
                }
            }
            want.insert(key.clone(), text);
        }
    }
    if let Some(cd) = args.str("cdrom") {
        let text = if cd.contains("media=") {
            cd.to_owned()
        } else {
            format!("{cd},media=cdrom")
        };
        if want.insert("ide2".to_owned(), text).is_some() {
            errors.push(arg_error(
                "cdrom",
                None,
                "is another name for ide2, which is also given; leave one out",
            ));
        }
    }
}

/// Whether the server would take it.
fn acceptable(key: &str, value: &str) -> Result<(), String> {
    let k: ConfigKey = key.parse().map_err(|e: pve::KeyError| e.to_string())?;
    if k.schema().keys.is_some() {
        return match PropString::parse_checked(key, value) {
            Ok(_) => Ok(()),
            // A merged value only names what it changes: the agent's `enabled`, a card's model may be there already.
            Err(_) if k.is_net() || key == "agent" => PropString::parse(key, value)
                .and_then(|p| check_named(&p))
                .map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
    }
    if key == "sshkeys"
        && let Some(line) = pve::ssh::no_public_key(&pve::ids::percent_decode(value))
    {
        return Err(format!(
            "the line {line:?} is no public SSH key; give TYPE KEY COMMENT as in a .pub file, one a line"
        ));
    }
    match pve::check::refusal(k.schema(), value) {
        Some((why, way_out)) => Err(format!("{why}; {way_out}")),
        None => Ok(()),
    }
}

/// Checks the keys that are there, not that all needed ones are.
fn check_named(p: &PropString) -> Result<(), pve::PropError> {
    let mut whole = p.clone();
    for (name, value) in [("model", "virtio"), ("enabled", "1")] {
        if whole.get(name).is_none()
            && whole
                .key()
                .schema()
                .keys
                .as_ref()
                .is_some_and(|k| k.contains_key(name))
        {
            whole.set(name, value)?;
        }
    }
    whole.check()
}

/// The argument that gave an option, for messages.
fn argument_of(key: &str) -> String {
    if let Some((arg, _)) = PLAIN.iter().find(|(_, k)| *k == key) {
        return (*arg).to_owned();
    }
    match key.parse::<ConfigKey>() {
        Ok(k) if FAMILIES.contains(&k.stem()) => format!("{}.{key}", k.stem()),
        _ => key.to_owned(),
    }
}

fn removals(
    args: &Args,
    want: &BTreeMap<String, String>,
    errors: &mut Vec<ArgError>,
) -> (Vec<String>, Vec<String>) {
    let split = |name: &str| -> Vec<String> {
        args.str(name)
            .map(|t| pve::check::split_list(t).map(str::to_owned).collect())
            .unwrap_or_default()
    };
    let key_of = |name: &str| -> String {
        let special = [
            ("nameservers", "nameserver"),
            ("searchdomains", "searchdomain"),
        ];
        PLAIN
            .iter()
            .chain(&special)
            .find(|(arg, _)| *arg == name)
            .map_or(name, |(_, k)| k)
            .to_owned()
    };
    let mut check = |from: &str, names: Vec<String>| -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for n in names {
            let key = key_of(&n);
            if key.parse::<ConfigKey>().is_err() && key != "tags" && key != "name" {
                errors.push(arg_error(
                    from,
                    Some(n),
                    "is no option of a guest; give names such as description or net1",
                ));
            } else if want.contains_key(&key) {
                errors.push(arg_error(
                    from,
                    Some(n),
                    "is also given a value; leave one out",
                ));
            } else if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    };
    let mut unset = check("unset", args.strs("unset").unwrap_or_default());
    for k in check("delete", split("delete")) {
        if !unset.contains(&k) {
            unset.push(k);
        }
    }
    let revert = check("revert", split("revert"));
    unset.sort();
    (unset, revert)
}
