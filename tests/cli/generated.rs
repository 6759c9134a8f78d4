//! Generated triples: worlds times desired states, through the built binary and HTTPS. Check mode writes nothing and says what happens;
//! a second run changes nothing.
//!
//! A few cases of each module run always; `TRUEPLAN_TEST_FULL=1` runs the counts of the issues. `TRUEPLAN_TEST_SEED` and
//! `TRUEPLAN_TEST_CASES` choose others; a case follows from its seed alone, so that `TRUEPLAN_TEST_SEED=N TRUEPLAN_TEST_CASES=1`
//! repeats one. `TRUEPLAN_TEST_WHY=1` shows why cases are refused, `TRUEPLAN_TEST_NO_SHRINK=1` leaves disagreements as they are.

mod generate;
mod playbooks;
mod support;

use generate::{Case, Gen};
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use support::triple::agree_but;
use support::{Call, Done, Lab, full, worlds};

/// Cases that run always; also the seed of the first.
const FEW: u64 = 15;
const FIRST: u64 = 1;
/// A lab's request log grows with every run and is read by each.
const CASES_A_LAB: u64 = 25;
/// So many disagreements are shown.
const SHOWN: usize = 12;
/// So often a disagreement is tried with less.
const SHRINKS: usize = 40;

/// What a case came to.
#[derive(PartialEq)]
enum Came {
    Refused,
    Changed,
    Unchanged,
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The text of the panic, if there is one.
fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let r = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(false);
    r.map_err(|e| match e.downcast_ref::<String>() {
        Some(s) => s.clone(),
        None => e.downcast_ref::<&str>().unwrap_or(&"?").to_string(),
    })
}

fn call<'a>(lab: &'a Lab, module: &str, args: &Value, login: &str) -> Call<'a> {
    let mut all = match (module.starts_with("pve_"), login) {
        (true, "deploy") => lab.user("deploy@pve"),
        (true, "token") => {
            json!({"api_host": lab.pve(), "api_token_id": "deploy@pve!ci", "api_token_secret": worlds::TOKEN_SECRET, "ca_path": lab.ca()})
        }
        _ => lab.sign_in(module),
    };
    for (k, v) in args.as_object().expect("an object") {
        all[k] = v.clone();
    }
    if all["export"] == "EXPORT" {
        all["export"] = json!(lab.export());
    }
    lab.bare(module, all)
}

/// Runs a case from a fresh world; panics where the runs disagree.
fn attempt(lab: &Lab, case: &Case) -> Came {
    lab.reset(Some(case.world.clone()));
    for (path, bytes) in &case.files {
        let file = lab.export().join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, vec![7u8; *bytes]).expect("a file");
    }
    for (module, args) in &case.before {
        call(lab, module, args, "root").run();
    }
    for p in &case.patches {
        lab.set(p.clone());
    }
    let call = call(
        lab,
        case.module,
        &Value::Object(case.args.clone()),
        case.login,
    );
    let (writes, files) = (lab.writes(), lab.files());
    let check = call.clone().check(true).run();
    if lab.writes() != writes {
        check.fail("check mode wrote to the lab");
    }
    if lab.files() != files {
        check.fail("check mode touched files");
    }
    if check["error_kind"] == "internal" {
        check.fail("an internal error");
    }
    let apply = call.clone().run();
    agree_but(&check, &apply, &["pending"]);
    // Whether a guest lets go of a device nobody foresees, and no plan or diff depends on it: it must have been announced.
    let waits = |d: &Done| {
        let mut pending = d["pending"].as_object().cloned().unwrap_or_default();
        for note in check["unverified"].as_array().into_iter().flatten() {
            let key = note
                .as_str()
                .and_then(|n| n.strip_prefix("whether ")?.split(' ').next());
            key.and_then(|k| pending.remove(k));
        }
        pending
    };
    if waits(&check) != waits(&apply) {
        apply.fail(&format!(
            "`pending` differs between the runs.\n   first:  {}\n   second: {}",
            check["pending"], apply["pending"]
        ));
    }
    if check.is_failed() && lab.writes() != writes {
        apply.fail("check mode refused it, and yet it wrote");
    }
    if apply.warnings().iter().any(|w| w.contains("foreseen")) {
        apply.fail("the server did something else than foreseen");
    }
    let writes = lab.writes();
    let again = call.run();
    if check.is_failed() {
        if again["msg"] != apply["msg"] {
            again.fail(&format!(
                "a second run fails otherwise, at first: {}",
                apply.msg()
            ));
        }
    } else if case.repeatable {
        if again.is_failed() || again.changed() || again.plan() != "[]" {
            again.fail("a second run is not unchanged");
        }
        if lab.writes() != writes {
            again.fail("a second run wrote to the lab");
        }
        if again["diff"]["before"] != again["diff"]["after"] {
            again.fail("a second run shows a difference");
        }
    }
    let w = lab.world();
    if case.patches.is_empty() && w["pve"]["sdn"]["locked"] == true {
        again.fail("the SDN lock was left");
    }
    if w["vcenter"]["sessions"].as_u64().is_some_and(|n| n > 0) {
        again.fail("a session was left");
    }
    if check.is_failed() {
        if std::env::var_os("TRUEPLAN_TEST_WHY").is_some() {
            let _ = writeln!(
                std::io::stderr(),
                "refused {}: {}",
                case.module,
                check.msg()
            );
        }
        Came::Refused
    } else if apply.changed() {
        Came::Changed
    } else {
        Came::Unchanged
    }
}

