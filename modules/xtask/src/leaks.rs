//! Runs every module with secrets as its arguments and looks for them in everything that comes out.

use crate::demo::Stage;
use crate::docs;
use crate::lab::Lab;
use crate::truth;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Characters that are written otherwise in URLs, JSON, XML and Python.
const ODD: &str = "&<\"'%+ö 7";

/// Gives how many results and bytes were looked at.
pub fn run(root: &Path, stage: &Stage) -> Result<String, String> {
    let state = root.join(".lab/secrets");
    let text = std::fs::read_to_string(root.join("tests/lab/demo-world.json"))
        .map_err(|e| format!("demo-world.json: {e}"))?;
    let mut world: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let secrets = [
        ("pve_password", format!("PveRoot{ODD}")),
        (
            "pve_token_secret",
            "7be0c0de-5ec7-4e75-9d1c-70caca0ffee7".to_owned(),
        ),
        ("vsphere_password", format!("VcAdmin{ODD}")),
        ("wrong_secret", format!("Mistaken{ODD}")),
        ("ci_password", format!("CloudInit{ODD}")),
        (
            "lock_token",
            "10ccedca-fe00-4000-8000-5ec7e75ec7e7".to_owned(),
        ),
    ];
    world["pve"]["users"][0]["password"] = secrets[0].1.clone().into();
    world["pve"]["tokens"]["migrate@pve"][0]["secret"] = secrets[1].1.clone().into();
    world["vcenter"]["users"][0]["password"] = secrets[2].1.clone().into();
    let files = root.join(".lab/secrets-in");
    let io = |e: std::io::Error| format!("{}: {e}", files.display());
    std::fs::create_dir_all(&files).map_err(io)?;
    let world_file = files.join("world.json");
    std::fs::write(&world_file, world.to_string()).map_err(io)?;
    let lab = Lab::start(root, &world_file, &state, 3)?;

    let (pve_host, pve_port) = lab.pve.rsplit_once(':').unwrap_or_default();
    let (vc_host, vc_port) = lab.vcenter.rsplit_once(':').unwrap_or_default();
    let mut vars = json!({
        "lab_pve_host": pve_host, "lab_pve_port": pve_port, "lab_vcenter_host": vc_host, "lab_vcenter_port": vc_port,
        "lab_ca": lab.state.join("ca.pem"), "lab_export": lab.state.join("export"),
    });
    for (name, value) in &secrets {
        vars[name] = value.clone().into();
    }
    let vars_file = files.join("vars.json");
    std::fs::write(&vars_file, vars.to_string()).map_err(io)?;

    let mut outputs: Vec<(String, String)> = vec![];
    let mut lines = vec![];
    for (name, flags) in [("check", &["--check"][..]), ("real", &[])] {
        let (log, journal) = (
            state.join(format!("{name}.jsonl")),
            state.join(format!("{name}.journal")),
        );
        let mut c = stage.command(root, &lab, "ansible-playbook", &log, "whole");
        c.arg(root.join("tests/ansible/secrets.yml"))
            .args(["-vvv", "--diff", "-i", "localhost,", "-e"])
            .arg(format!("@{}", vars_file.display()))
            .args(flags)
            .env("TRUEPLAN_JOURNAL", &journal);
        let o = c.output().map_err(|e| format!("ansible-playbook: {e}"))?;
        if !o.status.success() {
            return Err(format!(
                "secrets.yml, {name}: {}\n{}\n{}",
                o.status,
                String::from_utf8_lossy(&o.stdout),
                String::from_utf8_lossy(&o.stderr)
            ));
        }
        outputs.push((format!("{name}: standard output"), lossy(&o.stdout)));
        outputs.push((format!("{name}: standard error"), lossy(&o.stderr)));
        outputs.push((format!("{name}: results"), read(&log)?));
        let text = read(&journal)?;
        if name == "real" && text.lines().count() < 20 {
            return Err(format!("{}: hardly anything in it", journal.display()));
        }
        outputs.push((format!("{name}: journal"), text));
        if name == "real" {
            lines = truth::read(&log, &lab.state)?;
        }
    }
    outputs.extend(inventory(root, stage, &lab, &secrets[3].1)?);
    every_module(&lines)?;

    let mut found = vec![];
    for (place, text) in &outputs {
        for (name, secret) in &secrets {
            for form in forms(secret) {
                if let Some(at) = text.find(&form) {
                    found.push(format!("{name} in {place}: {}", around(text, at)));
                    break;
                }
            }
        }
        // What a sign-in gives is as good as the password while it lasts.
        for ticket in [
            "PVE:root@pam:",
            "PVE%3Aroot%40pam%3A",
            "vmware_soap_session=",
            "CSRFPreventionToken\":\"",
        ] {
            if let Some(at) = text.find(ticket) {
                found.push(format!("a session in {place}: {}", around(text, at)));
            }
        }
    }
    if !found.is_empty() {
        return Err(format!("secrets were shown:\n  {}", found.join("\n  ")));
    }
    Ok(format!(
        "{} results, {} KiB of output, results and journals: none of {} secrets in any spelling",
        lines.len(),
        outputs.iter().map(|(_, t)| t.len()).sum::<usize>() / 1024,
        secrets.len()
    ))
}

