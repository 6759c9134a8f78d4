//! `cargo xtask demo`: the whole migration of the lab's estate, in check mode and for real, with every byte compared.

use crate::lab::Lab;
use crate::truth::{self, Line};
use crate::{dist, env};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The stages in order, as tags.
const STAGES: &[&str] = &["discover", "sdn", "build", "relocate", "cutover"];

/// What the demo needs beside the lab: an environment with Ansible and the installed collection.
pub struct Stage {
    /// The virtual environment.
    pub venv: PathBuf,
    /// Where the collection is installed.
    pub collections: PathBuf,
}

impl Stage {
    /// Builds the tarball and installs it where only this project sees it.
    pub fn install(root: &Path, debug: bool) -> Result<Stage, String> {
        Stage::install_tarball(
            root,
            &dist::run(
                root,
                &dist::Wanted {
                    check: true,
                    debug,
                    archs: &[],
                },
            )?,
        )
    }

    /// Installs that tarball.
    pub fn install_tarball(root: &Path, tarball: &Path) -> Result<Stage, String> {
        let venv = root.join(".venv");
        let collections = root.join(".lab/collections");
        let _ = std::fs::remove_dir_all(&collections);
        env::output(
            root,
            venv.join("bin/ansible-galaxy"),
            &[
                "collection",
                "install",
                "--force",
                "--collections-path",
                &collections.display().to_string(),
                &tarball.display().to_string(),
            ],
        )?;
        Ok(Stage { venv, collections })
    }

    /// The migration's playbook in the lab's environment, with the token that has the minimal roles of these stages.
    pub fn playbook(&self, root: &Path, lab: &Lab, log: &Path, tags: &str) -> Command {
        let mut c = self.command(root, lab, "ansible-playbook", log, token_of(tags));
        c.arg("trueplan.virt.migrate");
        c
    }

