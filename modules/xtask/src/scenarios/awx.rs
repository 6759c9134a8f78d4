//! As AWX runs it: ansible-runner, credentials from the environment only, slices side by side, jobs that are killed.

use super::Scenario;
use crate::demo::{self, token_of};
use crate::env;
use crate::truth;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// Stages that a slice goes through, in order.
const STAGES: &[&str] = &[
    "discover", "sdn", "build", "relocate", "cutover", "verify", "finish", "status",
];

/// Two slices of so many guests.
fn per_slice(s: &Scenario<'_>) -> usize {
    if s.full { 20 } else { 2 }
}

/// Like web01, over and over, on two VLANs.
fn estate(s: &mut Scenario<'_>, guests: usize) -> Result<Vec<String>, String> {
    let mut world = s.lab.world.clone();
    let vms = world["vcenter"]["vms"].as_array_mut().ok_or("no vms")?;
    let template = vms
        .iter()
        .find(|v| v["name"] == "web01")
        .cloned()
        .ok_or("no web01")?;
    vms.clear();
    let mut names = vec![];
    for n in 0..guests {
        let mut v = template.clone();
        let name = format!("slice{n:02}");
        v["moid"] = json!(format!("vm-{}", 300 + n));
        v["name"] = json!(name);
        v["disks"] = json!([{"controller": "pvscsi", "size_mib": 2}]);
        let group = ["pg-vlan100-a", "pg-vlan200"][n % 2];
        v["nics"] = json!([{"portgroup": group, "mac": format!("00:50:56:82:01:{n:02x}"), "address_type": "assigned"}]);
        vms.push(v);
        names.push(name);
    }
    s.lab.reset(&world)?;
    Ok(names)
}

/// Where ansible-runner is.
pub(super) fn runner(s: &Scenario<'_>) -> Result<PathBuf, String> {
    // Two scenarios must not make it at the same time.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock();
    let python = env::python(11, 14).ok_or("no Python from 3.11 to 3.14")?;
    env::venv(
        s.root,
        ".venv-runner",
        &python,
        &["ansible-core>=2.17", "ansible-runner>=2.4"],
    )
}

/// One job as AWX starts it: a private folder with project and inventory, nothing secret in it, the credentials in the environment.
pub(super) struct Job {
    pub(super) child: Child,
    folder: PathBuf,
    /// Its results; the file's name is in the environment of all that it starts.
    pub(super) log: PathBuf,
}

