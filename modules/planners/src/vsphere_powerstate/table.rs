//! The arguments of `vsphere_powerstate`.

use crate::common::PLAN_ONLY;
use crate::privileges;
use crate::vsphere_common::CONNECTION;
use crate::vsphere_target::SELECT;
use crate::{Def, Side};
use spec::shared::{EXPECT_PLAN, RETURNS, RETURNS_WRITING};
use spec::{Kind, ModuleSpec, Opt, Ret};

const ANSWER: &[Opt] = &[
    Opt::str(
        "question",
        "The message id, for example C(msg.uuid.altered).",
    )
    .required(),
    Opt::str(
        "response",
        "The label of the choice, for example C(button.uuid.copiedTheVM).",
    )
    .required(),
];

const OWN: &[Opt] = &[
    Opt::str("state", "The power state.\nV(powered-off) and V(restarted) do not ask the guest; V(shutdown-guest) and V(reboot-guest) need running VMware Tools. A VM that is so already is left alone, also by V(shutdown-guest) and also in check mode.")
        .choices(&["powered-off", "powered-on", "reboot-guest", "restarted", "shutdown-guest", "suspended"])
        .default("\"powered-on\""),
    Opt::bool("force", "Lets V(powered-on) and V(powered-off) act on a suspended VM; with V(powered-off) its memory is lost.").default("false"),
    Opt::int("force_off_after", "With O(state=shutdown-guest): seconds that the guest has; then the VM is powered off. In this case O(timeout) is that of the power off.").range(1, 604_800),
    Opt::bool("despite_note", "Powers on a VM although its notes carry a line of M(trueplan.virt.vsphere_note), that is, although it has gone over to another platform.").default("false"),
    Opt::int("timeout", "Seconds to wait for the end, and before that for other running tasks of the VM. With V(0) the operation is only started. Has no meaning for O(state=reboot-guest).").default("3600").range(0, 604_800),
    Opt::str("scheduled_at", "Makes a scheduled task of vCenter instead: C(dd/mm/yyyy hh:mm), in UTC unless an offset such as C(+02:00) follows. As in the peer nothing is scheduled if the VM is in that state now."),
    Opt::str("scheduled_task_name", "Name of the scheduled task. Made of state, VM and time if not given, so that a second run finds it."),
    Opt::str("scheduled_task_description", "Description of the scheduled task."),
    Opt::bool("scheduled_task_enabled", "Whether the scheduled task is enabled.").default("true"),
    Opt::dicts("question_answers", "Answers to a question that the VM waits with, or comes to wait with while it is powered on. Without them a waiting VM is refused, with the question's text.", ANSWER),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::new("vm", Kind::Dict, "on success", "The VM.").contains(&[
        Ret::new("moid", Kind::Str, "always", "Its managed object id."),
        Ret::new("name", Kind::Str, "always", "Its name."),
    ]),
    Ret::new(
        "power_state",
        Kind::Str,
        "on success",
        "The power after the task: V(poweredOn), V(poweredOff) or V(suspended).",
    ),
    Ret::new(
        "forced",
        Kind::Bool,
        "on success",
        "Whether O(force_off_after) came to power it off; null in check mode where only the run can tell.",
    ),
    Ret::new(
        "duration_s",
        Kind::Float,
        "on success",
        "Seconds that it took; 0 in check mode.",
    ),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vsphere_powerstate",
    short: "Manage the power of vSphere VMs",
    doc: &[
        "Powers virtual machines on and off, suspends and restarts them, shuts their guests down, now or by a scheduled task of vCenter.",
        "Says beforehand what vCenter would refuse: templates, suspended VMs, missing VMware Tools, pending questions.",
    ],
    options: &[OWN, SELECT, CONNECTION, &[EXPECT_PLAN, PLAN_ONLY]],
    required_one_of: &[&["name", "uuid", "moid"]],
    mutually_exclusive: &[
        &["name", "uuid", "moid"],
        &["scheduled_at", "question_answers"],
    ],
    returns: &[OWN_RETURNS, RETURNS, RETURNS_WRITING],
    idempotent: spec::Support {
        support: "partial",
        details: "V(restarted) and V(reboot-guest) act on every run.",
    },
    examples: "- name: Shut down, and power off what has not gone after ten minutes\n  trueplan.virt.vsphere_powerstate:\n    hostname: vcenter.example.com\n    username: migrate@vsphere.local\n    password: \"{{ vault_vcenter_password }}\"\n    moid: vm-1042\n    state: shutdown-guest\n    force_off_after: 600\n",
    privileges: &[
        privileges::VSPHERE_READS,
        (
            "the VM",
            "C(VirtualMachine.Interact.PowerOn)",
            "O(state=powered-on)",
        ),
        (
            "the VM",
            "C(VirtualMachine.Interact.PowerOff)",
            "O(state=powered-off), O(state=shutdown-guest)",
        ),
        (
            "the VM",
            "C(VirtualMachine.Interact.Reset)",
            "O(state=restarted), O(state=reboot-guest)",
        ),
        (
            "the VM",
            "C(VirtualMachine.Interact.Suspend)",
            "O(state=suspended)",
        ),
        (
            "the VM",
            "C(VirtualMachine.Interact.AnswerQuestion)",
            "O(question_answers)",
        ),
        ("the VM", "C(ScheduledTask.Create)", "O(scheduled_at)"),
    ],
    replaces: Some("vmware.vmware.vm_powerstate"),
    action_groups: &["vsphere", "vmware"],
    ..ModuleSpec::EMPTY
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Vsphere,
    make: super::make,
};