    /// A program of Ansible's in the lab's environment, with that token of migrate@pve.
    pub fn command(
        &self,
        root: &Path,
        lab: &Lab,
        program: &str,
        log: &Path,
        token: &str,
    ) -> Command {
        let mut c = Command::new(self.venv.join("bin").join(program));
        c.current_dir(root).stdin(Stdio::null());
        let (pve_host, pve_port) = lab.pve.rsplit_once(':').unwrap_or(("127.0.0.1", ""));
        let (vc_host, vc_port) = lab.vcenter.rsplit_once(':').unwrap_or(("127.0.0.1", ""));
        let ca = lab.state.join("ca.pem");
        let secret = |side: &str, pointer: &str| {
            lab.world[side]
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        c.env("ANSIBLE_COLLECTIONS_PATH", &self.collections)
            .env(
                "ANSIBLE_CALLBACK_PLUGINS",
                root.join("tests/lab/callback_plugins"),
            )
            .env("ANSIBLE_CALLBACKS_ENABLED", "truth_log")
            .env("ANSIBLE_INVENTORY", root.join("tests/lab/inventory"))
            .env("ANSIBLE_LOCALHOST_WARNING", "false")
            .env("ANSIBLE_INVENTORY_UNPARSED_FAILED", "true")
            .env("ANSIBLE_NOCOLOR", "true")
            .env("ANSIBLE_FORKS", "6")
            .env("TRUEPLAN_TRUTH_LOG", log)
            .env("TRUEPLAN_LAB_EXPORT", lab.state.join("export"))
            .env("PROXMOX_HOST", pve_host)
            .env("PROXMOX_PORT", pve_port)
            .env("PROXMOX_CA_PATH", &ca)
            .env("PROXMOX_TOKEN_ID", format!("migrate@pve!{token}"))
            .env("PROXMOX_TOKEN_SECRET", token_secret(&lab.world, token))
            .env("VMWARE_HOST", vc_host)
            .env("VMWARE_PORT", vc_port)
            .env("VMWARE_CA_PATH", &ca)
            .env("VMWARE_USER", secret("vcenter", "/users/0/name"))
            .env("VMWARE_PASSWORD", secret("vcenter", "/users/0/password"));
        c
    }
}

/// The token of docs/privileges.md for these stages: one of its own for each, and one that may do them all.
pub fn token_of(tags: &str) -> &str {
    match tags {
        // Relocation writes nothing here: it only looks whether the guest has gone over.
        "discover" | "relocate" => "discover",
        "sdn" | "build" | "cutover" | "status" | "verify" | "rollback" | "finish" => tags,
        "retire" => "verify",
        _ => "whole",
    }
}

fn token_secret(world: &Value, token: &str) -> String {
    let all = world["pve"]["tokens"]["migrate@pve"].as_array();
    let ours = all.into_iter().flatten().find(|t| t["tokenid"] == token);
    ours.map_or_else(String::new, |t| text(t, "secret"))
}

/// What one playbook run gave.
pub struct Run {
    /// Every result.
    pub lines: Vec<Line>,
    /// The play recap.
    pub recap: String,
    /// Writes that the lab saw, both sides.
    pub writes: usize,
}

/// Runs the playbook once. Refused guests make it fail by design, so only a run without a recap is an error.
pub fn play(
    root: &Path,
    stage: &Stage,
    lab: &Lab,
    name: &str,
    tags: &str,
    args: &[&str],
) -> Result<Run, String> {
    let log = lab.state.join(format!("{name}.jsonl"));
    let mut c = stage.playbook(root, lab, &log, tags);
    c.arg("--diff").args(["--tags", tags]).args(args);
    finish(lab, name, c)
}

/// Runs a playbook whose results go to `NAME.jsonl` in the lab's folder.
pub fn finish(lab: &Lab, name: &str, mut c: Command) -> Result<Run, String> {
    let log = lab.state.join(format!("{name}.jsonl"));
    let _ = std::fs::remove_file(&log);
    let before = lab.writes()?;
    let o = c.output().map_err(|e| format!("ansible-playbook: {e}"))?;
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    let _ = std::fs::write(lab.state.join(format!("{name}.out")), &o.stdout);
    let recap = text
        .split("PLAY RECAP")
        .nth(1)
        .map(|r| r.lines().skip(1).collect::<Vec<_>>().join("\n"));
    let Some(recap) = recap else {
        return Err(format!(
            "{name}: ansible-playbook ended without a recap:\n{text}\n{}",
            String::from_utf8_lossy(&o.stderr)
        ));
    };
    Ok(Run {
        lines: truth::read(&log, &lab.state)?,
        recap: recap.trim().to_owned(),
        writes: lab.writes()? - before,
    })
}

/// The whole demo. Any mismatch is an error at its end, after everything was shown.
pub fn run(root: &Path, seed: u64, debug: bool) -> Result<(), String> {
    env::qemu_img()?;
    let stage = Stage::install(root, debug)?;
    let started = Instant::now();
    let lab = Lab::start(
        root,
        &root.join("tests/lab/demo-world.json"),
        &root.join(".lab/demo"),
        seed,
    )?;
    println!(
        "\nlab: Proxmox VE on {}, vCenter on {}, seed {seed}, state in {}",
        lab.pve,
        lab.vcenter,
        lab.state.display()
    );
    let mut wrong: Vec<String> = vec![];
    let before = guest_bytes(&lab)?;

    println!("\n== all stages in one check run against the untouched estate (through the ledger)");
    let all = STAGES.join(",");
    let foreseen = play(root, &stage, &lab, "check-all", &all, &["--check"])?;
    println!("{}\n{} writes", foreseen.recap, foreseen.writes);
    if foreseen.writes > 0 {
        wrong.push(format!(
            "the check run of all stages made {} writes",
            foreseen.writes
        ));
    }
    // The same in earnest, in a second lab: a guest refused at one stage takes no part in the later stages of the same run, so only
    // one run of all stages can be compared with one check run of all stages.
    println!("\n== all stages in one real run, in a second lab of the same seed");
    let twin = Lab::start(
        root,
        &root.join("tests/lab/demo-world.json"),
        &root.join(".lab/twin"),
        seed,
    )?;
    let whole_real = play(root, &stage, &twin, "real-all", &all, &[])?;
    println!("{}\n{} writes", whole_real.recap, whole_real.writes);
    drop(twin);

    let mut real_lines = vec![];
    let mut staged = truth::Truth::default();
    let mut vmware_files = BTreeMap::new();
    for s in STAGES {
        println!("\n== {s}: --check --diff");
        let check = play(root, &stage, &lab, &format!("{s}-check"), s, &["--check"])?;
        println!("{}\n{} writes", check.recap, check.writes);
        if *s == "cutover" {
            vmware_files = hashes(&lab.vmware_files()?)?;
        }
        println!("\n== {s}: for real");
        let real = play(root, &stage, &lab, &format!("{s}-real"), s, &[])?;
        println!("{}\n{} writes", real.recap, real.writes);
        println!("\n== {s}: again");
        let again = play(root, &stage, &lab, &format!("{s}-again"), s, &[])?;
        println!("{}\n{} writes", again.recap, again.writes);
        let t = truth::compare(&check.lines, &real.lines);
        println!("truth of {s}: {} of {}", t.equal, t.all);
        staged.all += t.all;
        staged.equal += t.equal;
        staged.lies.extend(t.lies);
        if check.writes > 0 {
            wrong.push(format!("the check run of {s} made {} writes", check.writes));
        }
        for l in again
            .lines
            .iter()
            .filter(|l| l.ours() && l.status == "changed")
        {
            wrong.push(format!("changed in the second real run of {s}: {}", l.key));
        }
        real_lines.extend(real.lines);
    }
    let whole = truth::compare(&foreseen.lines, &whole_real.lines);
    for (name, t) in [
        ("stage by stage", &staged),
        ("all stages in one check run", &whole),
    ] {
        println!("\ntruth: {} of {} ({name})", t.equal, t.all);
        for l in &t.lies {
            println!("  {l}");
        }
        if t.equal != t.all || t.all == 0 {
            wrong.push(format!("truth {name}: {} of {}", t.equal, t.all));
        }
    }

    println!("\n== the guests that have gone over");
    let done = table(&lab, &before, &mut wrong)?;
    if done == 0 {
        wrong.push("no guest has gone over".into());
    }
    if hashes(&lab.vmware_files()?)? != vmware_files {
        wrong.push("VMware's files are not what they were before the cutover".into());
    } else {
        println!(
            "VMware's {} disk files are bit-identical after the import",
            vmware_files.len()
        );
    }
    println!("\n== refused");
    for l in real_lines.iter().filter(|l| l.status == "failed") {
        println!(
            "{}: {}",
            l.host,
            l.result["msg"].as_str().unwrap_or_default()
        );
    }
    println!(
        "\ndemo: {} guests gone over, {:.0} s after compilation",
        done,
        started.elapsed().as_secs_f64()
    );
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("not as it should be:\n  {}", wrong.join("\n  ")))
    }
}