impl Job {
    pub(super) fn start(
        s: &Scenario<'_>,
        venv: &std::path::Path,
        ident: &str,
        stage: &str,
        more: &str,
    ) -> Result<Job, String> {
        let folder = s.lab.state.join(format!("runner-{ident}"));
        let _ = std::fs::remove_dir_all(&folder);
        let project = folder.join("project");
        std::fs::create_dir_all(&project).map_err(|e| e.to_string())?;
        // The project of docs/awx.md.
        std::fs::write(
            project.join("migrate.yml"),
            "---\n- import_playbook: trueplan.virt.migrate\n",
        )
        .map_err(|e| e.to_string())?;
        let log = folder.join("truth.jsonl");
        let mut c = s
            .stage
            .command(s.root, &s.lab, "ansible-runner", &log, token_of(stage));
        let mut own = std::process::Command::new(venv.join("bin/ansible-runner"));
        for (k, v) in c.get_envs() {
            if let Some(v) = v {
                own.env(k, v);
            }
        }
        let path = std::env::join_paths(std::iter::once(venv.join("bin")).chain(
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()),
        ));
        own.env("PATH", path.map_err(|e| e.to_string())?);
        c = own;
        let line = format!("--tags {stage} --diff {more}");
        c.current_dir(s.root)
            .args([
                "run",
                &folder.display().to_string(),
                "-p",
                "migrate.yml",
                "--ident",
                "job",
                "--inventory",
            ])
            .arg(s.root.join("tests/lab/inventory"))
            .args(["--cmdline", &line, "-q"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A group of its own, so that it can be killed as a whole.
        c.process_group(0);
        let child = c.spawn().map_err(|e| format!("ansible-runner: {e}"))?;
        Ok(Job { child, folder, log })
    }

    /// Its results, and what it said with set_stats.
    pub(super) fn end(mut self, s: &Scenario<'_>) -> Result<(Vec<truth::Line>, Value), String> {
        self.child.wait().map_err(|e| e.to_string())?;
        let artifacts = self.folder.join("artifacts/job");
        let out = std::fs::read_to_string(artifacts.join("stdout")).unwrap_or_default();
        let lines = truth::read(&self.log, &s.lab.state).map_err(|e| format!("{e}\n{out}"))?;
        let mut stats = Value::Null;
        for e in std::fs::read_dir(artifacts.join("job_events"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = std::fs::read_to_string(e.path()).unwrap_or_default();
            let event: Value = serde_json::from_str(&text).unwrap_or_default();
            if event["event"] == "playbook_on_stats" {
                stats = event["event_data"]["artifact_data"].clone();
            }
        }
        Ok((lines, stats))
    }
}

pub(super) fn names(stats: &Value, of: &str) -> BTreeSet<String> {
    stats[of]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

pub(super) fn slices(s: &mut Scenario<'_>) -> Result<(), String> {
    let venv = runner(s)?;
    let hosts = estate(s, 2 * per_slice(s))?;
    let before = demo::guest_bytes(&s.lab)?;
    // AWX gives every second host to the second slice.
    let slice = |n: usize| hosts.iter().skip(n).step_by(2).cloned().collect::<Vec<_>>();
    for stage in STAGES {
        for check in [true, false] {
            let started = Instant::now();
            let writes = s.lab.writes()?;
            let jobs: Vec<Job> = (0..2)
                .map(|n| {
                    let how = if check { "--check" } else { "" };
                    Job::start(
                        s,
                        &venv,
                        &format!("{stage}-{check}-{n}"),
                        stage,
                        &format!("--limit {} {how}", slice(n).join(",")),
                    )
                })
                .collect::<Result<_, _>>()?;
            for (n, job) in jobs.into_iter().enumerate() {
                let (lines, stats) = job.end(s)?;
                let bad: Vec<String> = lines
                    .iter()
                    .filter(|l| l.status == "failed" || l.status == "unreachable")
                    .map(|l| format!("{}: {}", l.key, l.result["msg"]))
                    .collect();
                s.claim(
                    !lines.is_empty() && bad.is_empty(),
                    &format!(
                        "{stage}, check {check}, slice {n}: {} results, {bad:?}",
                        lines.len()
                    ),
                )?;
                let done = names(&stats, "done");
                s.claim(
                    done == slice(n).into_iter().collect()
                        && names(&stats, "failed").is_empty()
                        && names(&stats, "refused").is_empty(),
                    &format!("{stage}, check {check}, slice {n}: set_stats says {stats}"),
                )?;
            }
            let writes = s.lab.writes()? - writes;
            s.claim(
                !check || writes == 0,
                &format!("{stage}: two check runs made {writes} writes"),
            )?;
            println!(
                "two slices of {}: {stage}, check {check}: {writes} writes, {:.0} s",
                per_slice(s),
                started.elapsed().as_secs_f64()
            );
        }
    }
    let w = s.lab.dump()?;
    let vnets = &w["pve"]["sdn"]["running"]["vnets"];
    let each: Vec<Value> = match vnets {
        Value::Object(o) => o.values().cloned().collect(),
        v => v.as_array().cloned().unwrap_or_default(),
    };
    let tags: BTreeSet<String> = each.iter().map(|v| v["tag"].to_string()).collect();
    s.claim(
        vnets.to_string().contains("v100")
            && vnets.to_string().contains("v200")
            && tags.len() == each.len(),
        &format!("{} vnets of {} tags: {vnets}", each.len(), tags.len()),
    )?;
    let guests = w["pve"]["guests"].as_array().map_or(0, Vec::len);
    s.claim(
        guests == hosts.len(),
        &format!("{guests} Proxmox guests of {}", hosts.len()),
    )?;
    for n in 0..hosts.len() {
        demo::same_bytes(
            &s.lab,
            &format!("vm-{}", 300 + n),
            20300 + n as u64,
            &before,
        )?;
        s.shown += 1;
    }
    Ok(())
}

/// playbooks/awx_setup.yml with the real modules of awx.awx against a stand-in for AWX's API.
pub(super) fn set_up(s: &mut Scenario<'_>) -> Result<(), String> {
    println!("AWX: {}", crate::awx::setup(s.root, s.stage)?);
    s.shown += 1;
    Ok(())
}

/// The credentials of AWX's own types, set but empty where a field was left empty.
pub(super) fn credentials(s: &mut Scenario<'_>) -> Result<(), String> {
    let venv = runner(s)?;
    let ca = s.lab.state.join("ca.pem");
    for (name, value, works) in [
        ("VMWARE_VALIDATE_CERTS", "", true),
        ("VMWARE_VALIDATE_CERTS", "False", true),
        ("VMWARE_CA_PATH", "", false),
    ] {
        let log = s.lab.state.join("credentials.jsonl");
        let _ = std::fs::remove_file(&log);
        let mut c = s
            .stage
            .command(s.root, &s.lab, "ansible-playbook", &log, "discover");
        for empty in [
            "VMWARE_THUMBPRINT",
            "VMWARE_API_TIMEOUT",
            "VMWARE_PROXY_HOST",
            "VMWARE_PROXY_PORT",
            "PROXMOX_FINGERPRINT",
            "PROXMOX_USER",
            "PROXMOX_PASSWORD",
        ] {
            c.env(empty, "");
        }
        c.env("VMWARE_CA_PATH", &ca).env(name, value);
        c.args([
            "trueplan.virt.migrate",
            "--tags",
            "discover",
            "--limit",
            "web01",
        ]);
        let o = c.output().map_err(|e| e.to_string())?;
        let text =
            String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr);
        s.claim(
            o.status.success() == works && (works || text.contains("certificate")),
            &format!("{name}={value:?}: {text}"),
        )?;
    }
    let _ = venv;
    Ok(())
}
