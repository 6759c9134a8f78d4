//! Steps that write a guest's configuration, and what is looked at before them.

use crate::look::{Look, Stop};
use crate::pve_common::{Guest, text};
use crate::pve_foresee::{self as foresee, Change};
use plan::{Arg, Effect, ErrorKind, Fact, Refusal, Request, Step, Tolerance};
use pve::keys::PveKey;
use pve::{ConfigKey, PropString};
use serde_json::{Map, Value};

/// Parameters that no plan shows.
pub const SECRET: &[&str] = &["cipassword"];

/// One PUT of a configuration: options, then `delete`, `revert` and the digest that was read.
pub fn put_config(
    guest: &Guest<'_>,
    change: &Change,
    running: bool,
    why: impl Into<String>,
) -> Step {
    let mut r = with_settings(Request::new("PUT", guest.path("/config")), change);
    if !change.delete.is_empty() {
        r = r.param("delete", change.delete.join(","));
        if change.force {
            r = r.param("force", 1);
        }
    }
    if !change.revert.is_empty() {
        r = r.param("revert", change.revert.join(","));
    }
    r = r.arg("digest", guest.digest());
    let step = Step::new(r, why).tolerate(Tolerance::Replan("checksum mismatch"));
    // Source: docs/pve-running.md rule 2: the value was stored all the same and applies at the next stop.
    if running {
        step.tolerate(Tolerance::StoredAllTheSame("hotplug problem - "))
    } else {
        step
    }
}

/// The guest after the change; notes what the running guest itself will decide about.
pub fn foreseen(look: &Look<'_>, guest: &Guest<'_>, running: bool, change: &Change) -> Value {
    if running {
        for key in foresee::guest_decides(guest, change) {
            look.note(format!(
                "whether {key} applies at once: the running guest decides; if not, it waits for the next stop"
            ));
        }
    }
    foresee::changed(guest, running, change)
}

/// Adds the options of a change as parameters.
pub fn with_settings(mut request: Request, change: &Change) -> Request {
    for s in &change.set {
        request = request.arg(&s.key, setting_arg(&s.key, &s.sent));
    }
    request
}

fn setting_arg(key: &str, sent: &str) -> Arg {
    if SECRET.contains(&key) {
        Arg::Secret(sent.to_owned())
    } else {
        Arg::Lit(Value::from(sent))
    }
}

/// The MAC address for a card without one (DESIGN.md section 1).
///
/// # Errors
/// [`Stop::Missing`].
pub fn mac_for(look: &Look<'_>, vmid: u32, interface: &str) -> Result<String, Stop> {
    let card = interface
        .parse::<ConfigKey>()
        .ok()
        .and_then(|k| k.index())
        .unwrap_or(0);
    let nodes: Vec<String> = node_names(look)?;
    Ok(pve::naming::mac_for(vmid, card, &nodes).as_str().to_owned())
}

/// Names of the cluster's nodes.
///
/// # Errors
/// [`Stop::Missing`].
pub fn node_names(look: &Look<'_>) -> Result<Vec<String>, Stop> {
    let nodes = look.fact(&PveKey::Nodes)?.known().and_then(Value::as_array);
    Ok(nodes
        .into_iter()
        .flatten()
        .filter_map(|n| n["node"].as_str().map(str::to_owned))
        .collect())
}

/// Says which other card of the guest has that MAC address.
///
/// # Errors
/// The cause and what to do.
pub fn check_duplicate_mac(
    guest: &Guest<'_>,
    interface: &str,
    mac: Option<&str>,
) -> Result<(), String> {
    match (mac, twin(guest.config(), interface, mac)) {
        (Some(mac), Some(other)) => Err(format!(
            "MAC address {mac} is already that of {other}; give {interface} another one"
        )),
        _ => Ok(()),
    }
}

/// Another card with that MAC address.
pub fn twin(config: &Map<String, Value>, interface: &str, mac: Option<&str>) -> Option<String> {
    let mac = mac?;
    pve::config::nics(config)
        .iter()
        .filter(|n| n.key().as_str() != interface)
        .find(|n| {
            n.get("macaddr")
                .is_some_and(|m| m.eq_ignore_ascii_case(mac))
        })
        .map(|n| n.key().as_str().to_owned())
}

/// What changes within one option, in words.
pub fn why_changed(key: &str, old: &str, new: &str) -> String {
    let (Ok(a), Ok(b)) = (PropString::parse(key, old), PropString::parse(key, new)) else {
        return format!("set {key}");
    };
    let none = || "unset".to_owned();
    let parts: Vec<String> = a
        .diff(&b)
        .into_iter()
        .map(|d| {
            format!(
                "{} from {} to {}",
                d.name,
                d.before.unwrap_or_else(none),
                d.after.unwrap_or_else(none)
            )
        })
        .collect();
    format!("change {key}: {}", parts.join(", "))
}

/// Whether a change of a running guest's cards interrupts its network.
pub fn interrupts(guest: &Guest<'_>, change: &Change) -> bool {
    let quiet = ["firewall", "rate"];
    change.delete.iter().any(|k| is_net(k))
        || change.set.iter().filter(|s| is_net(&s.key)).any(|s| {
            let old = guest.current().get(&s.key).map(text);
            let old = old.and_then(|o| PropString::parse(&s.key, &o).ok());
            let new = PropString::parse(&s.key, &s.stored).ok();
            match (old, new) {
                (Some(o), Some(n)) => o.diff(&n).iter().any(|d| !quiet.contains(&d.name.as_str())),
                _ => false,
            }
        })
}

