//! Jobs that are killed, as AWX cancels them: what they leave is explained by `status` and mended by the next run, to the same end as
//! that of a guest whose jobs nobody disturbed.

use super::awx::{Job, runner};
use super::{Scenario, failed};
use crate::demo;
use crate::lab::Lab;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One more than the writes that any stage makes for one guest: the first guest is never disturbed, the n-th is killed at write n.
const GUESTS: usize = 9;

/// The networks are those of the whole vCenter, whoever asks for them.
const ONE: [&str; 2] = ["--limit", "killed00"];

/// What a stage is told beside its tag.
fn told(stage: &str) -> &'static str {
    match stage {
        "finish" => {
            "-e finish_startup=order=3 -e finish_pool=migrated -e '{\"finish_acl\": [{\"ugid\": \"root@pam\", \"roleid\": \"PVEVMUser\"}], \"finish_ha\": {\"max_restart\": 2}}'"
        }
        "cutover" => "-e cutover_max_guests=50",
        "retire" => {
            "-e retire_how=unregister -e retire_after_days=0 -e retire_never_ran=true -e retire_written_since=true"
        }
        _ => "",
    }
}

/// The stages in order, and where `status` may say that a guest stands whose job was killed there.
const STAGES: &[(&str, &[&str])] = &[
    ("build", &["to do", "shell"]),
    ("relocate", &["shell", "relocated"]),
    (
        "cutover",
        &[
            "relocated",
            "shut down, nothing brought over",
            "cutover broken off",
            "done",
        ],
    ),
    ("verify", &["done"]),
    ("rollback", &["done", "cutover broken off", "relocated"]),
    (
        "cutover",
        &[
            "relocated",
            "shut down, nothing brought over",
            "cutover broken off",
            "done",
        ],
    ),
    ("finish", &["done"]),
    // Of a guest that is still in VMware; others are no hosts any more.
    ("retire", &["done"]),
];

/// Like db-uefi, over and over: UEFI, three disks on two buses, two networks.
fn estate(s: &mut Scenario<'_>) -> Result<Value, String> {
    let mut world = s.lab.world.clone();
    world["pve"]["pools"] = json!([{"poolid": "migrated", "members": []}]);
    let vms = world["vcenter"]["vms"].as_array_mut().ok_or("no vms")?;
    let like = vms.iter().find(|v| v["name"] == "db-uefi").cloned();
    let like = like.ok_or("no db-uefi")?;
    vms.clear();
    for n in 0..GUESTS {
        let mut v = like.clone();
        v["moid"] = json!(moid(n));
        v["name"] = json!(name(n));
        for (d, mib) in [2, 1, 3].iter().enumerate() {
            v["disks"][d]["size_mib"] = json!(mib);
        }
        for nic in 0..2 {
            v["nics"][nic]["mac"] = json!(format!("00:50:56:82:0{}:{n:02x}", nic + 1));
        }
        vms.push(v);
    }
    Ok(world)
}

fn name(n: usize) -> String {
    format!("killed{n:02}")
}

fn moid(n: usize) -> String {
    format!("vm-{}", 300 + n)
}

fn vmid(n: usize) -> u64 {
    20300 + n as u64
}

/// Every process that has this text in its environment.
fn with_environment(mark: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|e| e.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
        })
        .collect()
}

fn kill(whom: &[String]) {
    // One that ended meanwhile is no failure.
    let _ = Command::new("kill")
        .args(["-KILL", "--"])
        .args(whom)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// How a job dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// A container that is removed: nobody is left.
    Container,
    /// The runner and its process group only: what they had begun goes on alone, beside the next run.
    Group,
}

/// When a job dies.
enum When {
    /// The lab has seen so many writes of it.
    Writes(usize),
    /// The lab has seen so many requests of it; for stages that only look.
    Requests(u64),
}