/// Hash of what each guest sees on each of its disks, by MoID and label, from VMware's data files.
pub fn guest_bytes(lab: &Lab) -> Result<BTreeMap<(String, String), String>, String> {
    let mut all = BTreeMap::new();
    let world = lab.dump()?;
    for vm in world["vcenter"]["vms"].as_array().into_iter().flatten() {
        for d in vm["disks"].as_array().into_iter().flatten() {
            if let Some(f) = d["file"].as_str() {
                let key = (text(vm, "moid"), text(d, "label"));
                all.insert(key, hash(Path::new(f))?);
            }
        }
    }
    Ok(all)
}

/// Prints the guests that are done and compares MACs and bytes.
fn table(
    lab: &Lab,
    before: &BTreeMap<(String, String), String>,
    wrong: &mut Vec<String>,
) -> Result<usize, String> {
    let world = lab.dump()?;
    let mut done = 0;
    for vm in world["vcenter"]["vms"].as_array().into_iter().flatten() {
        let moid = text(vm, "moid");
        let vmid = 20000
            + moid
                .trim_start_matches("vm-")
                .parse::<u64>()
                .unwrap_or_default();
        let guests = world["pve"]["guests"].as_array();
        let Some(g) = guests.into_iter().flatten().find(|g| g["vmid"] == vmid) else {
            continue;
        };
        let c = &g["config"];
        if !text(c, "tags").contains("migration-done") {
            continue;
        }
        done += 1;
        let macs: Vec<String> = vm["nics"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|n| text(n, "mac").to_uppercase())
            .collect();
        let kept: Vec<&String> = macs
            .iter()
            .filter(|m| {
                (0..32).any(|i| {
                    text(c, &format!("net{i}"))
                        .to_uppercase()
                        .contains(m.as_str())
                })
            })
            .collect();
        println!(
            "{vmid} {} <- {}: {}, {} x {} cores, {} MiB, MACs kept {} of {}, boot {}",
            text(c, "name"),
            text(vm, "name"),
            if c["bios"] == "ovmf" { "UEFI" } else { "BIOS" },
            plain(&c["sockets"]),
            plain(&c["cores"]),
            plain(&c["memory"]),
            kept.len(),
            macs.len(),
            text(c, "boot"),
        );
        if kept.len() != macs.len() {
            wrong.push(format!(
                "{vmid}: {} of {} MACs kept",
                kept.len(),
                macs.len()
            ));
        }
        if g["status"] != "stopped" {
            wrong.push(format!("{vmid} was started"));
        }
        for d in disks(lab, &world, vm, vmid, before)? {
            println!(
                "    {} {} {} {} {}",
                d.slot,
                d.volume,
                &d.before[..16.min(d.before.len())],
                &d.after[..16.min(d.after.len())],
                if d.before == d.after {
                    "equal"
                } else {
                    "DIFFERENT"
                }
            );
            if d.before != d.after {
                wrong.push(format!("{vmid} {}: the bytes differ", d.slot));
            }
        }
    }
    Ok(done)
}