/// The inventory plugin, with the right password and with a wrong one.
fn inventory(
    root: &Path,
    stage: &Stage,
    lab: &Lab,
    wrong: &str,
) -> Result<Vec<(String, String)>, String> {
    let mut all = vec![];
    for right in [true, false] {
        let mut c = stage.command(
            root,
            lab,
            "ansible-inventory",
            &PathBuf::from("/dev/null"),
            "whole",
        );
        c.args(["--list", "-vvv", "-i"])
            .arg(root.join("tests/lab/inventory/lab.vms.yml"));
        if !right {
            c.env("VMWARE_PASSWORD", wrong);
        }
        let o = c.output().map_err(|e| format!("ansible-inventory: {e}"))?;
        let text = lossy(&o.stdout) + &lossy(&o.stderr);
        if o.status.success() != right || right != text.contains("web01") {
            return Err(format!(
                "ansible-inventory with the right password: {right}: {}\n{text}",
                o.status
            ));
        }
        all.push((format!("inventory, right password {right}"), text));
    }
    Ok(all)
}

/// Every module has succeeded and failed, else the search says little.
fn every_module(lines: &[truth::Line]) -> Result<(), String> {
    let mut missing = vec![];
    for s in docs::modules() {
        let name = format!("trueplan.virt.{}", s.name);
        let of = |good: bool| {
            lines
                .iter()
                .any(|l| l.action == name && (l.status == "failed") != good)
        };
        if !of(true) {
            missing.push(format!("{name} never succeeded"));
        }
        if !of(false) {
            missing.push(format!("{name} never failed"));
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("tests/ansible/secrets.yml: {}", missing.join("; ")))
    }
}

/// How a secret can be written.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap_or_default();
    let json = json.trim_matches('"').to_owned();
    // A JSON text within a JSON text, as in Ansible's output of an output.
    let twice = serde_json::to_string(&json).unwrap_or_default();
    let percent = |space: &str| -> String {
        secret
            .bytes()
            .map(|b| match b {
                b' ' => space.to_owned(),
                b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => char::from(b).to_string(),
                b => format!("%{b:02X}"),
            })
            .collect()
    };
    let mut all = vec![
        secret.to_owned(),
        json.clone(),
        json.replace('ö', "\\u00f6"),
        twice.trim_matches('"').to_owned(),
        percent("%20"),
        percent("+"),
        secret
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;"),
        secret.replace('&', "&amp;").replace('<', "&lt;"),
        secret.replace('\'', "\\'"),
    ];
    // Cut off at the first odd character it is still most of a secret, whatever comes after is written like.
    if let Some(word) = secret.strip_suffix(ODD) {
        all.push(word.to_owned());
    }
    all
}

fn around(text: &str, at: usize) -> String {
    let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let before: String = text[line..at].chars().rev().take(160).collect();
    let before: String = before.chars().rev().collect();
    let after: String = text[at..].chars().take(80).collect();
    format!("{before}>>>{}", after.lines().next().unwrap_or_default())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read(path)
        .map(|b| lossy(&b))
        .map_err(|e| format!("{}: {e}", path.display()))
}
