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
    if !["seed", "always", "never"].contains(&cfg.cold_rename.as_str()) {
        return Err("cold_rename is one of seed, always, never".into());
    }
    Ok(cfg)
}

/// `about` of the vCenter.
pub fn about(w: &Value) -> Value {
    let version = text(w, "version").unwrap_or_else(|| "8.0.3".into());
    json!({
        "name": "VMware vCenter Server", "fullName": format!("VMware vCenter Server {version} build-24022515"), "vendor": "VMware, Inc.", "version": version, "patchLevel": "00000", "build": "24022515",
        "localeVersion": "INTL", "localeBuild": "000", "osType": "linux-x64", "productLineId": "vpx", "apiType": text(w, "api_type").unwrap_or_else(|| "VirtualCenter".into()),
        "apiVersion": text(w, "api_version").unwrap_or_else(|| "8.0.3.0".into()), "instanceUuid": text(w, "instance_uuid").unwrap_or_else(|| "6fbd2d7c-8f4f-4a3e-9d1c-0c3f5b1a2e90".into()),
        "licenseProductName": "VMware VirtualCenter Server", "licenseProductVersion": "8.0",
    })
}

/// ServiceContent of a vCenter: property, type, id.
/// Source: docs/vsphere-facts.md section 1.
pub const CONTENT: &[(&str, &str, &str)] = &[
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
