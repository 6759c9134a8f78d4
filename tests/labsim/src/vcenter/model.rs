//! What the simulated vCenter keeps: virtual machines, tasks, sessions, and the rendered objects.
use super::xml::mo_id;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Instant;

/// A managed object as it is served.
#[derive(Clone, Debug, Default)]
pub struct Obj {
    /// Managed object type.
    pub ty: String,
    /// Its properties, typed JSON: `$mo` references, `_t` where a subtype is meant.
    pub props: Map<String, Value>,
}

/// A disk controller.
#[derive(Clone, Debug)]
pub struct Ctrl {
    /// Device key.
    pub key: i64,
    /// Wire type, such as `ParaVirtualSCSIController`.
    pub ty: &'static str,
    /// Bus number.
    pub bus: i64,
    /// `noSharing`, `virtualSharing` or `physicalSharing`.
    pub sharing: String,
}

/// A virtual disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Device key.
    pub key: i64,
    /// Number in its label.
    pub n: usize,
    /// Its controller's device key.
    pub ctrl: i64,
    /// Unit number.
    pub unit: i64,
    /// Capacity.
    pub bytes: u64,
    /// The datastore's id.
    pub ds: String,
    /// Descriptors within that datastore, base first, as in `web/web.vmdk`.
    pub layers: Vec<String>,
    /// diskMode.
    pub mode: String,
    /// Backing's sharing.
    pub sharing: String,
    /// Thin provisioned.
    pub thin: bool,
    /// Descriptor's uuid.
    pub uuid: String,
    /// `physicalMode` or `virtualMode` for a raw device mapping.
    pub rdm: Option<String>,
    /// Adapter type of the descriptor.
    pub adapter: &'static str,
}

/// A network card.
#[derive(Clone, Debug)]
pub struct Nic {
    /// Device key.
    pub key: i64,
    /// Wire type, such as `VirtualVmxnet3`.
    pub ty: &'static str,
    /// MAC address, lower case.
    pub mac: String,
    /// addressType.
    pub address_type: String,
    /// The network's id.
    pub network: String,
    /// Connected at power on.
    pub connected: bool,
}

/// A snapshot; they form one chain.
#[derive(Clone, Debug)]
pub struct Snap {
    /// Its reference's id.
    pub moid: String,
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Number within the virtual machine.
    pub id: i64,
    /// Time of creation.
    pub time: String,
    /// Power state at that time.
    pub power: String,
}

