//! Settings of a world, and what identifies a vCenter.
use super::build::text;
use super::model::Config;
use serde_json::{Value, json};

/// Settings of a world, with their defaults.
///
/// # Errors
/// A value that is none of the possible ones.
pub fn config(w: &Value) -> Result<Config, String> {
    let d = Config::default();
    let n = |key: &str, default: u64| w.get(key).and_then(Value::as_u64).unwrap_or(default);
    let cfg = Config {
        session_idle_ms: w
            .get("session_idle_s")
            .and_then(Value::as_f64)
            .map_or(d.session_idle_ms, |s| (s * 1000.0) as u64),
        relocate_bytes_per_s: n("relocate_bytes_per_s", d.relocate_bytes_per_s).max(1),
        relocate_min_ms: n("relocate_min_ms", d.relocate_min_ms),
        relocate_per_datastore: usize::try_from(n("relocate_per_datastore", 8)).unwrap_or(8),
        cold_rename: text(w, "cold_rename").unwrap_or(d.cold_rename),
        power_ms: n("power_ms", d.power_ms),
        snapshot_ms: n("snapshot_ms", d.snapshot_ms),
        page: usize::try_from(n("page", 100)).unwrap_or(100),
        files: w.get("files").and_then(Value::as_bool).unwrap_or(true),
    };
    if !["VirtualCenter", "HostAgent"]
        .contains(&text(w, "api_type").as_deref().unwrap_or("VirtualCenter"))
    {
        return Err("api_type is VirtualCenter or HostAgent".into());
    }
    if !["seed", "always", "never"].contains(&cfg.cold_rename.as_str()) {
        return Err("cold_rename is one of seed, always, never".into());
    }
    Ok(cfg)
}

/// `about` of the vCenter.
pub fn about(w: &Value) -> Value {
    let version = text(w, "version").unwrap_or_else(|| "8.0.3".into());
    if text(w, "api_type").as_deref() == Some("HostAgent") {
        // A standalone host has no instanceUuid.
        return json!({
            "name": "VMware ESXi", "fullName": format!("VMware ESXi {version} build-24022510"), "vendor": "VMware, Inc.", "version": version, "patchLevel": "35", "build": "24022510",
            "localeVersion": "INTL", "localeBuild": "000", "osType": "vmnix-x86", "productLineId": "embeddedEsx", "apiType": "HostAgent",
            "apiVersion": text(w, "api_version").unwrap_or_else(|| "8.0.3.0".into()), "licenseProductName": "VMware ESX Server", "licenseProductVersion": "8.0",
        });
    }
    json!({
        "name": "VMware vCenter Server", "fullName": format!("VMware vCenter Server {version} build-24022515"), "vendor": "VMware, Inc.", "version": version, "patchLevel": "00000", "build": "24022515",
        "localeVersion": "INTL", "localeBuild": "000", "osType": "linux-x64", "productLineId": "vpx", "apiType": "VirtualCenter",
        "apiVersion": text(w, "api_version").unwrap_or_else(|| "8.0.3.0".into()), "instanceUuid": text(w, "instance_uuid").unwrap_or_else(|| "6fbd2d7c-8f4f-4a3e-9d1c-0c3f5b1a2e90".into()),
        "licenseProductName": "VMware VirtualCenter Server", "licenseProductVersion": "8.0",
    })
}

/// ServiceContent of a vCenter: property, type, id.
/// Source: docs/vsphere-facts.md section 1.
const CONTENT: &[(&str, &str, &str)] = &[
    ("rootFolder", "Folder", "group-d1"),
    (
        "propertyCollector",
        "PropertyCollector",
        "propertyCollector",
    ),
    ("viewManager", "ViewManager", "ViewManager"),
    ("setting", "OptionManager", "VpxSettings"),
    ("userDirectory", "UserDirectory", "UserDirectory"),
    ("sessionManager", "SessionManager", "SessionManager"),
    (
        "authorizationManager",
        "AuthorizationManager",
        "AuthorizationManager",
    ),
    ("perfManager", "PerformanceManager", "PerfMgr"),
    (
        "scheduledTaskManager",
        "ScheduledTaskManager",
        "ScheduledTaskManager",
    ),
    ("alarmManager", "AlarmManager", "AlarmManager"),
    ("eventManager", "EventManager", "EventManager"),
    ("taskManager", "TaskManager", "TaskManager"),
    ("extensionManager", "ExtensionManager", "ExtensionManager"),
    (
        "customizationSpecManager",
        "CustomizationSpecManager",
        "CustomizationSpecManager",
    ),
    (
        "customFieldsManager",
        "CustomFieldsManager",
        "CustomFieldsManager",
    ),
    ("diagnosticManager", "DiagnosticManager", "DiagMgr"),
    ("licenseManager", "LicenseManager", "LicenseManager"),
    ("searchIndex", "SearchIndex", "SearchIndex"),
    ("fileManager", "FileManager", "FileManager"),
    (
        "virtualDiskManager",
        "VirtualDiskManager",
        "virtualDiskManager",
    ),
    (
        "vmProvisioningChecker",
        "VirtualMachineProvisioningChecker",
        "ProvChecker",
    ),
    (
        "vmCompatibilityChecker",
        "VirtualMachineCompatibilityChecker",
        "CompatChecker",
    ),
    ("ovfManager", "OvfManager", "OvfManager"),
    ("ipPoolManager", "IpPoolManager", "IpPoolManager"),
    (
        "dvSwitchManager",
        "DistributedVirtualSwitchManager",
        "DVSManager",
    ),
    (
        "storageResourceManager",
        "StorageResourceManager",
        "StorageResourceManager",
    ),
    (
        "guestOperationsManager",
        "GuestOperationsManager",
        "guestOperationsManager",
    ),
];

/// ServiceContent of a standalone ESXi: no provisioning checker, scheduler or custom fields.
/// Source: docs/vsphere-facts.md section 1.
const HOST_CONTENT: &[(&str, &str, &str)] = &[
    ("rootFolder", "Folder", "ha-folder-root"),
    (
        "propertyCollector",
        "PropertyCollector",
        "ha-property-collector",
    ),
    ("viewManager", "ViewManager", "ViewManager"),
    ("setting", "OptionManager", "HostAgentSettings"),
    ("userDirectory", "UserDirectory", "ha-user-directory"),
    ("sessionManager", "SessionManager", "ha-sessionmgr"),
    ("authorizationManager", "AuthorizationManager", "ha-authmgr"),
    ("perfManager", "PerformanceManager", "ha-perfmgr"),
    ("eventManager", "EventManager", "ha-eventmgr"),
    ("taskManager", "TaskManager", "ha-taskmgr"),
    ("diagnosticManager", "DiagnosticManager", "ha-diagnosticmgr"),
    ("licenseManager", "LicenseManager", "ha-license-manager"),
    ("searchIndex", "SearchIndex", "ha-searchindex"),
    ("fileManager", "FileManager", "ha-nfc-file-manager"),
    (
        "virtualDiskManager",
        "VirtualDiskManager",
        "ha-vdiskmanager",
    ),
    ("ovfManager", "OvfManager", "ha-ovf-manager"),
];

/// The ServiceContent that fits `apiType`.
pub fn content(about: &Value) -> &'static [(&'static str, &'static str, &'static str)] {
    if about["apiType"] == "HostAgent" {
        HOST_CONTENT
    } else {
        CONTENT
    }
}
