//! What earlier tasks of a check run planned, laid over what is read.

use crate::keys::{VcKey, VmBy};
use plan::{Fact, Key, Ledger};
use serde_json::{Value, json};

fn planned(ledger: &dyn Ledger, moid: &str) -> Option<Fact> {
    ledger.get(&VcKey::vm(moid))
}

fn state_of(vm: &Value) -> Value {
    json!({
        "power": vm["power"],
        "connection": vm["connection"],
        "question": vm["question"],
        "tools_running": vm["tools"]["running"],
        "guest_state": vm["guest"]["state"],
    })
}

/// Replaces a machine that was planned, under whatever key it was asked for: found by name, in a list, or its state alone.
pub fn overlay(key: &Key, fact: Fact, ledger: &dyn Ledger) -> Fact {
    let Some(k) = VcKey::parse(key) else {
        return fact;
    };
    match (k, fact) {
        (VcKey::Vm { by, .. }, Fact::Known(v)) if !matches!(by, VmBy::Moid(_)) => v["moid"]
            .as_str()
            .and_then(|m| planned(ledger, m))
            .unwrap_or(Fact::Known(v)),
        // A machine found by moid inside a datacenter has a key of its own.
        (
            VcKey::Vm {
                by: VmBy::Moid(m),
                datacenter: Some(_),
            },
            Fact::Known(v),
        ) => planned(ledger, &m).unwrap_or(Fact::Known(v)),
        (VcKey::VmState(m), Fact::Known(v)) => match planned(ledger, &m) {
            Some(Fact::Known(vm)) => Fact::Known(state_of(&vm)),
            Some(Fact::Absent) => Fact::Absent,
            _ => Fact::Known(v),
        },
        (VcKey::Vms { .. }, Fact::Known(Value::Array(list))) => Fact::Known(Value::Array(
            list.into_iter()
                .filter_map(
                    |v| match v["moid"].as_str().and_then(|m| planned(ledger, m)) {
                        Some(Fact::Known(vm)) => Some(vm),
                        Some(Fact::Absent) => None,
                        _ => Some(v),
                    },
                )
                .collect(),
        )),
        // The server judges the machine as it is now, not as an earlier task of this run will leave it.
        (VcKey::RelocateCheck { vm, .. }, _) if planned(ledger, &vm).is_some() => {
            Fact::Unreadable("an earlier task of this check run changes the machine first".into())
        }
        (_, fact) => fact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::MemoryLedger;

    #[test]
    fn a_planned_machine_is_found_by_any_name() {
        let mut l = MemoryLedger::default();
        let planned = json!({"moid": "vm-1", "name": "web", "power": "poweredOff", "tools": {"running": "guestToolsNotRunning"}});
        l.put(&VcKey::vm("vm-1"), &Fact::Known(planned.clone()));
        let read = json!({"moid": "vm-1", "name": "web", "power": "poweredOn"});
        let by_name = VcKey::Vm {
            by: VmBy::Name("web".into()),
            datacenter: Some("DC0".into()),
        };
        assert_eq!(
            overlay(&by_name.key(), Fact::Known(read.clone()), &l),
            Fact::Known(planned.clone())
        );
        let state = overlay(
            &VcKey::VmState("vm-1".into()).key(),
            Fact::Known(json!({"power": "poweredOn"})),
            &l,
        );
        assert_eq!(
            state.known().map(|s| &s["power"]),
            Some(&json!("poweredOff"))
        );
        let other = json!({"moid": "vm-2", "power": "poweredOn"});
        let all = overlay(
            &VcKey::Vms { datacenter: None }.key(),
            Fact::Known(json!([read, other])),
            &l,
        );
        assert_eq!(all, Fact::Known(json!([planned, other])));
    }
}
