//! The playbook where things go otherwise than in the demo: attach and settle, a disk that fails, a guest that ran again, no tags.

mod after;
mod awx;
mod killed;
mod rollback;

use crate::demo::{self, Run, Stage};
use crate::lab::Lab;
use crate::{dist, env, report, truth};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

mod life;

/// Runs every scenario, as many side by side as there are cores, each in a lab of its own; gives how many claims were shown, or all that
/// were not.
///
/// Without a name only the short ones run, unless `full`.
pub fn run(root: &Path, only: Option<&str>, full: bool) -> Result<usize, String> {
    let stage = Stage::install(root, true)?;
    let chosen = |name: &str, long: bool| match only {
        Some(o) => o.split(',').any(|part| name.contains(part)),
        None => full || !long,
    };
    let mut all: Vec<_> = SCENARIOS
        .iter()
        .filter(|(name, _, long)| chosen(name, *long))
        .collect();
    // The long ones first, so that no core waits for the last.
    all.sort_by_key(|(_, _, long)| !long);
    let labs = root.join(".lab/scenario");
    Lab::build(root)?;
    let next = AtomicUsize::new(0);
    let came = Mutex::new((0, vec![]));
    let work = || {
        while let Some((name, story, _)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            eprintln!("xtask: scenario {name}");
            let started = Instant::now();
            let place = SCENARIOS.iter().position(|s| s.0 == *name);
            let state = labs.join(format!("{:02}", place.unwrap_or_default()));
            let (shown, done) = one(root, &stage, &state, *story, full);
            let took = started.elapsed().as_secs_f64();
            println!("scenario {name}: {shown} claims, {took:.0} s");
            let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
            came.0 += shown;
            match done {
                // The lab of one that failed is kept.
                Ok(()) => drop(std::fs::remove_dir_all(&state)),
                Err(e) => {
                    eprintln!("xtask: scenario {name}: {e}");
                    came.1.push(format!("{name}: {e}"));
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|threads| {
        for _ in 0..cores.min(all.len()) {
            threads.spawn(work);
        }
    });
    let (shown, wrong) = came.into_inner().unwrap_or_else(PoisonError::into_inner);
    match wrong.is_empty() {
        true => Ok(shown),
        false => Err(wrong.join("\n")),
    }
}

fn one(
    root: &Path,
    stage: &Stage,
    state: &Path,
    story: Story,
    full: bool,
) -> (usize, Result<(), String>) {
    let world = root.join("tests/lab/demo-world.json");
    let lab = match Lab::spawn(root, &world, state, 7) {
        Ok(lab) => lab,
        Err(e) => return (0, Err(e)),
    };
    let mut s = Scenario {
        root,
        stage,
        lab,
        full,
        shown: 0,
        runs: 0,
    };
    let done = story(&mut s);
    (s.shown, done)
}

type Story = fn(&mut Scenario<'_>) -> Result<(), String>;

/// Name, story, and whether it is a long one.
const SCENARIOS: &[(&str, Story, bool)] = &[
    ("no tags, nothing is shut down", untagged, false),
    ("attach and settle", attach, false),
    ("the second disk fails", second_disk_fails, false),
    ("the window does not grow with the disk", window, false),
    ("bytes older than the guest's", older_bytes, false),
    ("what stands in the way", in_the_way, false),
    ("create, start, remove", life::own, false),
    (
        "the users' playbooks with the names swapped",
        life::swapped,
        false,
    ),
    ("the report of discover", report::story, false),
    ("disks of every bus", every_bus, false),
    ("rollback, and over again", rollback::never_ran, false),
    ("rollback of a guest that ran", rollback::ran, true),
    ("rollback that dies half-way", rollback::half_way, true),
    ("rollback of an attached guest", rollback::attached, true),
    ("verify", rollback::verify, false),
    ("no shutdown after the deadline", rollback::deadline, true),
    ("finish", after::finish, true),
    ("retire", after::retire, false),
    ("AWX is set up by its playbook", awx::set_up, false),
    ("credentials as AWX gives them", awx::credentials, true),
    ("two slices of ansible-runner", awx::slices, true),
    ("killed in the middle of each stage", killed::story, true),
];

/// A lab, and what was shown on it.
pub(crate) struct Scenario<'a> {
    root: &'a Path,
    stage: &'a Stage,
    pub(crate) lab: Lab,
    /// The large counts.
    full: bool,
    shown: usize,
    runs: usize,
}

impl Scenario<'_> {
    /// One run of the playbook.
    pub(crate) fn play(&mut self, tags: &str, args: &[&str]) -> Result<Run, String> {
        self.runs += 1;
        let name = format!("run{}", self.runs);
        demo::play(self.root, self.stage, &self.lab, &name, tags, args)
    }

    /// One module by hand, with the token that may do all.
    fn by_hand(&self, module: &str, args: &Value) -> Result<Value, String> {
        let log = self.lab.state.join("by-hand.jsonl");
        let _ = std::fs::remove_file(&log);
        let mut c = self
            .stage
            .command(self.root, &self.lab, "ansible", &log, "trueplan");
        c.env("ANSIBLE_LOAD_CALLBACK_PLUGINS", "true");
        c.args(["localhost", "-m", module, "-a", &args.to_string()]);
        let o = c.output().map_err(|e| format!("ansible: {e}"))?;
        let lines = truth::read(&log, &self.lab.state).unwrap_or_default();
        match lines.last() {
            Some(l) if l.status != "failed" => Ok(l.result.clone()),
            _ => Err(format!(
                "{module} by hand: {}{}",
                String::from_utf8_lossy(&o.stdout),
                String::from_utf8_lossy(&o.stderr)
            )),
        }
    }

    /// A run that must be refused with that text, in check mode and for real, without a write.
    fn refused(&mut self, tags: &str, args: &[&str], why: &str) -> Result<(), String> {
        self.refused_by(tags, args, why, &[true, false])
    }

    /// The same in check mode only, for further reasons of one kind.
    fn foreseen(&mut self, tags: &str, args: &[&str], why: &str) -> Result<(), String> {
        self.refused_by(tags, args, why, &[true])
    }

    fn refused_by(
        &mut self,
        tags: &str,
        args: &[&str],
        why: &str,
        modes: &[bool],
    ) -> Result<(), String> {
        for check in modes.iter().copied() {
            let mut all = args.to_vec();
            if check {
                all.push("--check");
            }
            let run = self.play(tags, &all)?;
            let said = failed(&run);
            self.claim(
                said.iter().any(|m| m.contains(why)),
                &format!("{tags}, check {check}: not refused with {why:?}: {said:?}"),
            )?;
            self.claim(
                run.writes == 0,
                &format!(
                    "{tags}, check {check}: {} writes although refused",
                    run.writes
                ),
            )?;
        }
        Ok(())
    }

    /// The check run said what the real one did, and wrote nothing.
    pub(crate) fn agree(&mut self, what: &str, check: &Run, real: &Run) -> Result<(), String> {
        let t = truth::compare(&check.lines, &real.lines);
        self.claim(
            t.all > 0 && t.equal == t.all,
            &format!("truth of {what}: {} of {} {:?}", t.equal, t.all, t.lies),
        )?;
        self.claim(
            check.writes == 0,
            &format!("the check run of {what} made {} writes", check.writes),
        )
    }

    /// A second run changed nothing and wrote nothing.
    pub(crate) fn at_rest(&mut self, what: &str, again: &Run) -> Result<(), String> {
        let changed: Vec<&String> = again
            .lines
            .iter()
            .filter(|l| l.ours() && l.status == "changed")
            .map(|l| &l.key)
            .collect();
        self.claim(
            changed.is_empty() && again.writes == 0,
            &format!(
                "the second run of {what} made {} writes, changed: {changed:?}",
                again.writes
            ),
        )
    }

    /// Check and real, equal: for what removes the guest from the inventory, so that there is no second run.
    fn converge_once(&mut self, tags: &str, args: &[&str]) -> Result<Run, String> {
        let check = self.play(tags, &[args, &["--check"]].concat())?;
        let real = self.play(tags, args)?;
        self.agree(tags, &check, &real)?;
        Ok(real)
    }

    /// Check, real, again: equal, and then nothing.
    fn converge(&mut self, tags: &str, args: &[&str]) -> Result<Run, String> {
        let real = self.converge_once(tags, args)?;
        let again = self.play(tags, args)?;
        self.at_rest(tags, &again)?;
        Ok(real)
    }

    /// The same value.
    pub(crate) fn equal(&mut self, what: &str, got: &Value, wanted: &Value) -> Result<(), String> {
        self.claim(got == wanted, &format!("{what}: {got}, and not {wanted}"))
    }

    /// What must hold.
    pub(crate) fn claim(&mut self, holds: bool, what: &str) -> Result<(), String> {
        if holds {
            self.shown += 1;
            Ok(())
        } else {
            Err(what.to_owned())
        }
    }

    fn guest(&self, vmid: u64) -> Result<Value, String> {
        let w = self.lab.dump()?;
        let all = w["pve"]["guests"].as_array().cloned().unwrap_or_default();
        Ok(all
            .into_iter()
            .find(|g| g["vmid"] == vmid)
            .unwrap_or_default())
    }

    fn vm(&self, moid: &str) -> Result<Value, String> {
        let w = self.lab.dump()?;
        let all = w["vcenter"]["vms"].as_array().cloned().unwrap_or_default();
        Ok(all
            .into_iter()
            .find(|v| v["moid"] == moid)
            .unwrap_or_default())
    }
}

fn failed(run: &Run) -> Vec<String> {
    run.lines
        .iter()
        .filter(|l| l.status == "failed")
        .map(|l| l.result["msg"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn untagged(s: &mut Scenario<'_>) -> Result<(), String> {
    let before: Vec<Value> = powers(&s.lab)?;
    s.play("all", &["--limit", "web01,db-uefi,sleeper"])?;
    s.claim(
        powers(&s.lab)? == before,
        "an untagged run changed the power state of a guest",
    )?;
    let log = std::fs::read_to_string(&s.lab.log).map_err(|e| e.to_string())?;
    let power = [
        "ShutdownGuest",
        "PowerOffVM_Task",
        "PowerOnVM_Task",
        "/status/",
    ];
    let sent: Vec<&str> = log
        .lines()
        .filter(|l| l.contains("\"write\"") && power.iter().any(|p| l.contains(p)))
        .collect();
    s.claim(sent.is_empty(), &format!("an untagged run sent {sent:?}"))?;
    s.claim(
        s.guest(20103)?["vmid"] == 20103,
        "the untagged run built no shell",
    )
}

fn powers(lab: &Lab) -> Result<Vec<Value>, String> {
    let w = lab.dump()?;
    Ok(w["vcenter"]["vms"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|v| json!([v["moid"], v["power"]]))
        .collect())
}

fn attach(s: &mut Scenario<'_>) -> Result<(), String> {
    let before = demo::guest_bytes(&s.lab)?;
    let limit = ["--limit", "web01,db-uefi", "-e", "cutover_method=attach"];
    s.play("sdn,build,relocate", &limit)?;
    s.converge("cutover", &limit)?;
    let attached = s.guest(20103)?["config"]["scsi1"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    s.claim(
        attached.starts_with("nfs:20103/disk1.vmdk"),
        &format!("scsi1 is {attached}"),
    )?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.shown += 1;
    s.converge("settle", &limit)?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    demo::same_bytes(&s.lab, "vm-101", 20101, &before)?;
    s.shown += 2;
    let config = s.guest(20103)?["config"].to_string();
    s.claim(
        !config.contains("nfs:"),
        &format!("after settle there is still a disk on the export: {config}"),
    )?;
    let left = s.lab.state.join("export/images/20103");
    s.claim(!left.exists(), "settle left descriptors on the export")
}

fn second_disk_fails(s: &mut Scenario<'_>) -> Result<(), String> {
    let limit = ["--limit", "db-uefi"];
    let before = demo::guest_bytes(&s.lab)?;
    s.play("sdn,build,relocate", &limit)?;
    // The second disk's request: the server's task fails, as when the storage breaks.
    s.lab.fault(&json!([{"side": "pve", "method": "POST", "path": "/qemu/20103/config$", "nth": 2,
        "do": {"status": 500, "reason": "storage 'data' is not available", "body": {"data": null, "message": "storage 'data' is not available\n"}}}]))?;
    let run = s.play("cutover", &limit)?;
    let said = failed(&run);
    s.claim(
        said.iter().any(|m| m.contains("has not gone over")),
        &format!("the failure is not said: {said:?}"),
    )?;
    s.claim(
        said.iter().any(|m| m.contains("is not available")),
        &format!("the reason is lost: {said:?}"),
    )?;
    let tags = s.guest(20103)?["config"]["tags"].to_string();
    s.claim(
        !tags.contains("migration-done") && tags.contains("migration-shell"),
        &format!("the tags are {tags}"),
    )?;
    s.claim(
        !s.guest(20103)?["config"]["scsi0"].is_null(),
        "disk 1 was not brought over",
    )?;
    s.lab.clear_faults()?;

    // Somebody powers the VMware guest on: what was brought over is stale now.
    s.lab
        .set(&json!({"vcenter": {"vms": [{"moid": "vm-103", "power": "on"}]}}))?;
    let stale = failed(&s.play("cutover", &limit)?);
    s.claim(
        stale.iter().any(|m| m.contains("stale")),
        &format!("not refused as stale: {stale:?}"),
    )?;
    s.claim(
        s.vm("vm-103")?["power"] == "poweredOn",
        "the stale guest was shut down",
    )?;
    s.lab
        .set(&json!({"vcenter": {"vms": [{"moid": "vm-103", "power": "off"}]}}))?;

    let rerun = s.play("cutover", &limit)?;
    s.claim(
        failed(&rerun).is_empty(),
        &format!("the rerun fails: {:?}", failed(&rerun)),
    )?;
    let imported = rerun
        .lines
        .iter()
        .filter(|l| l.action.ends_with("pve_disk_import") && l.status == "changed")
        .count();
    s.claim(
        imported == 1,
        &format!("the rerun brought {imported} disks over, not the 1 that was missing"),
    )?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.shown += 1;
    let done = s.guest(20103)?["config"]["tags"].to_string();
    s.claim(
        done.contains("migration-done"),
        &format!("the tags are {done}"),
    )?;

    // A living guest is left alone by a later build.
    s.lab
        .set(&json!({"pve": {"guest": 20103, "config": {"memory": "8192", "name": "renamed"}}}))?;
    let was = s.guest(20103)?["config"].clone();
    let build = s.play("build", &limit)?;
    let changed = build
        .lines
        .iter()
        .filter(|l| l.ours() && l.status == "changed")
        .count();
    s.claim(
        changed == 0 && s.guest(20103)?["config"] == was,
        &format!("build after the cutover changed {changed} things"),
    )
}

/// With attach, nothing is copied between the shutdown and ready-to-start, whatever the size.
fn window(s: &mut Scenario<'_>) -> Result<(), String> {
    let mut world = s.lab.world.clone();
    let vms = world["vcenter"]["vms"].as_array_mut().ok_or("no vms")?;
    vms.retain(|v| v["name"] == "web01" || v["name"] == "web02");
    for (v, mib) in vms.iter_mut().zip([64, 2048]) {
        v["disks"] = json!([{"controller": "pvscsi", "size_mib": mib}]);
    }
    world["vcenter"]["relocate_bytes_per_s"] = json!(4_000_000_000_u64);
    s.lab.reset(&world)?;
    s.play("sdn,build,relocate", &["-e", "cutover_method=attach"])?;
    let mut seen = vec![];
    for (host, id, mib) in [("web01", "20101", 64), ("web02", "20102", 2048)] {
        let started = Instant::now();
        let run = s.play("cutover", &["-e", "cutover_method=attach", "--limit", host])?;
        s.claim(
            failed(&run).is_empty(),
            &format!("{host}: {:?}", failed(&run)),
        )?;
        let w = s.lab.dump()?;
        let copied = w["pve"]["tasks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|t| t["id"] == id && t["log"].to_string().contains("transferred"))
            .count();
        println!(
            "window with attach: {mib} MiB, {:.1} s for the whole cutover, {} writes, {copied} tasks that copied",
            started.elapsed().as_secs_f64(),
            run.writes
        );
        s.claim(
            copied == 0,
            &format!("{host}: {copied} tasks copied data in the window"),
        )?;
        seen.push(run.writes);
    }
    s.claim(
        seen[0] == seen[1],
        &format!("the number of writes depends on the size: {seen:?}"),
    )
}

/// The guest ran, wrote and is off again: only the data file's time tells. And a living guest's disks stay where they were put.
fn older_bytes(s: &mut Scenario<'_>) -> Result<(), String> {
    let limit = ["--limit", "db-uefi"];
    let before = demo::guest_bytes(&s.lab)?;
    s.play("sdn,build,relocate", &limit)?;
    s.lab.fault(
        &json!([{"side": "pve", "method": "POST", "path": "/qemu/20103/config$", "nth": 2,
        "do": {"status": 500, "reason": "broken", "body": {"data": null, "message": "broken\n"}}}]),
    )?;
    s.play("cutover", &limit)?;
    s.lab.clear_faults()?;
    let data = s.vm("vm-103")?["disks"][0]["file"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    std::fs::File::options()
        .append(true)
        .open(&data)
        .and_then(|f| f.set_modified(std::time::SystemTime::now()))
        .map_err(|e| format!("{data}: {e}"))?;
    for check in [true, false] {
        let args = if check {
            [&limit[..], &["--check"]].concat()
        } else {
            limit.to_vec()
        };
        let said = failed(&s.play("cutover", &args)?);
        s.claim(
            said.iter()
                .any(|m| m.contains("has written to the data of scsi0")),
            &format!("bytes that are older than the guest's are not refused: {said:?}"),
        )?;
    }
    let again = [&limit[..], &["-e", "cutover_reimport=true"]].concat();
    // An import anew that breaks leaves new and old disks side by side: nobody may go on from there as if all were new.
    s.lab.fault(
        &json!([{"side": "pve", "method": "POST", "path": "/qemu/20103/config$", "nth": 1,
        "do": {"status": 500, "reason": "broken", "body": {"data": null, "message": "broken\n"}}}]),
    )?;
    s.play("cutover", &again)?;
    s.lab.clear_faults()?;
    let said = failed(&s.play("cutover", &limit)?);
    s.claim(
        said.iter().any(|m| m.contains("did not end")),
        &format!("half of the disks are old, and nobody says so: {said:?}"),
    )?;
    s.converge("cutover", &again)?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.shown += 1;
    // Weeks later: an imported guest is none of the business of settle, wherever its disks are.
    let elsewhere = [&limit[..], &["-e", "pve_target_storage=local"]].concat();
    let settle = s.play("settle", &elsewhere)?;
    s.claim(
        settle.writes == 0,
        &format!("settle wrote {} times to an imported guest", settle.writes),
    )
}

fn in_the_way(s: &mut Scenario<'_>) -> Result<(), String> {
    let clean = s.lab.world.clone();
    let mut world = clean.clone();
    let vms = world["vcenter"]["vms"].as_array_mut().ok_or("no vms")?;
    for v in vms.iter_mut() {
        // Copies of one machine, both without a shell.
        if v["name"] == "db-uefi" || v["name"] == "Büro Server 1" {
            v["uuid"] = json!("420c0000-aaaa-bbbb-cccc-000000000001");
        }
    }
    world["pve"]["guests"] = json!([
        {"vmid": 20101, "node": "pve1", "type": "lxc", "name": "ct", "status": "stopped", "config": {}},
        {"vmid": 20102, "node": "pve1", "type": "qemu", "name": "other", "status": "stopped",
         "config": {"tags": "migration-done", "smbios1": "uuid=11111111-2222-3333-4444-555555555555"}},
    ]);
    s.lab.reset(&world)?;
    // A host that is no guest of a vCenter is left out.
    let inventory = ["-i", "tests/lab/inventory", "-i", "nfsbox,"];
    let run = s.play("sdn,build", &inventory)?;
    let said = failed(&run);
    for (what, why) in [
        (
            "vmid 20101 is a container",
            "a container is taken for a shell",
        ),
        (
            "vmid 20102 is a stranger",
            "another guest that is done is taken for this one",
        ),
        (
            "is also that of db-uefi in this run",
            "two shells of one uuid are made in one run",
        ),
    ] {
        s.claim(
            said.iter().any(|m| m.contains(what)),
            &format!("{why}: {said:?}"),
        )?;
    }
    s.claim(
        !run.lines
            .iter()
            .any(|l| l.host == "nfsbox" && l.status == "failed"),
        "a host without a MoID fails",
    )?;

    s.lab.reset(&clean)?;
    let three = ["--limit", "web01,web02,no-tools"];
    s.play("sdn,build,relocate", &three)?;
    s.lab
        .set(&json!({"pve": {"guest": 20101, "config": {"net0": null}}}))?;
    let said = failed(&s.play("cutover", &["--limit", "web01"])?);
    s.claim(
        said.iter().any(|m| m.contains("has no counterpart")),
        &format!("a guest would go over without its NIC: {said:?}"),
    )?;
    s.play("build", &["--limit", "web01"])?;
    let powers_before = powers(&s.lab)?;
    let said = failed(&s.play(
        "cutover",
        &["--limit", "web01,web02", "-e", "cutover_max_guests=1"],
    )?);
    s.claim(
        said.iter()
            .any(|m| m.contains("2 guests would be shut down"))
            && powers(&s.lab)? == powers_before,
        &format!("cutover_max_guests did not hold: {said:?}"),
    )?;
    s.play("cutover", &["--limit", "web01"])?;
    // web01 is done and does not count; no-tools is allowed by name, and powered off.
    let deaf = [
        "--limit",
        "web01,no-tools",
        "-e",
        "cutover_max_guests=1",
        "-e",
        "{migration_allow: [tools_not_running]}",
    ];
    let said = failed(&s.play("cutover", &deaf)?);
    s.claim(
        said.iter().any(|m| m.contains("set cutover_force_off"))
            && s.vm("vm-111")?["power"] == "poweredOn",
        &format!("a guest without Tools: {said:?}"),
    )?;
    let forced = [&deaf[..], &["-e", "cutover_force_off=true"]].concat();
    let run = s.converge("cutover", &forced)?;
    s.claim(
        failed(&run).is_empty() && s.vm("vm-111")?["power"] == "poweredOff",
        &format!("a guest without Tools: {:?}", failed(&run)),
    )
}

/// P78, P84: SATA, NVMe and IDE disks become the next SCSI ones in the guest's order, on a machine that has every bus.
fn every_bus(s: &mut Scenario<'_>) -> Result<(), String> {
    let mut world = s.lab.world.clone();
    let vms = world["vcenter"]["vms"].as_array_mut().ok_or("no vms")?;
    let vm = vms.iter_mut().find(|v| v["moid"] == "vm-101");
    vm.ok_or("no vm-101")?["disks"] = json!([
        {"controller": "pvscsi", "bus": 0, "unit": 1, "size_mib": 3},
        {"controller": "nvme", "bus": 0, "unit": 0, "size_mib": 4},
        {"controller": "sata", "bus": 0, "unit": 2, "size_mib": 5},
        {"controller": "ide", "bus": 0, "unit": 0, "size_mib": 6},
        {"controller": "ide", "bus": 1, "unit": 0, "size_mib": 7},
    ]);
    s.lab.reset(&world)?;
    let one = ["--limit", "web01"];
    let said = failed(&s.converge("sdn,build,relocate,cutover", &one)?);
    let guest = s.guest(20101)?;
    let size = |slot: &str| {
        let text = guest["config"][slot].as_str().unwrap_or_default();
        text.rsplit("size=").next().unwrap_or_default().to_owned()
    };
    let slots = ["scsi0", "scsi1", "scsi2", "scsi3", "scsi4"].map(size);
    s.claim(
        said.is_empty() && slots == ["3M", "5M", "4M", "6M", "7M"],
        &format!("disks of every bus: {said:?} {}", guest["config"]),
    )?;
    let machine = guest["config"]["machine"].as_str().unwrap_or_default();
    s.claim(!machine.contains("q35"), "IDE disks and a q35 machine")
}

/// `cargo xtask test`'s step; kept apart so that it can be run alone.
pub fn step(root: &Path, only: Option<&str>, full: bool) -> Result<(), String> {
    env::qemu_img()?;
    let n = run(root, only, full)?;
    println!("scenarios: {n} claims shown");
    Ok(())
}

/// A binary whose pve_nic foresees nothing. The good one must be built anew afterwards, which cargo does by itself.
pub fn broken_binary(root: &Path) -> Result<PathBuf, String> {
    env::run(
        root,
        "cargo",
        &[
            "build",
            "--quiet",
            "--locked",
            "--package",
            "trueplan",
            "--features",
            "broken-planner",
        ],
    )?;
    let broken = root.join("target/debug/trueplan-broken");
    std::fs::rename(root.join("target/debug/trueplan"), &broken).map_err(|e| e.to_string())?;
    Ok(broken)
}

/// A planner that foresees nothing must make the truth fall: else the comparison proves nothing.
pub fn broken_planner(root: &Path) -> Result<(), String> {
    let broken = broken_binary(root)?;
    truth::generate::broken(root, &broken)?;
    let tarball = dist::pack(root, &[dist::Built::here(broken)])?;
    let stage = Stage::install_tarball(root, &tarball)?;
    // Nobody must take it for a good one.
    let _ = std::fs::remove_file(&tarball);
    let lab = Lab::start(
        root,
        &root.join("tests/lab/demo-world.json"),
        &root.join(".lab/scenario"),
        3,
    )?;
    let limit = ["--limit", "web01,db-uefi"];
    let check = demo::play(
        root,
        &stage,
        &lab,
        "broken-check",
        "sdn,build",
        &[&limit[..], &["--check"]].concat(),
    )?;
    let real = demo::play(root, &stage, &lab, "broken-real", "sdn,build", &limit)?;
    let t = truth::compare(&check.lines, &real.lines);
    println!(
        "with a planner broken on purpose, truth: {} of {}",
        t.equal, t.all
    );
    if t.all > 0 && t.equal < t.all && t.lies.iter().all(|l| l.contains("Put each NIC")) {
        Ok(())
    } else {
        Err(format!(
            "the broken pve_nic was not noticed, or something else was: {:?}",
            t.lies
        ))
    }
}
