//! What the stage `discover` writes as JSON, in an estate that has a guest of every stage and everything that the report is to tell.

use crate::demo::Run;
use crate::scenarios::Scenario;
use serde_json::{Value, json};

/// Guests by what the report must call them.
const STAGES: [(&str, &str); 6] = [
    ("web01", "done"),
    ("web02", "relocated"),
    ("db-uefi", "shell"),
    ("archive-sata", "to do"),
    ("no-tools", "to do"),
    ("legacy-ide", "to do"),
];

/// The whole story: build shells, make the rest so by hand, read the report.
pub fn story(s: &mut Scenario<'_>) -> Result<(), String> {
    let mut world = s.lab.world.clone();
    let vms = world["vcenter"]["vms"].as_array_mut().ok_or("no vms")?;
    vms.retain(|v| STAGES.iter().any(|(n, _)| v["name"] == *n));
    for v in vms.iter_mut() {
        if v["name"] == "web02" {
            v["datastore"] = json!("migration-nfs");
        }
    }
    let vms = vms.clone();
    let pve = &mut world["pve"];
    // A stranger has no-tools's id; a shell is left over from a guest that is no longer in the inventory.
    pve["guests"] = json!([
        {"vmid": 20111, "node": "pve1", "type": "qemu", "name": "stranger", "status": "stopped", "config": {"name": "stranger"}},
        {"vmid": 20998, "node": "pve2", "type": "qemu", "name": "left-over", "status": "stopped",
         "config": {"name": "left-over", "tags": "migration-shell;old", "smbios1": "uuid=11111111-2222-3333-4444-555555555555"}},
    ]);
    // 6.5 GiB are to come to a node of 4 GiB, and more bytes than the target has.
    pve["nodes"] = json!([{"node": "pve1", "status": "online", "maxmem": 4_u64 << 30}, {"node": "pve2", "status": "online", "maxmem": 64_u64 << 30}]);
    for t in pve["storage"].as_array_mut().into_iter().flatten() {
        if t["storage"] == "data" {
            t["total"] = json!(8 << 20);
        }
    }
    s.lab.reset(&world)?;
    s.play("sdn,build", &["--limit", "web01,web02,db-uefi"])?;
    s.lab
        .set(&json!({"pve": {"guest": 20101, "config": {"tags": "migration-done"}}}))?;

    // legacy-ide would get archive-sata's id.
    let twice = s.lab.state.join("twice.yml");
    let text = json!({"all": {"hosts": {"legacy-ide": {"vmid_base": 20003}}}}).to_string();
    std::fs::write(&twice, text).map_err(|e| e.to_string())?;
    let file = s.lab.state.join("discover.json");
    let report = format!("discover_report={}", file.display());
    let twice = twice.display().to_string();
    let args = ["-i", "tests/lab/inventory", "-i", &twice, "-e", &report];

    let check = s.play("discover", &[&args[..], &["--check"]].concat())?;
    s.claim(
        !file.exists() && check.writes == 0,
        "a check run of discover wrote something",
    )?;
    let r = read(s, &args, &file)?;
    let bytes = |name: &str| -> u64 {
        let vm = vms.iter().find(|v| v["name"] == name);
        let disks = vm.and_then(|v| v["disks"].as_array());
        let mib = disks
            .into_iter()
            .flatten()
            .filter_map(|d| d["size_mib"].as_u64());
        mib.sum::<u64>() << 20
    };
    let memory = |name: &str| -> u64 {
        let vm = vms.iter().find(|v| v["name"] == name);
        vm.and_then(|v| v["memory_mb"].as_u64()).unwrap_or(0)
    };

    let guests = r["guests"].as_array().cloned().unwrap_or_default();
    s.equal("the guests", &json!(guests.len()), &json!(STAGES.len()))?;
    for (name, stage) in STAGES {
        let g = guests.iter().find(|g| g["host"] == name).cloned();
        let g = g.ok_or_else(|| format!("{name} is missing"))?;
        let gone = if stage == "done" { 0 } else { bytes(name) };
        let got = json!([g["stage"], g["bytes"], g["bytes_to_bring"], g["memory_mb"]]);
        s.equal(name, &got, &json!([stage, bytes(name), gone, memory(name)]))?;
    }
    for stage in ["done", "relocated", "shell", "to do"] {
        let mut got: Vec<&str> = r["stages"][stage]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        got.sort_unstable();
        let mut wanted: Vec<&str> = STAGES
            .iter()
            .filter(|(_, at)| *at == stage)
            .map(|(n, _)| *n)
            .collect();
        wanted.sort_unstable();
        s.equal(stage, &json!(got), &json!(wanted))?;
    }
    s.equal(
        "orphan_shells",
        &r["orphan_shells"],
        &json!([{"vmid": 20998, "name": "left-over", "node": "pve2", "status": "stopped"}]),
    )?;
    s.equal(
        "strangers",
        &r["id_collisions"]["strangers"],
        &json!([{"host": "no-tools", "moid": "vm-111", "vmid": 20111, "stranger": "stranger"}]),
    )?;
    s.equal("twice", &r["id_collisions"]["twice"], &json!([20109]))?;
    let all: u64 = STAGES.iter().map(|(n, _)| bytes(n)).sum();
    let bring = all - bytes("web01");
    let target = &r["space"]["target"];
    s.equal(
        "the target's space",
        &json!([
            target["storage"],
            target["bytes"],
            target["free"],
            target["fits"]
        ]),
        &json!(["data", bring, null, null]),
    )?;
    // With Sys.Audit and Datastore.Audit, which the minimal role lacks, there are numbers.
    let acl = world["pve"]["acl"].as_array_mut().ok_or("no acl")?;
    for path in ["/nodes", "/storage/data"] {
        acl.push(json!({"path": path, "type": "token", "ugid": "migrate@pve!discover", "roleid": "MigSpace", "propagate": 1}));
    }
    world["pve"]["roles"]["MigSpace"] = json!(["Sys.Audit", "Datastore.Audit"]);
    s.lab.reset(&world)?;
    let r = read(s, &args, &file)?;
    let target = &r["space"]["target"];
    s.claim(
        target["fits"] == false
            && target["free"].as_u64().is_some_and(|f| f <= 8 << 20)
            && target["bytes"] == all,
        &format!("the target's space is {target}"),
    )?;
    let export = &r["space"]["export"];
    s.claim(
        export["fits"] == true
            && export["bytes"].as_u64().is_some()
            && export["free"].as_u64() > export["bytes"].as_u64(),
        &format!("the export's space is {export}"),
    )?;
    let to_come: u64 = STAGES.iter().map(|(n, _)| memory(n)).sum::<u64>() << 20;
    let line = |node: &str| -> Value {
        let mut all = r["memory"].as_array().into_iter().flatten();
        all.find(|m| m["node"] == node).cloned().unwrap_or_default()
    };
    let short = |m: &Value| json!([m["total"], m["to_come"], m["fits"]]);
    s.equal(
        "memory of pve1",
        &short(&line("pve1")),
        &json!([4_u64 << 30, to_come, false]),
    )?;
    s.equal(
        "memory of pve2",
        &short(&line("pve2")),
        &json!([64_u64 << 30, 0, true]),
    )
}

/// A real run, and what it wrote.
fn read(s: &mut Scenario<'_>, args: &[&str], file: &std::path::Path) -> Result<Value, String> {
    let run: Run = s.play("discover", args)?;
    s.claim(
        run.writes == 0,
        &format!("discover made {} writes", run.writes),
    )?;
    let text = std::fs::read_to_string(file)
        .map_err(|e| format!("{}: {e}\n{}", file.display(), run.recap))?;
    serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))
}
