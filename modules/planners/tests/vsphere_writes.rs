//! Planner tests of `vsphere_powerstate` and `vsphere_note`; V-numbers are those of docs/peers-vsphere.md.
mod vc;

use plan::{ErrorKind, Fact, Failure, Key, Report};
use serde_json::{Value, json};
use vc::{Site, failure, only_step, steps};
use vsphere::keys::{VcKey, VmBy};

fn site() -> Site {
    let mut s = Site::new();
    s.vm("vm-1", "web", json!({}));
    s
}

fn power(s: &mut Site, args: Value) -> Report {
    s.check("vsphere_powerstate", args)
}

fn off(s: &mut Site) {
    s.edit("vm-1", |v| {
        v["power"] = json!("poweredOff");
        v["tools"]["running"] = json!("guestToolsNotRunning");
    });
}

#[test]
fn v3_1_the_datacenter_counts_and_two_of_one_name_are_told_apart() {
    let mut s = site();
    s.put(
        VcKey::Datacenters,
        json!([{"moid": "datacenter-1", "name": "DC0"}]),
    );
    s.absent(VcKey::Vm {
        by: VmBy::Name("web".into()),
        datacenter: Some("NOPE".into()),
    });
    let r = power(
        &mut s,
        json!({"name": "web", "datacenter": "NOPE", "state": "powered-off"}),
    );
    let msg = failure(&r, ErrorKind::NotFound);
    assert!(
        msg.contains("there is no datacenter NOPE; there are: DC0"),
        "{msg}"
    );

    let mut s = site();
    s.vm("vm-10", "web", json!({"path": "/DC0/vm/old"}));
    s.vm("vm-9", "web", json!({"path": "/DC0/vm/new/x"}));
    let moid = |r: &Report| r.keys["vm"]["moid"].clone();
    for (args, want) in [
        (json!({"name_match": "first"}), "vm-1"),
        (json!({"name_match": "last"}), "vm-10"),
        (json!({"folder": "new"}), "vm-9"),
        (json!({"folder": "DC0/vm/old"}), "vm-10"),
    ] {
        let mut all = json!({"name": "web", "state": "powered-off"});
        for (k, v) in args.as_object().unwrap() {
            all[k] = v.clone();
        }
        let r = s.clone().converges("vsphere_powerstate", all);
        assert_eq!(moid(&r), json!(want), "{args}");
    }
    let r = power(&mut s, json!({"name": "web", "folder": "/DC0/vm"}));
    let msg = failure(&r, ErrorKind::Refused);
    assert!(
        msg.contains("there are 3: vm-1 in /DC0/vm, vm-9 in /DC0/vm/new/x, vm-10 in /DC0/vm/old"),
        "{msg}"
    );
}

#[test]
fn v3_2_an_unknown_uuid_is_not_found() {
    let mut s = site();
    s.absent(VcKey::Vm {
        by: VmBy::Uuid("564d".into()),
        datacenter: None,
    });
    s.absent(VcKey::Vm {
        by: VmBy::InstanceUuid("5012".into()),
        datacenter: None,
    });
    let r = power(&mut s, json!({"uuid": "564d"}));
    assert!(failure(&r, ErrorKind::NotFound).contains("VM with uuid 564d: there is none"));
    let r = power(&mut s, json!({"uuid": "5012", "use_instance_uuid": true}));
    assert!(failure(&r, ErrorKind::NotFound).contains("instance uuid 5012"));
}

#[test]
fn v3_3_shut_down_and_power_off_after_a_while() {
    let mut s = site();
    let r = s.converges(
        "vsphere_powerstate",
        json!({"name": "web", "state": "shutdown-guest", "force_off_after": 600}),
    );
    let all = steps(&r);
    assert_eq!(all[0]["request"], "ShutdownGuest VirtualMachine:vm-1");
    assert_eq!(all[1]["request"], "PowerOffVM_Task VirtualMachine:vm-1");
    assert_eq!(all[1]["only_if"], "not powered off within 600 s");
    assert_eq!(
        (&r.keys["forced"], &r.keys["power_state"]),
        (&Value::Null, &json!("poweredOff"))
    );
    assert_eq!(r.keys["diff"]["before"]["power"], "poweredOn");
    assert_eq!(r.keys["diff"]["after"]["power"], "poweredOff");
    let e = s.args_error(
        "vsphere_powerstate",
        json!({"name": "web", "state": "powered-off", "force_off_after": 600}),
    );
    assert!(
        e.contains("force_off_after: counts only with state: shutdown-guest"),
        "{e}"
    );
}