/// Runs a job and kills it. Gives the mark of its processes if it was killed before its end.
fn cut(
    s: &Scenario<'_>,
    venv: &Path,
    ident: &str,
    stage: &str,
    more: &str,
    when: &When,
    death: Death,
) -> Result<Option<String>, String> {
    let seen = |lab: &Lab| -> Result<u64, String> {
        match when {
            When::Writes(_) => Ok(lab.writes()? as u64),
            When::Requests(_) => lab.requests(),
        }
    };
    let at = match when {
        When::Writes(n) => *n as u64,
        When::Requests(n) => *n,
    };
    if let When::Writes(n) = when {
        // Its answer is held back, so that the job is still waiting for it when it dies, however fast the machine is.
        s.lab
            .fault(&json!([{"write": true, "nth": n, "do": {"answer_after_ms": 2000}}]))?;
    }
    let before = seen(&s.lab)?;
    let mut job = Job::start(s, venv, ident, stage, more)?;
    let mark = format!("TRUEPLAN_TRUTH_LOG={}", job.log.display());
    let started = Instant::now();
    while seen(&s.lab)? < before + at {
        if job.child.try_wait().map_err(|e| e.to_string())?.is_some() {
            s.lab.clear_faults()?;
            return Ok(None);
        }
        if started.elapsed() > Duration::from_secs(300) {
            return Err(format!("{ident} has not come to {at} in 300 s"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(&[format!("-{}", job.child.id())]);
    s.lab.clear_faults()?;
    job.child.wait().map_err(|e| e.to_string())?;
    if death == Death::Container {
        loop {
            let left: Vec<String> = with_environment(&mark).iter().map(u32::to_string).collect();
            if left.is_empty() {
                break;
            }
            kill(&left);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(Some(mark))
}

/// Waits for what a job left behind that was killed with its group only.
///
/// The modules end by themselves. An ansible-playbook that has lost its worker may wait for it for ever and does nothing more: it is
/// ended, as its container would be.
fn last_breath(marks: &[String]) -> Result<(), String> {
    let started = Instant::now();
    loop {
        let left: Vec<String> = marks
            .iter()
            .flat_map(|m| with_environment(m))
            .map(|pid| pid.to_string())
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        if started.elapsed() > Duration::from_secs(15) {
            let busy = |pid: &String| {
                std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|c| !String::from_utf8_lossy(&c).contains("ansible-playbook"))
            };
            if !left.iter().any(busy) {
                kill(&left);
            }
        }
        if started.elapsed() > Duration::from_secs(300) {
            return Err("what a killed job had begun has not ended in 300 s".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// All of a guest on both sides and on the storages, with what is its own replaced: equal for guests of equal history.
fn state(lab: &Lab, n: usize) -> Result<Value, String> {
    let w = lab.dump()?;
    let of = |side: &str, list: &str, key: &str, is: Value| {
        let all = w[side][list].as_array().into_iter().flatten();
        all.clone()
            .find(|g| g[key] == is)
            .cloned()
            .unwrap_or_default()
    };
    let mut files = vec![];
    for folder in ["storage/data", "export"] {
        under(&lab.state.join(folder), &mut files);
    }
    let id = vmid(n).to_string();
    let mut mine: Vec<String> = files
        .iter()
        .filter_map(|f| f.strip_prefix(&lab.state).ok())
        .map(|f| f.display().to_string())
        // VMware's locks have names of their own, and a swap file's has a number that is drawn at each start and move.
        .map(|f| f.split(".lck-").next().unwrap_or_default().to_owned())
        .map(|f| match f.rsplit_once('-') {
            Some((start, end)) if end.ends_with(".vswp") => format!("{start}.vswp"),
            _ => f,
        })
        .filter(|f| f.contains(&name(n)) || f.contains(&format!("/{id}/")))
        .collect();
    mine.sort();
    let access = &w["pve"]["access"];
    let about = |v: &Value| -> Vec<String> {
        let all = v.as_array().into_iter().flatten();
        all.map(Value::to_string)
            .filter(|t| t.contains(&id))
            .collect()
    };
    let all = json!({
        "proxmox": of("pve", "guests", "vmid", json!(vmid(n))),
        "vmware": of("vcenter", "vms", "moid", json!(moid(n))),
        "files": mine,
        "acl": about(&access["acl"]),
        "pooled": access["pools"].to_string().contains(&id),
        "ha": w["pve"]["ha"].to_string().contains(&id),
    });
    let mut text = all.to_string();
    let c = &all["proxmox"]["config"];
    let v = &all["vmware"];
    // The id stands there as a number, too.
    let mut own: Vec<(String, &str)> =
        vec![(name(n), "NAME"), (moid(n), "MOID"), (id.clone(), "70000")];
    for nic in 1..3 {
        let mac = format!("00:50:56:82:0{nic}:{n:02x}");
        own.push((mac.to_uppercase(), "MAC"));
        own.push((mac, "MAC"));
    }
    let uuids = [&v["uuid"], &v["instance_uuid"], &c["vmgenid"]];
    own.extend(
        uuids
            .iter()
            .filter_map(|u| Some((u.as_str()?.to_owned(), "UUID"))),
    );
    let smbios = c["smbios1"].as_str().unwrap_or_default();
    own.extend(smbios.split(',').map(|p| (p.to_owned(), "SMBIOS")));
    for (what, by) in own.iter().filter(|o| !o.0.is_empty()) {
        text = text.replace(what, by);
    }
    let mut v: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    forget(&mut v);
    Ok(v)
}

/// What is of the moment.
fn forget(v: &mut Value) {
    match v {
        Value::Object(o) => {
            for key in [
                "digest",
                "version",
                "uuid",
                "meta",
                "ctime",
                "mtime",
                "modified",
                "key",
                "change_version",
                "uptime",
                "pid",
            ] {
                o.remove(key);
            }
            // Our line there ends with the day.
            if let Some(Value::String(notes)) = o.get_mut("annotation") {
                *notes = notes.split(" (20").next().unwrap_or_default().to_owned();
            }
            o.values_mut().for_each(forget);
        }
        Value::Array(a) => a.iter_mut().for_each(forget),
        _ => {}
    }
}

fn under(folder: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match e.path() {
            p if p.is_dir() => under(&p, out),
            p => out.push(p),
        }
    }
}

/// Where two values differ, in short.
fn differences(a: &Value, b: &Value, at: &str, out: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            for k in x.keys().chain(y.keys().filter(|k| !x.contains_key(*k))) {
                differences(&a[k], &b[k], &format!("{at}.{k}"), out);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (p, q)) in x.iter().zip(y).enumerate() {
                differences(p, q, &format!("{at}[{i}]"), out);
            }
        }
        _ if a == b => {}
        _ => out.push(format!("{at}: {a}, and not {b}")),
    }
}

fn same(s: &mut Scenario<'_>, what: &str, got: &Value, undisturbed: &Value) -> Result<(), String> {
    let mut out = vec![];
    differences(got, undisturbed, "", &mut out);
    s.claim(out.is_empty(), &format!("{what}: {}", out.join("; ")))
}

pub(super) fn story(s: &mut Scenario<'_>) -> Result<(), String> {
    let venv = runner(s)?;
    let world = estate(s)?;
    s.lab.reset(&world)?;
    s.play("sdn", &ONE)?;
    let before = demo::guest_bytes(&s.lab)?;
    for (turn, (stage, stands)) in STAGES.iter().enumerate() {
        let kills = kill_each(s, &venv, turn, stage, stands)?;
        println!("killed in {stage}: {kills} jobs, each explained and mended");
        s.claim(kills > 0, &format!("no job of {stage} was killed"))?;
        let undisturbed = state(&s.lab, 0)?;
        for n in 1..GUESTS {
            let got = state(&s.lab, n)?;
            same(
                s,
                &format!("{} after {stage} (turn {turn})", name(n)),
                &got,
                &undisturbed,
            )?;
            if *stage == "cutover" {
                demo::same_bytes(&s.lab, &moid(n), vmid(n), &before)?;
                s.shown += 1;
            }
        }
    }
    let w = s.lab.dump()?;
    let guests = w["pve"]["guests"].as_array().map_or(0, Vec::len);
    s.claim(
        guests == GUESTS,
        &format!("{guests} Proxmox guests of {GUESTS}"),
    )?;
    sdn(s, &venv, &world)
}

/// Kills the n-th guest's job at its n-th write, for as many writes as the stage makes; `status` explains each, and the next run mends all.
fn kill_each(
    s: &mut Scenario<'_>,
    venv: &Path,
    turn: usize,
    stage: &str,
    stands: &[&str],
) -> Result<usize, String> {
    let more = told(stage);
    let (mut marks, mut whats) = (vec![], vec![]);
    for n in 1..GUESTS {
        let host = name(n);
        let when = match stage {
            // It makes no writes.
            "verify" if n > 2 => break,
            "verify" => When::Requests(3 * n as u64),
            _ => When::Writes(n),
        };
        let death = [Death::Container, Death::Group][(turn + n) % 2];
        let ident = format!("killed-{turn}-{stage}-{n}");
        let limit = format!("--limit {host} {more}");
        // The writes of what lives on would be counted as those of the next one.
        last_breath(&marks)?;
        let Some(mark) = cut(s, venv, &ident, stage, &limit, &when, death)? else {
            // It has no such write: the others go undisturbed.
            break;
        };
        marks.push(mark);
        whats.push((
            host,
            format!("{stage} of {}, killed at {n} ({death:?})", name(n)),
        ));
    }
    // A guest that retire has unregistered is no host any more: its Proxmox guest must stand, and that is compared below.
    let there = in_vmware(s)?;
    let (whats, gone): (Vec<_>, Vec<_>) = whats.into_iter().partition(|w| there.contains(&w.0));
    for (_, what) in &gone {
        println!("{what}: gone from VMware");
        s.claim(*stage == *"retire", &format!("{what}: it is gone"))?;
    }
    let hosts: Vec<&str> = whats.iter().map(|w| w.0.as_str()).collect();
    let status = match hosts.is_empty() {
        true => None,
        false => Some(s.play("status", &["--limit", &hosts.join(",")])?),
    };
    for (host, what) in &whats {
        let Some(status) = &status else { break };
        let row = status
            .lines
            .iter()
            .filter(|l| l.host == *host)
            .map(|l| &l.result["ansible_facts"]["migrate_status"])
            .find(|r| r.is_object())
            .cloned()
            .unwrap_or_default();
        println!("{what}: {} -> {}", row["stage"], row["next"]);
        s.claim(
            failed(status).is_empty() && stands.iter().any(|w| row["stage"] == *w),
            &format!("{what}: status says {row} {:?}", failed(status)),
        )?;
    }
    // What lives on of the last one goes on beside the run that mends.
    for (what, at_rest) in [("mend", false), ("again", true)] {
        if at_rest {
            last_breath(&marks)?;
        }
        if in_vmware(s)?.is_empty() {
            s.claim(stage == "retire", &format!("{stage}: VMware is empty"))?;
            continue;
        }
        let writes = s.lab.writes()?;
        let ident = format!("killed-{turn}-{stage}-{what}");
        let job = Job::start(s, venv, &ident, stage, &format!("--limit all {more}"))?;
        let (lines, stats) = job.end(s)?;
        let writes = s.lab.writes()? - writes;
        let bad: Vec<String> = lines
            .iter()
            .filter(|l| l.status == "failed")
            .map(|l| format!("{}: {}", l.host, l.result["msg"]))
            .collect();
        s.claim(
            !lines.is_empty() && bad.is_empty() && (writes == 0 || !at_rest),
            &format!("{stage}, {what} after {whats:?}: {writes} writes, {bad:?} {stats}"),
        )?;
    }
    Ok(marks.len())
}

/// The names of the machines of the estate that VMware still has.
fn in_vmware(s: &Scenario<'_>) -> Result<Vec<String>, String> {
    let w = s.lab.dump()?;
    let all = w["vcenter"]["vms"].as_array().into_iter().flatten();
    let names: Vec<String> = all
        .filter_map(|v| v["name"].as_str().map(str::to_owned))
        .collect();
    Ok((0..GUESTS)
        .map(name)
        .filter(|n| names.contains(n))
        .collect())
}

/// The networks belong to all guests: the lab begins anew for each write at which the job dies.
fn sdn(s: &mut Scenario<'_>, venv: &Path, world: &Value) -> Result<(), String> {
    let applied = |s: &Scenario<'_>| -> Result<Value, String> {
        let mut v = s.lab.dump()?["pve"]["sdn"].clone();
        forget(&mut v);
        Ok(v)
    };
    s.lab.reset(world)?;
    s.play("sdn", &ONE)?;
    let undisturbed = applied(s)?;
    let mut kills = 0;
    for n in 1.. {
        s.lab.reset(world)?;
        let death = [Death::Container, Death::Group][n % 2];
        let what = format!("sdn, killed at {n} ({death:?})");
        let when = When::Writes(n);
        let Some(mark) = cut(
            s,
            venv,
            &format!("killed-sdn-{n}"),
            "sdn",
            "--limit killed00",
            &when,
            death,
        )?
        else {
            break;
        };
        kills += 1;
        let mut run = s.play("sdn", &ONE)?;
        let mut said = failed(&run);
        println!("{what}: {} writes by the next run, {said:?}", run.writes);
        last_breath(&[mark])?;
        if !said.is_empty() {
            // The dead run's lock is nobody's: it is named, with what to do, and that is done.
            s.claim(
                said.iter()
                    .any(|m| m.contains("lock") && m.contains("break_lock")),
                &format!("{what}: what it left is not explained: {said:?}"),
            )?;
            run = s.play("sdn", &[&ONE[..], &["-e", "sdn_break_lock=true"]].concat())?;
            said = failed(&run);
        }
        s.claim(said.is_empty(), &format!("{what}: {said:?}"))?;
        same(s, &what, &applied(s)?, &undisturbed)?;
        let again = s.play("sdn", &ONE)?;
        s.at_rest(&what, &again)?;
    }
    println!("killed in sdn: {kills} jobs, each explained and mended");
    s.claim(kills > 2, "hardly a job of sdn was killed")
}