/// The same with one thing less, for everything that can be left out.
fn smaller(c: &Case) -> Vec<Case> {
    let mut out = vec![];
    let mut without = |f: &dyn Fn(&mut Case)| {
        let mut s = c.clone();
        f(&mut s);
        out.push(s);
    };
    for i in 0..c.before.len() {
        without(&|s| drop(s.before.remove(i)));
    }
    if c.login != "root" {
        without(&|s| s.login = "root");
    }
    for k in c.args.keys() {
        without(&|s| drop(s.args.remove(k)));
    }
    let guests = c.world["pve"]["guests"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for (i, guest) in guests.iter().enumerate() {
        without(&|s| drop(s.world["pve"]["guests"].as_array_mut().map(|l| l.remove(i))));
        if guest["vmid"] == c.args.get("vmid").cloned().unwrap_or_default() {
            for k in guest["config"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, _)| k)
            {
                without(&|s| {
                    drop(
                        s.world["pve"]["guests"][i]["config"]
                            .as_object_mut()
                            .map(|m| m.remove(k)),
                    )
                });
            }
        }
    }
    out
}

fn kind(why: &str) -> &str {
    why.lines().next().unwrap_or("")
}

fn shrink(lab: &Lab, mut case: Case, mut why: String) -> (Case, String) {
    let mut left = SHRINKS;
    'again: loop {
        for s in smaller(&case) {
            if left == 0 {
                break 'again;
            }
            left -= 1;
            if let Err(e) = caught(|| attempt(lab, &s))
                && kind(&e) == kind(&why)
            {
                (case, why) = (s, e);
                continue 'again;
            }
        }
        break;
    }
    (case, why)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn hold(title: &str, many: u64, make: impl Fn(&mut Gen) -> Case) {
    let first = number("TRUEPLAN_TEST_SEED").unwrap_or(FIRST);
    let cases = number("TRUEPLAN_TEST_CASES").unwrap_or(if full() { many } else { FEW });
    let (mut refused, mut changed, mut unchanged) = (0, 0, 0);
    let mut lab = None;
    let mut wrong: Vec<String> = vec![];
    let mut done = 0;
    for seed in first..first + cases {
        if (seed - first).is_multiple_of(CASES_A_LAB) {
            lab = None;
        }
        let case = make(&mut Gen::new(seed));
        let lab = lab.get_or_insert_with(|| Lab::start(case.world.clone()));
        done += 1;
        match caught(|| attempt(lab, &case)) {
            Ok(Came::Refused) => refused += 1,
            Ok(Came::Changed) => changed += 1,
            Ok(Came::Unchanged) => unchanged += 1,
            Err(why) => {
                let (case, why) = if number("TRUEPLAN_TEST_NO_SHRINK").is_some() {
                    (case, why)
                } else {
                    shrink(lab, case, why)
                };
                let guest = case.args.get("vmid").map(|v| {
                    let list = case.world["pve"]["guests"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    list.into_iter().find(|x| {
                        x["vmid"]
                            == v.to_string()
                                .replace('"', "")
                                .parse::<u64>()
                                .unwrap_or_default()
                    })
                });
                // At once, since a long run may be broken off.
                let _ = writeln!(std::io::stderr(), "{title}: seed {seed}: {}", kind(&why));
                wrong.push(format!(
                    "==== {title}: seed {seed} (TRUEPLAN_TEST_SEED={seed} TRUEPLAN_TEST_CASES=1)\n-- args: {}\n-- login {}, before: {}, patches: {}, guest: {}\n{why}",
                    Value::Object(case.args),
                    case.login,
                    json!(case.before),
                    json!(case.patches),
                    json!(guest)
                ));
            }
        }
        if wrong.len() >= SHOWN {
            break;
        }
    }
    let last = first + done - 1;
    let line = format!(
        "triples {title}: {done} cases, {} disagreements ({refused} refused, {changed} changed, {unchanged} unchanged), seeds {first}..{last}",
        wrong.len()
    );
    // Past the capture: a figure of every run.
    let _ = writeln!(std::io::stderr(), "{line}");
    assert!(wrong.is_empty(), "{line}\n{}", wrong.join("\n"));
}

#[test]
fn pve_vm_shell() {
    hold("pve_vm_shell", 300, generate::shell::case);
}

#[test]
fn pve_nic() {
    hold("pve_nic", 300, generate::nic::case);
}

#[test]
fn pve_disk_import() {
    hold("pve_disk_import", 300, generate::disk::case);
}

#[test]
fn pve_zone() {
    hold("pve_zone", 300, generate::sdn::zone);
}

#[test]
fn pve_vnet() {
    hold("pve_vnet", 300, generate::sdn::vnet);
}

#[test]
fn pve_acl() {
    hold("pve_acl", 300, generate::access::acl);
}

#[test]
fn pve_pool_member() {
    hold("pve_pool_member", 300, generate::access::pool);
}

#[test]
fn vsphere_relocate() {
    hold("vsphere_relocate", 200, generate::vsphere::relocate);
}

#[test]
fn vsphere_powerstate() {
    hold("vsphere_powerstate", 200, generate::vsphere::power);
}

#[test]
fn vsphere_note() {
    hold("vsphere_note", 200, generate::vsphere::note);
}

#[test]
fn vmdk_descriptor() {
    hold("vmdk_descriptor", 200, generate::vsphere::descriptor);
}

#[test]
fn pve_ha_resource() {
    hold("pve_ha_resource", 300, generate::access::ha);
}

#[test]
fn vsphere_vm() {
    hold("vsphere_vm", 200, generate::vsphere::removal);
}