#[test]
fn v3_3_with_force_off_after_the_first_step_does_not_wait() {
    let args = json!({"name": "web", "state": "shutdown-guest", "timeout": 7});
    let m = vc::make("vsphere_powerstate", args.clone());
    let mut s = site();
    let facts = s.gather(m.as_ref());
    let until = |s: &plan::Step| matches!(&s.wait, plan::Await::Until { pointer, equals, timeout_s: 7, .. } if pointer == "/power" && equals == "poweredOff");
    assert!(until(&m.plan(&facts).unwrap().steps[0]));
    let mut args = args;
    args["force_off_after"] = json!(5);
    let plan = vc::make("vsphere_powerstate", args).plan(&facts).unwrap();
    assert_eq!(plan.steps[0].wait, plan::Await::Answer);
    assert!(matches!(
        plan.steps[1].guard,
        Some(plan::Guard::UnlessWithin { seconds: 5, .. })
    ));
}

#[test]
fn v3_4_check_mode_looks_at_power_tools_and_force() {
    let mut s = site();
    off(&mut s);
    let r = power(&mut s, json!({"name": "web", "state": "shutdown-guest"}));
    assert_eq!(
        (&r.keys["changed"], &r.keys["plan"]),
        (&json!(false), &json!([]))
    );
    let mut s = site();
    s.edit("vm-1", |v| {
        v["tools"]["running"] = json!("guestToolsNotRunning")
    });
    for state in ["shutdown-guest", "reboot-guest"] {
        let r = power(&mut s, json!({"name": "web", "state": state}));
        let msg = failure(&r, ErrorKind::Refused);
        assert!(
            msg.contains("VMware tools should be installed for guest shutdown/reboot"),
            "{msg}"
        );
    }
    s.edit("vm-1", |v| {
        v["tools"]["running"] = json!("guestToolsExecutingScripts")
    });
    let r = power(&mut s, json!({"name": "web", "state": "shutdown-guest"}));
    assert_eq!(
        r.keys["waited_for"],
        json!(["scripts of the VMware Tools in VM web (vm-1)"])
    );
    assert_eq!(r.keys["changed"], true);
}

#[test]
fn v3_5_timeout_0_starts_and_does_not_wait() {
    for state in ["powered-off", "suspended", "restarted", "shutdown-guest"] {
        let mut s = site();
        let m = vc::make(
            "vsphere_powerstate",
            json!({"name": "web", "state": state, "timeout": 0}),
        );
        let facts = s.gather(m.as_ref());
        let step = m.plan(&facts).unwrap().steps.remove(0);
        assert!(
            matches!(step.wait, plan::Await::NoWait | plan::Await::Answer),
            "{state}"
        );
        let r = s.check_module(m.as_ref());
        assert_eq!(r.keys["changed"], true);
        assert_eq!(
            r.keys["diff"]["after"]["power"], "(not waited for)",
            "{state}"
        );
    }
}

#[test]
fn v3_6_a_failed_wait_says_that_something_was_changed() {
    let mut s = site();
    s.fail = Some(Failure::new(ErrorKind::Timeout, "not within 3 s").with("changed", true));
    let r = s.apply(
        "vsphere_powerstate",
        json!({"name": "web", "state": "shutdown-guest", "timeout": 3}),
    );
    assert_eq!(
        (&r.keys["failed"], &r.keys["changed"], &r.keys["error_kind"]),
        (&json!(true), &json!(true), &json!("timeout"))
    );
}