/// A virtual machine.
#[derive(Clone, Debug, Default)]
pub struct Vm {
    /// Its id, such as `vm-104`.
    pub moid: String,
    /// Name, not escaped.
    pub name: String,
    /// BIOS uuid.
    pub uuid: String,
    /// instanceUuid.
    pub instance_uuid: String,
    /// Folder's id.
    pub folder: String,
    /// Host's id.
    pub host: String,
    /// Resource pool's id.
    pub pool: String,
    /// Home datastore's id.
    pub ds: String,
    /// Home folder within it.
    pub dir: String,
    /// Base name of vmx, nvram and so on.
    pub stem: String,
    /// Files of the home other than disks, by their ending, such as `.vmx`.
    pub aux: Vec<String>,
    /// Is a template.
    pub template: bool,
    /// powerState.
    pub power: String,
    /// `running`, `not_running`, `not_installed`, `scripts`.
    pub tools: String,
    /// The guest hears the shutdown request and does nothing.
    pub ignores_shutdown: bool,
    /// Somebody asked the guest to go down, and it has not followed.
    pub asked: bool,
    /// How long the guest takes to shut down.
    pub shutdown_ms: u64,
    /// guestState while something is going on.
    pub guest_state: Option<String>,
    /// Notes.
    pub annotation: String,
    /// guestId.
    pub guest_id: String,
    /// Host name inside.
    pub hostname: String,
    /// Hardware version number.
    pub hw: i64,
    /// Virtual CPUs.
    pub cpus: i64,
    /// Cores per socket.
    pub cores: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// `bios` or `efi`.
    pub firmware: String,
    /// Secure boot.
    pub secure_boot: bool,
    /// Has a virtual TPM.
    pub vtpm: bool,
    /// Is encrypted.
    pub encrypted: bool,
    /// Device key of the disk that bootOrder names.
    pub boot_disk: Option<i64>,
    /// Controllers.
    pub ctrls: Vec<Ctrl>,
    /// Disks, in the order of their labels.
    pub disks: Vec<Disk>,
    /// Network cards.
    pub nics: Vec<Nic>,
    /// CD-ROM: path of an ISO (empty: none) and whether it is connected.
    pub cdrom: Option<(String, bool)>,
    /// VMware Tools' ISO is mounted for installation.
    pub tools_iso: bool,
    /// Snapshots, oldest first.
    pub snaps: Vec<Snap>,
    /// A question waits: text and choices.
    pub question: Option<(String, Vec<String>)>,
    /// connectionState.
    pub connection: String,
    /// disabledMethod.
    pub disabled: Vec<String>,
    /// Property paths that the world overrides.
    pub overrides: Map<String, Value>,
    /// Order of devices, chosen by the seed: a sort key per device key.
    pub shuffle: u64,
    /// Counts changes.
    pub change: u64,
    /// When it was switched on.
    pub boot_time: Option<String>,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The method, such as `RelocateVM_Task`.
    pub method: String,
    /// Type and id of its entity.
    pub entity: (String, String),
    /// queued, running, success, error.
    pub state: &'static str,
    /// Percent, when reported.
    pub progress: Option<i64>,
    /// May be cancelled.
    pub cancelable: bool,
    /// CancelTask was called.
    pub cancelled: bool,
    /// Fault of a failed one.
    pub error: Option<Value>,
    /// Result, as a value for an anyType slot.
    pub result: Option<Value>,
    /// Times.
    pub queued_at: String,
    /// Start.
    pub started_at: Option<String>,
    /// End.
    pub ended_at: Option<String>,
    /// Who asked.
    pub user: String,
    /// Datastores that a relocation touches.
    pub datastores: Vec<String>,
}

impl Task {
    /// Queued or running.
    pub fn active(&self) -> bool {
        matches!(self.state, "queued" | "running")
    }
}

/// What a filter has told its client, by version.
pub type Seen = BTreeMap<(String, String), Value>;

/// A property collector with its filters.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    /// Filters: id and spec.
    pub filters: Vec<(String, Value)>,
    /// The last versions and what the client knew then.
    pub seen: Vec<(u64, BTreeMap<String, Seen>)>,
    /// Counts versions.
    pub version: u64,
}

/// A signed-in session.
#[derive(Clone, Debug)]
pub struct Session {
    /// UserSession.key, not the cookie.
    pub key: String,
    /// User name.
    pub user: String,
    /// Methods that this user may not call.
    pub deny: Vec<String>,
    /// May only read.
    pub read_only: bool,
    /// Last call.
    pub last: Instant,
    /// Sign-in.
    pub login_time: String,
    /// Objects of this session: views and filters.
    pub owned: Vec<String>,
    /// Rest of a retrieval by token: objects and page size.
    pub tokens: HashMap<String, (Vec<Value>, usize)>,
    /// Property collectors.
    pub collectors: HashMap<String, Collector>,
    /// Number of calls.
    pub calls: i64,
}

/// A datastore.
#[derive(Clone, Debug)]
pub struct Store {
    /// Name, not escaped.
    pub name: String,
    /// Where its files are.
    pub root: PathBuf,
    /// `VMFS`, `NFS`, `NFS41`, `vsan`.
    pub kind: String,
    /// Hosts that mount it.
    pub hosts: Vec<String>,
    /// accessible.
    pub accessible: bool,
    /// maintenanceMode.
    pub maintenance: String,
    /// Capacity in bytes.
    pub capacity: u64,
    /// Bytes taken by other things.
    pub used: u64,
    /// Access mode of the mounts.
    pub access: String,
}