fn text(v: &Value, key: &str) -> String {
    v[key].as_str().unwrap_or_default().to_owned()
}

fn plain(v: &Value) -> String {
    v.to_string().trim_matches('"').to_owned()
}

fn hashes(files: &[PathBuf]) -> Result<BTreeMap<PathBuf, String>, String> {
    files.iter().map(|f| Ok((f.clone(), hash(f)?))).collect()
}

fn hash(path: &Path) -> Result<String, String> {
    let mut f = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut h = Sha256::new();
    std::io::copy(&mut f, &mut h).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(h.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Hash of what the guest sees on a Proxmox volume: the raw bytes, whatever the format of the file.
fn hash_volume(lab: &Lab, world: &Value, volume: &str) -> Result<String, String> {
    let path =
        volume_file(world, volume).ok_or_else(|| format!("{volume}: no such volume in the lab"))?;
    let raw = lab.state.join("compare.raw");
    env::output(
        Path::new("/"),
        "qemu-img",
        &["convert", "-O", "raw", &path, &raw.display().to_string()],
    )?;
    let h = hash(&raw);
    let _ = std::fs::remove_file(&raw);
    h
}

/// The file behind `storage:vmid/name` of a directory storage.
pub fn volume_file(world: &Value, volume: &str) -> Option<String> {
    let (storage, rest) = volume.split_once(':')?;
    let name = format!("images/{rest}");
    let all = world["pve"]["storages"].as_array()?;
    let folders = all.iter().find(|s| s["storage"] == storage)?["folders"].as_array()?;
    folders
        .iter()
        .find(|f| f["files"].get(&name).is_some())
        .map(|f| format!("{}/{name}", text(f, "path")))
}

/// One disk, on both sides.
struct Disk {
    slot: String,
    volume: String,
    before: String,
    after: String,
}

/// The disks of a guest in the order of their slots, beside those of its VM in the guest's order, which for the lab's guests is the
/// order of their device keys.
fn disks(
    lab: &Lab,
    world: &Value,
    vm: &Value,
    vmid: u64,
    before: &BTreeMap<(String, String), String>,
) -> Result<Vec<Disk>, String> {
    let guests = world["pve"]["guests"].as_array();
    let guest = guests
        .into_iter()
        .flatten()
        .find(|g| g["vmid"] == vmid)
        .ok_or_else(|| format!("{vmid}: no such guest"))?;
    let mut slots: Vec<(String, String)> = vec![];
    for bus in ["scsi", "sata", "ide"] {
        for i in 0..31 {
            let v = text(&guest["config"], &format!("{bus}{i}"));
            if !v.is_empty() && !v.contains("media=cdrom") {
                slots.push((format!("{bus}{i}"), v));
            }
        }
    }
    let theirs: Vec<&Value> = vm["disks"].as_array().into_iter().flatten().collect();
    if slots.len() != theirs.len() {
        return Err(format!("{vmid}: {} disks of {}", slots.len(), theirs.len()));
    }
    slots
        .into_iter()
        .zip(theirs)
        .map(|((slot, value), d)| {
            let volume = value.split(',').next().unwrap_or_default().to_owned();
            let key = (text(vm, "moid"), text(d, "label"));
            let after = hash_volume(lab, world, &volume)?;
            Ok(Disk {
                slot,
                volume,
                before: before.get(&key).cloned().unwrap_or_default(),
                after,
            })
        })
        .collect()
}

/// Fails unless every disk of that guest holds the bytes that its VM had at the start.
pub fn same_bytes(
    lab: &Lab,
    moid: &str,
    vmid: u64,
    before: &BTreeMap<(String, String), String>,
) -> Result<(), String> {
    let world = lab.dump()?;
    let vms = world["vcenter"]["vms"].as_array();
    let vm = vms
        .into_iter()
        .flatten()
        .find(|v| v["moid"] == moid)
        .ok_or_else(|| format!("{moid}: no such machine"))?;
    match disks(lab, &world, vm, vmid, before)?
        .iter()
        .find(|d| d.before != d.after)
    {
        Some(d) => Err(format!("{vmid} {}: the bytes differ", d.slot)),
        None => Ok(()),
    }
}