#[test]
fn v3_7_suspended_needs_force_and_a_guest_that_hears() {
    let mut s = site();
    s.edit("vm-1", |v| v["power"] = json!("suspended"));
    for state in ["powered-off", "powered-on"] {
        let msg = failure(
            &power(&mut s, json!({"name": "web", "state": state})),
            ErrorKind::Refused,
        );
        assert!(
            msg.contains("it is suspended; resume it, or give force: true"),
            "{msg}"
        );
        let r = s.clone().converges(
            "vsphere_powerstate",
            json!({"name": "web", "state": state, "force": true}),
        );
        assert_eq!(r.keys["changed"], true);
    }
    for state in ["shutdown-guest", "reboot-guest", "restarted"] {
        let msg = failure(
            &power(
                &mut s,
                json!({"name": "web", "state": state, "force": true}),
            ),
            ErrorKind::Refused,
        );
        assert!(msg.contains("it is suspended"), "{msg}");
    }
    let r = power(&mut s, json!({"name": "web", "state": "suspended"}));
    assert_eq!(r.keys["changed"], false);
}

#[test]
fn v3_8_what_is_off_is_not_restarted_nor_suspended() {
    let mut s = site();
    off(&mut s);
    for state in ["restarted", "reboot-guest", "suspended"] {
        let msg = failure(
            &power(&mut s, json!({"name": "web", "state": state})),
            ErrorKind::Refused,
        );
        assert!(msg.contains("it is powered off"), "{msg}");
    }
}

#[test]
fn v3_9_a_template_has_no_power() {
    let mut s = site();
    off(&mut s);
    s.edit("vm-1", |v| v["template"] = json!(true));
    let msg = failure(
        &power(&mut s, json!({"name": "web", "state": "powered-on"})),
        ErrorKind::Refused,
    );
    assert!(msg.contains("it is a template"), "{msg}");
    assert_eq!(
        power(&mut s, json!({"name": "web", "state": "powered-off"})).keys["changed"],
        false
    );
}