/// Everything that changes.
#[derive(Default)]
pub struct State {
    /// Objects by id.
    pub objs: BTreeMap<String, Obj>,
    /// Virtual machines by id.
    pub vms: BTreeMap<String, Vm>,
    /// Datastores by id.
    pub stores: BTreeMap<String, Store>,
    /// Tasks, oldest first.
    pub tasks: Vec<Task>,
    /// Sessions by cookie.
    pub sessions: HashMap<String, Session>,
    /// Next number for an id.
    pub next_id: u64,
    /// Random numbers.
    pub rng: u64,
    /// Rises on reset: old background work gives up.
    pub generation: u64,
    /// Properties that may not be read: object id (or `*`) and path.
    pub unreadable: Vec<(String, String)>,
    /// Settings of the world.
    pub cfg: Config,
    /// The next task of that method fails once it has come that far (per cent).
    pub task_faults: Vec<(String, i64)>,
    /// Hosts whose CPUs lack what running machines of the others use.
    pub older_cpu: Vec<String>,
}

/// Settings of the world, with their defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Idle time after which a session is gone.
    pub session_idle_ms: u64,
    /// Speed of relocations.
    pub relocate_bytes_per_s: u64,
    /// Shortest relocation.
    pub relocate_min_ms: u64,
    /// Relocations per datastore; more are queued.
    pub relocate_per_datastore: usize,
    /// `seed`, `always`, `never`: whether a cold move renames the files.
    pub cold_rename: String,
    /// Duration of a power operation.
    pub power_ms: u64,
    /// Duration of a snapshot operation.
    pub snapshot_ms: u64,
    /// Largest page of RetrievePropertiesEx.
    pub page: usize,
    /// Write files.
    pub files: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            session_idle_ms: 1_800_000,
            relocate_bytes_per_s: 400_000_000,
            relocate_min_ms: 150,
            relocate_per_datastore: 8,
            cold_rename: "seed".into(),
            power_ms: 80,
            snapshot_ms: 80,
            page: 100,
            files: true,
        }
    }
}

impl State {
    /// A new id with that prefix, as in `task-17`.
    pub fn new_id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        format!("{prefix}-{}", self.next_id)
    }

    /// The id that ServiceContent gives for one of its properties, empty when there is none.
    pub fn content(&self, prop: &str) -> String {
        let content = self
            .objs
            .get("ServiceInstance")
            .and_then(|o| o.props.get("content"));
        content
            .and_then(|c| mo_id(&c[prop]))
            .unwrap_or("")
            .to_string()
    }

    /// A random number (splitmix64).
    pub fn random(&mut self) -> u64 {
        splitmix(&mut self.rng)
    }

    /// Puts a list in the order that the seed chooses.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = usize::try_from(self.random() % (i as u64 + 1)).unwrap_or(0);
            list.swap(i, j);
        }
    }

    /// The active task of an entity.
    pub fn active_task(&self, entity: &str) -> Option<&Task> {
        self.tasks
            .iter()
            .find(|t| t.entity.1 == entity && t.active())
    }

    /// The ids that a property of an object refers to.
    pub fn refs(&self, id: &str, prop: &str) -> Vec<String> {
        match self.objs.get(id).and_then(|o| o.props.get(prop)) {
            Some(Value::Array(list)) => list.iter().filter_map(mo_id).map(String::from).collect(),
            Some(v) => mo_id(v).map(String::from).into_iter().collect(),
            None => vec![],
        }
    }
}

/// One step of splitmix64.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A name as the API shows it: `%`, `/` and `\` escaped.
/// Source: docs/vsphere-facts.md section 4.
pub fn escape_name(name: &str) -> String {
    name.replace('%', "%25")
        .replace('/', "%2f")
        .replace('\\', "%5c")
}

/// A moment as xsd:dateTime.
pub fn iso(t: std::time::SystemTime) -> String {
    let d = t.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (days, s) = (d.as_secs() / 86_400, d.as_secs() % 86_400);
    // Civil date from days, after Howard Hinnant's public description of the algorithm.
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        s / 3600,
        s / 60 % 60,
        s % 60,
        d.subsec_micros()
    )
}

/// Now, as xsd:dateTime.
pub fn now() -> String {
    iso(std::time::SystemTime::now())
}
