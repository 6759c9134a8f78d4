//! How the bytes of a VMDK pair that ESXi wrote get over: what works and what is refused (docs/pve-facts.md, last sections).
mod common;
use serde_json::{Map, Value, json};
use std::fs;

const DESCRIPTOR: &str = "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"vmfs\"\n\n# Extent description\n";
const DATABASE: &str =
    "\n# The Disk Data Base\n#DDB\nddb.adapterType = \"lsilogic\"\nddb.virtualHWVersion = \"19\"\n";

fn object(v: Value) -> Map<String, Value> {
    v.as_object().unwrap().clone()
}

#[test]
fn a_pair_of_esxi_goes_over_by_three_ways_and_not_by_two() {
    let mut world = common::starting_world();
    world["content"] = json!({});
    world["storage"].as_array_mut().unwrap().extend([
        json!({"storage": "nfs", "type": "nfs", "export": true, "content": "images,import"}),
        json!({"storage": "esx", "type": "esxi", "datastores": {"nfs ds": "export", "nfs": "export"}, "content": "import"}),
    ]);
    let lab = common::lab(&world);
    let root = common::signed(&lab, "root");
    // VMware's pair, in a folder with a space and an umlaut.
    let bytes: Vec<u8> = (0..512 * 64u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let folder = lab.dir.join("export/Büro app");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("app-flat.vmdk"), &bytes).unwrap();
    fs::write(
        folder.join("app.vmdk"),
        format!("{DESCRIPTOR}RW 64 VMFS \"app-flat.vmdk\"\n{DATABASE}"),
    )
    .unwrap();
    fs::create_dir_all(lab.dir.join("export/app")).unwrap();
    for file in ["app-flat.vmdk", "app.vmdk"] {
        fs::copy(folder.join(file), lab.dir.join("export/app").join(file)).unwrap();
    }
    // The same pair below import/, and a descriptor of our own below images/.
    fs::create_dir_all(lab.dir.join("export/import")).unwrap();
    fs::copy(
        folder.join("app.vmdk"),
        lab.dir.join("export/import/app.vmdk"),
    )
    .unwrap();
    fs::copy(
        folder.join("app-flat.vmdk"),
        lab.dir.join("export/import/app-flat.vmdk"),
    )
    .unwrap();
    fs::create_dir_all(lab.dir.join("export/images/300")).unwrap();
    let own = format!("{DESCRIPTOR}RW 64 VMFS \"../../Büro app/app-flat.vmdk\"\n{DATABASE}");
    fs::write(lab.dir.join("export/images/300/disk0.vmdk"), &own).unwrap();

    let create = |vmid: u32, params: Value| -> String {
        let mut params = object(params);
        params.insert("vmid".into(), json!(vmid));
        let answer = root.call("POST", "/nodes/pve1/qemu", &params);
        match answer.body["data"].as_str() {
            Some(upid) => root.wait(upid).0,
            None => format!("{} {}", answer.status, answer.body),
        }
    };
    let image = |vmid: u32| {
        fs::read(
            lab.dir
                .join(format!("storage/local/images/{vmid}/vm-{vmid}-disk-0.raw")),
        )
        .unwrap()
    };

    let exit = create(
        300,
        json!({"scsi0": "local:0,import-from=nfs:300/disk0.vmdk,format=raw"}),
    );
    assert_eq!(exit, "OK");
    assert_eq!(image(300), bytes, "our descriptor");
    let exit = create(
        301,
        json!({"scsi0": "local:0,import-from=esx:ha-datacenter/nfs/app/app.vmdk,format=raw"}),
    );
    assert_eq!(exit, "OK");
    assert_eq!(image(301), bytes, "an esxi storage");
    let exit = create(
        302,
        json!({"scsi0": "local:0,import-from=nfs:import/app.vmdk,format=raw"}),
    );
    assert!(
        exit.contains("multiple children or extents are not allowed!"),
        "{exit}"
    );
    let exit = create(
        303,
        json!({"scsi0": "local:0,import-from=nfs:import/app/app.vmdk,format=raw"}),
    );
    assert!(
        exit.contains("unable to parse directory volume name 'import/app/app.vmdk'"),
        "{exit}"
    );

    // Attached: the guest's disk is VMware's data file; the move copies it, and VMware's files stay as they were.
    let exit = create(304, json!({}));
    assert_eq!(exit, "OK");
    fs::create_dir_all(lab.dir.join("export/images/304")).unwrap();
    fs::write(lab.dir.join("export/images/304/disk0.vmdk"), &own).unwrap();
    let put = root.call(
        "PUT",
        "/nodes/pve1/qemu/304/config",
        &object(json!({"scsi0": "nfs:304/disk0.vmdk"})),
    );
    assert_eq!(put.status, 200, "{}", put.body);
    let moved = root.call(
        "POST",
        "/nodes/pve1/qemu/304/move_disk",
        &object(json!({"disk": "scsi0", "storage": "local", "format": "raw"})),
    );
    assert_eq!(root.wait(moved.body["data"].as_str().unwrap()).0, "OK");
    assert_eq!(image(304), bytes, "attached and moved");
    let config = root
        .call("GET", "/nodes/pve1/qemu/304/config", &Map::new())
        .body["data"]
        .clone();
    assert_eq!(config["unused0"], "nfs:304/disk0.vmdk");
    assert_eq!(fs::read(folder.join("app-flat.vmdk")).unwrap(), bytes);
    assert!(
        fs::read_to_string(folder.join("app.vmdk"))
            .unwrap()
            .contains("\"app-flat.vmdk\"")
    );
}