/// [`permitted`] for the steps of a plan, each against the configuration that those before it leave: an `unusedN` that one makes is what
/// the next destroys, and that needs a privilege on its storage (source: qemu-server, PVE/API2/Qemu.pm, `try_deallocate_drive`).
///
/// # Errors
/// `permission`, naming privilege and path.
pub fn permitted_steps(
    look: &Look<'_>,
    guest: &Guest<'_>,
    steps: &[Step],
    what: &str,
) -> Result<(), Stop> {
    let key = PveKey::Guest(guest.vmid()).key();
    let mut config = guest.config().clone();
    for s in steps {
        permitted(look, &config, &s.request, what)?;
        let after = s.effects.iter().find_map(|e| match e {
            Effect::Put(k, v) if *k == key => v["config"].as_object(),
            _ => None,
        });
        if let Some(after) = after {
            config.clone_from(after);
        }
    }
    Ok(())
}

/// Asks beforehand whether the server would let us send this request (docs/pve-privileges.md, rule 1), since a mixed PUT can be
/// half stored and still answer 403. `what` completes `unable to ...`.
///
/// # Errors
/// `permission`, naming privilege and path.
pub fn permitted(
    look: &Look<'_>,
    config: &Map<String, Value>,
    request: &Request,
    what: &str,
) -> Result<(), Stop> {
    let who = look
        .aux(&PveKey::WhoAmI, "who we are")?
        .and_then(Fact::known);
    if who.is_some_and(|w| w["root_login"] == true) {
        return Ok(());
    }
    let params: Map<String, Value> = request
        .params
        .iter()
        .filter_map(|(k, a)| Some((k.clone(), a.resolve(&[])?)))
        .collect();
    let asked = pve::needs::Request {
        method: &request.verb,
        path: &request.path,
        params: &params,
    };
    let me = who.map_or("the user".to_owned(), |w| {
        let user = w["user"].as_str().unwrap_or("the user");
        match w["token"].as_str() {
            Some(t) => format!("{user} with token {t}"),
            None => user.to_owned(),
        }
    });
    let root = pve::needs::root_only(&asked, config);
    if !root.is_empty() {
        return Err(Refusal::kind(
            ErrorKind::Permission,
            format!(
                "unable to {what}: only the login root@pam with its password may set {} (no token, not even root's), and this is {me}; sign in as root@pam, or leave that out",
                root.join(", ")
            ),
        )
        .into());
    }
    let touches_nets = params.keys().any(|k| is_net(k))
        || params
            .get("delete")
            .and_then(Value::as_str)
            .is_some_and(|d| d.split(',').any(is_net));
    let of_a_vnet = request.path.starts_with("/cluster/sdn/vnets/");
    let vnets: &[Value] = match touches_nets || of_a_vnet {
        true => look
            .aux(&PveKey::SdnVnets, "zones of the vnets")?
            .and_then(Fact::known)
            .and_then(|v| v["entries"].as_array())
            .map_or(&[], Vec::as_slice),
        false => &[],
    };
    let zone_of = |bridge: &str| {
        vnets.iter().find(|v| v["vnet"] == bridge).and_then(|v| {
            // The zone of a vnet that is new and not applied is only there.
            let zone = v["zone"].as_str().or(v["pending"]["zone"].as_str());
            zone.map(str::to_owned)
        })
    };
    let needs = pve::needs::needs(&asked, config, &zone_of);
    let paths: Vec<PveKey> = needs
        .iter()
        .flat_map(pve::needs::AnyOf::paths)
        .map(|p| PveKey::Perms(p.to_owned()))
        .collect();
    look.want(&paths)?;
    for k in &paths {
        look.aux(k, "privileges")?;
    }
    let granted = |path: &str, privilege: &str| match look.fact(&PveKey::Perms(path.to_owned())) {
        Ok(Fact::Known(p)) => crate::pve_common::granted(p, privilege),
        // What the server does not say refuses nothing.
        _ => true,
    };
    let mut lacking: Vec<String> = Vec::new();
    for need in needs.iter().filter(|n| !n.met(granted)) {
        // A vnet that we may use but not audit is in no list, and its zone is then unknown (docs/pve-privileges.md, filtering).
        let maybe_vnet = need.paths().any(|p| {
            p.strip_prefix("/sdn/zones/localnetwork/")
                .is_some_and(|b| !b.starts_with("vmbr"))
        });
        if maybe_vnet {
            look.note(format!("{need}, if that is no vnet of another zone"));
        } else {
            lacking.push(need.to_string());
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let hint = match who.is_some_and(|w| w["token"].is_string()) {
        true => "; a privilege-separated token needs them itself, beside its user",
        false => "",
    };
    Err(Refusal::kind(
        ErrorKind::Permission,
        format!(
            "unable to {what}: {me} lacks {}; grant it{hint}",
            lacking.join(" and ")
        ),
    )
    .with("missing_privileges", lacking)
    .into())
}

fn is_net(key: &str) -> bool {
    key.parse::<ConfigKey>().is_ok_and(|k| k.is_net())
}