#[test]
fn v3_10_what_runs_is_waited_for_by_its_task() {
    let task =
        |op: &str| json!([{"moid": "task-7", "state": "running", "operation": op, "progress": 40}]);
    let mut s = site();
    s.edit("vm-1", |v| {
        v["running_tasks"] = task("VirtualMachine.powerOff")
    });
    // The power shown lags behind: vCenter says poweredOn until the task has ended.
    let r = s.clone().converges(
        "vsphere_powerstate",
        json!({"name": "web", "state": "powered-off"}),
    );
    assert_eq!(r.keys["changed"], false);
    assert_eq!(
        r.keys["waited_for"],
        json!(["task task-7 (VirtualMachine.powerOff) of VM web (vm-1)"])
    );
    s.edit("vm-1", |v| {
        v["running_tasks"] = task("VirtualMachine.relocate")
    });
    let r = power(
        &mut s.clone(),
        json!({"name": "web", "state": "powered-on"}),
    );
    assert!(
        !r.keys.contains_key("waited_for"),
        "nothing to do, nothing to wait for"
    );
    let r = power(&mut s, json!({"name": "web", "state": "shutdown-guest"}));
    assert_eq!(r.keys["waited_for"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        only_step(&r)["request"],
        "ShutdownGuest VirtualMachine:vm-1"
    );
}

#[test]
fn a_machine_that_has_gone_over_is_not_started() {
    let mut s = site();
    off(&mut s);
    s.edit("vm-1", |v| {
        v["annotation"] = json!("owner: bob\n[trueplan] migrated as 20001")
    });
    let msg = failure(&power(&mut s, json!({"name": "web"})), ErrorKind::Refused);
    assert!(
        msg.contains("[trueplan] migrated as 20001") && msg.contains("despite_note"),
        "{msg}"
    );
    assert_eq!(
        power(&mut s.clone(), json!({"name": "web", "despite_note": true})).keys["changed"],
        true
    );
    // Taking the note away is the other way, in the same check run.
    s.converges("vsphere_note", json!({"name": "web", "state": "absent"}));
    assert_eq!(power(&mut s, json!({"name": "web"})).keys["changed"], true);
}

#[test]
fn a_question_is_named_and_answered() {
    let mut s = site();
    s.edit("vm-1", |v| {
        v["power"] = json!("poweredOff");
        v["question"] = json!({"id": "q-1", "text": "msg.uuid.altered: moved or copied?"});
        v["running_tasks"] = json!([{"moid": "task-7", "state": "running", "operation": "VirtualMachine.powerOn", "progress": 95}]);
    });
    let msg = failure(&power(&mut s, json!({"name": "web"})), ErrorKind::Refused);
    assert!(
        msg.contains("moved or copied?") && msg.contains("question_answers"),
        "{msg}"
    );
    s.put(
        VcKey::Object { ty: "VirtualMachine".into(), moid: "vm-1".into(), paths: vec!["runtime.question".into()] },
        json!({"runtime": {"question": {"id": "q-1", "text": "msg.uuid.altered: moved or copied?", "message": [{"id": "msg.uuid.altered"}],
               "choice": {"choiceInfo": [{"key": "0", "label": "button.uuid.cancel"}, {"key": "2", "label": "button.uuid.copiedTheVM"}]}}}}),
    );
    let answers = |q: &str, r: &str| json!({"name": "web", "question_answers": [{"question": q, "response": r}]});
    let msg = failure(
        &power(&mut s, answers("msg.other", "x")),
        ErrorKind::Refused,
    );
    assert!(msg.contains("its id is msg.uuid.altered, its choices are button.uuid.cancel, button.uuid.copiedTheVM"), "{msg}");
    let r = s.converges(
        "vsphere_powerstate",
        answers("msg.uuid.altered", "button.uuid.copiedTheVM"),
    );
    assert_eq!(
        only_step(&r)["params"],
        json!({"questionId": "q-1", "answerChoice": "2"})
    );
    assert_eq!(r.keys["power_state"], "poweredOn");
}

#[test]
fn another_machine_than_was_meant_is_refused() {
    let mut s = site();
    let r = power(
        &mut s,
        json!({"name": "web", "state": "powered-off", "guard_uuid": "564d0000-0000-0000-0000-000000000009"}),
    );
    assert!(failure(&r, ErrorKind::Refused).contains("it is another machine"));
    let r = power(
        &mut s,
        json!({"name": "web", "state": "powered-off", "guard_uuid": "564D0000000000000000000000000001"}),
    );
    assert_eq!(r.keys["changed"], true);
}

fn scheduler(s: &mut Site, tasks: &[Value]) {
    let refs: Vec<String> = (0..tasks.len())
        .map(|i| format!("vim.scheduler.ScheduledTask:schedule-{i}"))
        .collect();
    let object = |ty: &str, moid: &str, paths: &[&str]| VcKey::Object {
        ty: ty.into(),
        moid: moid.into(),
        paths: paths.iter().map(|p| (*p).to_owned()).collect(),
    };
    s.put(
        object("ServiceInstance", "ServiceInstance", &["content.scheduledTaskManager", "serverClock"]),
        json!({"content": {"scheduledTaskManager": "vim.scheduler.ScheduledTaskManager:ScheduledTaskManager"}, "serverClock": "2026-11-30T16:00:00.5Z"}),
    );
    s.put(
        object(
            "ScheduledTaskManager",
            "ScheduledTaskManager",
            &["scheduledTask"],
        ),
        json!({"scheduledTask": refs}),
    );
    for (i, t) in tasks.iter().enumerate() {
        s.put(
            object(
                "ScheduledTask",
                &format!("schedule-{i}"),
                &[
                    "info.name",
                    "info.entity",
                    "info.enabled",
                    "info.scheduler",
                    "info.action",
                ],
            ),
            json!({"info": t}),
        );
    }
}

#[test]
fn a_scheduled_task_is_made_once() {
    let mut s = site();
    let theirs = json!({"name": "backup", "entity": "vim.VirtualMachine:vm-1", "enabled": true, "scheduler": {"runAt": "2026-12-01T00:00:00Z"}, "action": {"name": "CreateSnapshot_Task"}});
    scheduler(&mut s, &[theirs]);
    let args =
        json!({"name": "web", "state": "powered-off", "scheduled_at": "01/12/2026 10:30 +02:00"});
    let r = s.clone().converges("vsphere_powerstate", args.clone());
    let p = &only_step(&r)["params"];
    assert_eq!(p["entity"], "VirtualMachine:vm-1");
    assert_eq!(
        p["spec"]["scheduler"],
        json!({"_type": "OnceTaskScheduler", "runAt": "2026-12-01T08:30:00Z"})
    );
    assert_eq!(
        p["spec"]["action"],
        json!({"_type": "MethodAction", "name": "PowerOffVM_Task"})
    );
    assert_eq!(
        r.keys["diff"]["after"]["scheduled_tasks"][0]["at"],
        "2026-12-01T08:30:00Z"
    );
    assert_eq!(r.keys["power_state"], "poweredOn");
    let msg = failure(
        &power(
            &mut s,
            json!({"name": "web", "state": "powered-off", "scheduled_at": "30/11/2026 10:00"}),
        ),
        ErrorKind::Refused,
    );
    assert!(msg.contains("has already passed"), "{msg}");
    let msg = failure(
        &power(
            &mut s,
            json!({"name": "web", "state": "powered-off", "scheduled_at": "01/12/2026 10:30", "scheduled_task_name": "backup"}),
        ),
        ErrorKind::Refused,
    );
    assert!(msg.contains("has a scheduled task named"), "{msg}");
    let e = s.args_error(
        "vsphere_powerstate",
        json!({"name": "web", "scheduled_at": "2026-12-01"}),
    );
    assert!(e.contains("dd/mm/yyyy hh:mm"), "{e}");
    // As the server prints what we made.
    let mut s = site();
    scheduler(
        &mut s,
        &[
            json!({"name": "trueplan powered-off vm-1 2026-12-01T08:30:00Z", "entity": "vim.VirtualMachine:vm-1", "enabled": true,
        "scheduler": {"_vimtype": "vim.scheduler.OnceTaskScheduler", "runAt": "2026-12-01T10:30:00.000000+02:00"}, "action": {"name": "vim.VirtualMachine.powerOff"}}),
        ],
    );
    assert_eq!(power(&mut s, args).keys["changed"], false);
}

#[test]
fn a_note_is_one_request_with_the_notes_alone() {
    let mut s = site();
    s.edit("vm-1", |v| v["annotation"] = json!("owner: bob\nline 2"));
    let r = s.converges(
        "vsphere_note",
        json!({"name": "web", "text": "migrated to Proxmox VE as 20001"}),
    );
    assert_eq!(
        only_step(&r)["request"],
        "ReconfigVM_Task VirtualMachine:vm-1"
    );
    assert_eq!(
        only_step(&r)["params"],
        json!({"spec": {"annotation": "owner: bob\nline 2\n[trueplan] migrated to Proxmox VE as 20001"}})
    );
    assert_eq!(r.keys["note"], "migrated to Proxmox VE as 20001");
    assert_eq!(
        r.keys["diff"]["after"]["notes"],
        json!([
            "owner: bob",
            "line 2",
            "[trueplan] migrated to Proxmox VE as 20001"
        ])
    );
    let r = s.converges("vsphere_note", json!({"name": "web", "state": "absent"}));
    assert_eq!(
        only_step(&r)["params"],
        json!({"spec": {"annotation": "owner: bob\nline 2"}})
    );
    let e = s.args_error(
        "vsphere_note",
        json!({"name": "web", "text": "a\nb", "key": "A B"}),
    );
    assert!(e.contains("one line") && e.contains("lower-case"), "{e}");
    let e = s.args_error("vsphere_note", json!({"name": "web"}));
    assert!(e.contains("text"), "{e}");
}

#[test]
fn notes_that_cannot_be_read_are_not_overwritten() {
    let mut s = site();
    s.edit("vm-1", |v| v["unreadable"] = json!(["config.annotation"]));
    let r = s.check("vsphere_note", json!({"name": "web", "text": "x"}));
    assert!(failure(&r, ErrorKind::Permission).contains("would drop what others wrote"));
    s.fact(
        VcKey::Vm {
            by: VmBy::Name("web".into()),
            datacenter: None,
        },
        Fact::Unreadable("no System.Read".into()),
    );
    failure(
        &s.check("vsphere_note", json!({"name": "web", "text": "x"})),
        ErrorKind::Permission,
    );
}

#[test]
fn one_fact_is_enough_where_nothing_is_to_be_done() {
    let mut s = site();
    let r = power(&mut s, json!({"name": "web", "state": "powered-on"}));
    assert_eq!(r.keys["changed"], false);
    let by_name: Key = VcKey::Vm {
        by: VmBy::Name("web".into()),
        datacenter: None,
    }
    .key();
    assert_eq!(s.read, [by_name]);
}

#[test]
fn the_tables_are_sound() {
    for m in ["vsphere_powerstate", "vsphere_note"] {
        let d = planners::find(m).unwrap();
        assert_eq!(spec::lint(d.spec), Vec::<String>::new(), "{m}");
    }
}
