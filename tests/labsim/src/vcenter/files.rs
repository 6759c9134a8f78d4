//! The files of a virtual machine: VMDK pairs with random content, vmx, nvram; copying and renaming them.
use super::model::{Disk, State, Store, Vm, splitmix};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const CHUNK: usize = 64 * 1024;

/// The folder part and the base name of a descriptor, as in `web/web_1.vmdk` -> (`web`, `web_1`).
pub fn split(descriptor: &str) -> (&str, &str) {
    let (dir, file) = descriptor.rsplit_once('/').unwrap_or(("", descriptor));
    (dir, file.strip_suffix(".vmdk").unwrap_or(file))
}

/// The data file of a layer, and its kind for layoutEx.
pub fn extent(disk: &Disk, layer: usize, store_kind: &str) -> String {
    let path = disk.layers.get(layer).map(String::as_str).unwrap_or("");
    let stem = path.strip_suffix(".vmdk").unwrap_or(path);
    if layer > 0 {
        // Source: docs/vsphere-facts.md section 4 (SEsparse is the delta of VMFS6).
        let kind = if store_kind == "VMFS" {
            "sesparse"
        } else {
            "delta"
        };
        format!("{stem}-{kind}.vmdk")
    } else {
        match disk.rdm.as_deref() {
            Some("physicalMode") => format!("{stem}-rdmp.vmdk"),
            Some(_) => format!("{stem}-rdm.vmdk"),
            None => format!("{stem}-flat.vmdk"),
        }
    }
}

/// The text of a descriptor, as VMware writes it.
/// Source: VMware Virtual Disk Format 5.0 (public technical note).
pub fn descriptor(disk: &Disk, layer: usize, store_kind: &str, hw: i64) -> String {
    let (_, stem) = split(disk.layers.get(layer).map(String::as_str).unwrap_or(""));
    let data = extent(disk, layer, store_kind);
    let data = data.rsplit('/').next().unwrap_or("");
    let cid = |n: usize| {
        let mut s = disk.uuid.bytes().fold(n as u64, |a, b| {
            a.wrapping_mul(131).wrapping_add(u64::from(b))
        });
        splitmix(&mut s) as u32 & 0xffff_fffe
    };
    let (create, kind) = match (layer, disk.rdm.as_deref()) {
        (0, None) => ("vmfs", "VMFS"),
        (0, Some("physicalMode")) => ("vmfsPassthroughRawDeviceMap", "VMFSRDM"),
        (0, Some(_)) => ("vmfsRawDeviceMap", "VMFSRDM"),
        _ if store_kind == "VMFS" => ("seSparse", "SESPARSE"),
        _ => ("vmfsSparse", "VMFSSPARSE"),
    };
    let sectors = disk.bytes / 512;
    let parent = layer
        .checked_sub(1)
        .map_or("ffffffff".to_string(), |l| format!("{:08x}", cid(l)));
    let mut out = format!(
        "# Disk DescriptorFile\nversion={}\nencoding=\"UTF-8\"\nCID={:08x}\nparentCID={parent}\ncreateType=\"{create}\"\n",
        if disk.mode.starts_with("independent") || layer == 0 {
            1
        } else {
            3
        },
        cid(layer)
    );
    if layer > 0 {
        let hint = disk
            .layers
            .get(layer - 1)
            .map(|l| split(l).1)
            .unwrap_or(stem);
        out.push_str(&format!("parentFileNameHint=\"{hint}.vmdk\"\n"));
    }
    out.push_str(&format!(
        "\n# Extent description\nRW {sectors} {kind} \"{data}\"\n"
    ));
    out.push_str("\n# The Disk Data Base \n#DDB\n\n");
    out.push_str(&format!("ddb.adapterType = \"{}\"\n", disk.adapter));
    let (heads, per_track) = if disk.adapter == "ide" {
        (16, 63)
    } else {
        (255, 63)
    };
    out.push_str(&format!(
        "ddb.geometry.cylinders = \"{}\"\n",
        sectors / (heads * per_track)
    ));
    out.push_str(&format!(
        "ddb.geometry.heads = \"{heads}\"\nddb.geometry.sectors = \"{per_track}\"\n"
    ));
    out.push_str(&format!(
        "ddb.longContentID = \"{:08x}{:08x}{:08x}{:08x}\"\n",
        cid(9),
        cid(8),
        cid(7),
        cid(layer)
    ));
    if disk.thin {
        out.push_str("ddb.thinProvisioned = \"1\"\n");
    }
    let hex: String = disk.uuid.chars().filter(char::is_ascii_hexdigit).collect();
    let pairs: Vec<&str> = (0..hex.len() / 2)
        .filter_map(|i| hex.get(2 * i..2 * i + 2))
        .collect();
    let (a, b) = pairs.split_at(pairs.len() / 2);
    out.push_str(&format!(
        "ddb.uuid = \"{}-{}\"\nddb.virtualHWVersion = \"{hw}\"\n",
        a.join(" "),
        b.join(" ")
    ));
    out
}

/// Fills a new data file: about half of it random bytes, the rest holes; the first block is always data.
fn random_file(path: &Path, bytes: u64, seed: u64, share: u64) -> std::io::Result<()> {
    let mut f = File::create(path)?;
    f.set_len(bytes)?;
    let mut rng = seed;
    let mut block = vec![0u8; CHUNK];
    let mut at = 0u64;
    // A large disk keeps the same amount of data as a small one, else a lab would take minutes to start.
    let most = 24 * 1024 * 1024 / CHUNK as u64;
    let mut written = 0;
    while at < bytes {
        let n = usize::try_from((bytes - at).min(CHUNK as u64)).unwrap_or(CHUNK);
        let last = at + n as u64 >= bytes;
        if at == 0 || last || (splitmix(&mut rng) % 100 < share && written < most) {
            for word in block.chunks_mut(8) {
                let r = splitmix(&mut rng).to_le_bytes();
                word.copy_from_slice(r.get(..word.len()).unwrap_or(&[0; 8]));
            }
            if at == 0 && n >= 512 {
                block[510] = 0x55;
                block[511] = 0xaa;
            }
            f.seek(SeekFrom::Start(at))?;
            f.write_all(&block[..n])?;
            written += 1;
        }
        at += n as u64;
    }
    Ok(())
}

/// Copies a file and keeps its holes.
///
/// # Errors
/// The file system's.
pub fn copy_sparse(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut src = File::open(from)?;
    let len = src.metadata()?.len();
    let mut dst = File::create(to)?;
    dst.set_len(len)?;
    let mut buf = vec![0u8; 1024 * 1024];
    // Compared as a whole: a loop over bytes would take a minute for 2 GiB in a build without optimisation.
    let zeros = vec![0u8; CHUNK];
    let mut at = 0u64;
    loop {
        let n = src.read(&mut buf)?;
        if n == 0 {
            return Ok(());
        }
        let data = buf.get(..n).unwrap_or_default();
        for (i, part) in data.chunks(CHUNK).enumerate() {
            if part != &zeros[..part.len()] {
                dst.seek(SeekFrom::Start(at + (i * CHUNK) as u64))?;
                dst.write_all(part)?;
            }
        }
        at += n as u64;
    }
}

/// The name of a file of the home: base name and ending.
pub fn aux_name(vm: &Vm, ending: &str) -> String {
    if ending.starts_with('.') || ending.starts_with('-') {
        format!("{}{ending}", vm.stem)
    } else {
        ending.into()
    }
}

/// A folder for that name on a datastore: with `_1`, `_2` ... when it exists.
pub fn free_dir(root: &Path, name: &str, taken: &dyn Fn(&str) -> bool) -> String {
    let mut dir = name.to_string();
    for n in 1.. {
        if !taken(&dir) && !root.join(&dir).exists() {
            break;
        }
        dir = format!("{name}_{n}");
    }
    dir
}

/// Text of the vmx file.
fn vmx(vm: &Vm, stores: &dyn Fn(&str) -> String) -> String {
    let mut out = format!(
        ".encoding = \"UTF-8\"\nconfig.version = \"8\"\nvirtualHW.version = \"{}\"\ndisplayName = \"{}\"\nguestOS = \"{}\"\n\
         numvcpus = \"{}\"\ncpuid.coresPerSocket = \"{}\"\nmemSize = \"{}\"\nfirmware = \"{}\"\nnvram = \"{}.nvram\"\n",
        vm.hw,
        vm.name,
        vm.guest_id.trim_end_matches("Guest").replace('_', "-"),
        vm.cpus,
        vm.cores,
        vm.memory_mb,
        vm.firmware,
        vm.stem
    );
    if vm.secure_boot {
        out.push_str("uefi.secureBoot.enabled = \"TRUE\"\n");
    }
    out.push_str(&format!(
        "uuid.bios = \"{}\"\nvc.uuid = \"{}\"\n",
        vmx_uuid(&vm.uuid),
        vmx_uuid(&vm.instance_uuid)
    ));
    for c in &vm.ctrls {
        let (bus, dev) = match c.ty {
            "ParaVirtualSCSIController" => ("scsi", "pvscsi"),
            "VirtualLsiLogicSASController" => ("scsi", "lsisas1068"),
            "VirtualBusLogicController" => ("scsi", "buslogic"),
            "VirtualLsiLogicController" => ("scsi", "lsilogic"),
            "VirtualAHCIController" => ("sata", ""),
            "VirtualNVMEController" => ("nvme", ""),
            _ => ("ide", ""),
        };
        if bus != "ide" {
            out.push_str(&format!("{bus}{}.present = \"TRUE\"\n", c.bus));
        }
        if !dev.is_empty() {
            out.push_str(&format!("{bus}{}.virtualDev = \"{dev}\"\n", c.bus));
        }
        for d in vm.disks.iter().filter(|d| d.ctrl == c.key) {
            let path = d.layers.last().map(String::as_str).unwrap_or("");
            let (dir, stem) = split(path);
            let file = if d.ds == vm.ds && dir == vm.dir {
                format!("{stem}.vmdk")
            } else {
                format!("{}{path}", stores(&d.ds))
            };
            out.push_str(&format!(
                "{bus}{}:{}.fileName = \"{file}\"\n{bus}{}:{}.present = \"TRUE\"\n",
                c.bus, d.unit, c.bus, d.unit
            ));
        }
    }
    for (i, n) in vm.nics.iter().enumerate() {
        let dev = n.ty.trim_start_matches("Virtual").to_lowercase();
        out.push_str(&format!("ethernet{i}.present = \"TRUE\"\nethernet{i}.virtualDev = \"{dev}\"\nethernet{i}.address = \"{}\"\n", n.mac));
    }
    out
}

fn vmx_uuid(uuid: &str) -> String {
    let hex: Vec<char> = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    let pairs: Vec<String> = hex.chunks(2).map(|c| c.iter().collect()).collect();
    let (a, b) = pairs.split_at(pairs.len().min(8));
    format!("{}-{}", a.join(" "), b.join(" "))
}

fn store_root(st: &State, ds: &str) -> PathBuf {
    st.stores
        .get(ds)
        .map(|s| s.root.clone())
        .unwrap_or_default()
}

fn store_kind<'a>(st: &'a State, ds: &str) -> &'a str {
    st.stores.get(ds).map_or("VMFS", |s| s.kind.as_str())
}

/// Writes (again) the small text files of a virtual machine: vmx, vmsd, descriptors.
///
/// # Errors
/// The file system's.
pub fn write_texts(st: &State, vm: &Vm) -> std::io::Result<()> {
    if !st.cfg.files {
        return Ok(());
    }
    let url = |ds: &str| format!("/vmfs/volumes/{ds}/");
    let home = store_root(st, &vm.ds).join(&vm.dir);
    fs::create_dir_all(&home)?;
    let ending = if vm.template { ".vmtx" } else { ".vmx" };
    fs::write(home.join(aux_name(vm, ending)), vmx(vm, &url))?;
    for d in &vm.disks {
        let root = store_root(st, &d.ds);
        for (i, path) in d.layers.iter().enumerate() {
            let file = root.join(path);
            if let Some(dir) = file.parent() {
                fs::create_dir_all(dir)?;
            }
            fs::write(file, descriptor(d, i, store_kind(st, &d.ds), vm.hw))?;
        }
    }
    Ok(())
}

/// Removes all files of a virtual machine, and the folders that are empty then.
pub fn delete_all(st: &State, vm: &Vm) {
    if !st.cfg.files {
        return;
    }
    let home = store_root(st, &vm.ds).join(&vm.dir);
    let mut gone: Vec<PathBuf> = vm.aux.iter().map(|a| home.join(aux_name(vm, a))).collect();
    gone.push(home.join(aux_name(vm, ".vmx")));
    for d in &vm.disks {
        let root = store_root(st, &d.ds);
        for (i, path) in d.layers.iter().enumerate() {
            gone.push(root.join(path));
            gone.push(root.join(extent(d, i, store_kind(st, &d.ds))));
        }
    }
    for f in &gone {
        let _ = fs::remove_file(f);
    }
    for f in &gone {
        if let Some(dir) = f.parent() {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Writes a new virtual machine's files, data included.
///
/// # Errors
/// The file system's.
pub fn create_all(st: &State, vm: &Vm, seed: u64) -> std::io::Result<()> {
    if !st.cfg.files {
        return Ok(());
    }
    write_texts(st, vm)?;
    let home = store_root(st, &vm.ds).join(&vm.dir);
    for ending in &vm.aux {
        let path = home.join(aux_name(vm, ending));
        if !path.exists() {
            let size = match ending.as_str() {
                ".nvram" if vm.firmware == "efi" => 270_840,
                ".nvram" => 8_684,
                _ => 512,
            };
            fs::write(path, vec![0x5au8; size])?;
        }
    }
    for d in &vm.disks {
        for layer in 0..d.layers.len() {
            create_layer(st, d, layer, seed)?;
        }
    }
    Ok(())
}

/// Writes the data file of one layer of a disk.
///
/// # Errors
/// The file system's.
pub fn create_layer(st: &State, d: &Disk, layer: usize, seed: u64) -> std::io::Result<()> {
    if !st.cfg.files {
        return Ok(());
    }
    let path = store_root(st, &d.ds).join(extent(d, layer, store_kind(st, &d.ds)));
    let seed = d.uuid.bytes().fold(seed ^ layer as u64, |a, b| {
        a.wrapping_mul(1_099_511_628_211) ^ u64::from(b)
    });
    match (layer, &d.rdm) {
        (0, Some(_)) => fs::write(path, b""),
        (0, None) => random_file(&path, d.bytes, seed, 45),
        _ => random_file(&path, (d.bytes / 8).max(CHUNK as u64), seed, 60),
    }
}

/// A planned move: the virtual machine as it will be, and what to copy. Descriptors are written anew.
pub struct Move {
    /// The virtual machine after it.
    pub vm: Vm,
    /// Data files: from, to.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Files to remove afterwards, and folders if then empty.
    pub remove: Vec<PathBuf>,
    /// Bytes that go over.
    pub bytes: u64,
}

/// Works out a move of the home to `home` (if it changes) and of disks to the datastores by device key.
///
/// Names at the destination: docs/vsphere-facts.md section 3, "Names at destination".
pub fn plan_move(
    st: &State,
    vm: &Vm,
    home: &str,
    disks: &dyn Fn(&Disk) -> String,
    rename: bool,
) -> Move {
    let name = super::model::escape_name(&vm.name);
    let mut to = vm.clone();
    let mut mv = Move {
        vm: vm.clone(),
        copies: vec![],
        remove: vec![],
        bytes: 0,
    };
    let taken = |ds: &str, dir: &str| {
        st.vms.values().any(|v| v.ds == ds && v.dir == dir)
            || st
                .vms
                .values()
                .flat_map(|v| &v.disks)
                .any(|d| d.ds == ds && d.layers.first().is_some_and(|l| split(l).0 == dir))
    };
    let new_dir = |ds: &str| free_dir(&store_root(st, ds), &name, &|dir| taken(ds, dir));
    if home != vm.ds {
        to.ds = home.into();
        to.dir = new_dir(home);
        let (from_dir, to_dir) = (
            store_root(st, &vm.ds).join(&vm.dir),
            store_root(st, home).join(&to.dir),
        );
        if rename {
            to.stem.clone_from(&name);
        }
        for ending in &vm.aux {
            // vmx and descriptors are written anew, the swap file is made anew, the rest is copied.
            let (a, b) = (
                from_dir.join(aux_name(vm, ending)),
                to_dir.join(aux_name(&to, ending)),
            );
            if !ending.starts_with(".vmx")
                && !ending.starts_with(".vmtx")
                && !ending.ends_with(".vswp")
            {
                mv.copies.push((a.clone(), b));
            }
            mv.remove.push(a);
        }
    }
    let mut other_dirs: Vec<(String, String)> = vec![];
    let mut used: Vec<(String, String)> = to
        .disks
        .iter()
        .filter(|d| disks(d) == d.ds)
        .filter_map(|d| d.layers.first().map(|l| (d.ds.clone(), l.clone())))
        .collect();
    let mut sorted: Vec<usize> = (0..to.disks.len()).collect();
    sorted.sort_by_key(|i| to.disks.get(*i).map(|d| d.key));
    for (n, i) in sorted.into_iter().enumerate() {
        let Some(old) = vm.disks.get(i) else { continue };
        let target = disks(old);
        if target == old.ds {
            continue;
        }
        let dir = if target == to.ds {
            to.dir.clone()
        } else if let Some((_, dir)) = other_dirs.iter().find(|(ds, _)| *ds == target) {
            dir.clone()
        } else {
            let dir = new_dir(&target);
            other_dirs.push((target.clone(), dir.clone()));
            dir
        };
        let base = if rename {
            name.clone()
        } else {
            split(old.layers.first().map(String::as_str).unwrap_or(""))
                .1
                .to_string()
        };
        let mut k = if rename { n } else { 0 };
        let stem = loop {
            let stem = if k == 0 {
                base.clone()
            } else {
                format!("{base}_{k}")
            };
            let path = format!("{dir}/{stem}.vmdk");
            if !used.contains(&(target.clone(), path.clone()))
                && !store_root(st, &target).join(&path).exists()
            {
                used.push((target.clone(), path));
                break stem;
            }
            k += 1;
        };
        let Some(new) = to.disks.get_mut(i) else {
            continue;
        };
        new.ds.clone_from(&target);
        for (layer, path) in new.layers.iter_mut().enumerate() {
            *path = if layer == 0 {
                format!("{dir}/{stem}.vmdk")
            } else {
                format!("{dir}/{stem}-{layer:06}.vmdk")
            };
        }
        // Source: docs/vsphere-facts.md section 3, "NFS provisioning".
        if store_kind(st, &target).starts_with("NFS") {
            new.thin = true;
        }
        for layer in 0..old.layers.len() {
            let a = store_root(st, &old.ds).join(extent(old, layer, store_kind(st, &old.ds)));
            let b = store_root(st, &target).join(extent(new, layer, store_kind(st, &target)));
            mv.copies.push((a.clone(), b));
            mv.remove.push(a);
            if let Some(l) = old.layers.get(layer) {
                mv.remove.push(store_root(st, &old.ds).join(l));
            }
        }
        mv.bytes += old.bytes;
    }
    mv.vm = to;
    mv
}

/// Copies what a move copies.
///
/// # Errors
/// The file system's; what was copied is removed again.
pub fn copy_all(mv: &Move) -> std::io::Result<()> {
    let done = mv.copies.iter().try_for_each(|(a, b)| {
        if let Some(dir) = b.parent() {
            fs::create_dir_all(dir)?;
        }
        copy_sparse(a, b)
    });
    if done.is_err() {
        for (_, b) in &mv.copies {
            let _ = fs::remove_file(b);
        }
    }
    done
}

/// Removes the files that a finished move leaves behind, and their folders if then empty.
pub fn remove_old(mv: &Move) {
    for f in &mv.remove {
        let _ = fs::remove_file(f);
    }
    for f in &mv.remove {
        if let Some(dir) = f.parent() {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// The lock file that ESXi keeps beside an open file on NFS.
/// Source: docs/vsphere-facts.md section 3, "NFS export for ESXi".
fn lock_name(file: &str) -> String {
    let mut s = file
        .bytes()
        .fold(7u64, |a, b| a.wrapping_mul(131).wrapping_add(u64::from(b)));
    format!(".lck-{:016x}", splitmix(&mut s))
}

/// Makes what lies beside the disks agree with the power state: swap file, suspend file, NFS locks.
///
/// # Errors
/// The file system's.
pub fn sync_runtime(st: &State, vm: &mut Vm) -> std::io::Result<()> {
    let on = vm.power == "poweredOn";
    let swap = format!("-{:08x}.vswp", vm.shuffle as u32);
    let vmss = format!("-{:08x}.vmss", vm.shuffle as u32);
    let home = store_root(st, &vm.ds).join(&vm.dir);
    for (ending, wanted, size) in [
        (swap, on, vm.memory_mb as u64 * 1024 * 1024),
        (vmss, vm.power == "suspended", 4096),
    ] {
        let path = home.join(aux_name(vm, &ending));
        vm.aux.retain(|a| *a != ending);
        if wanted {
            vm.aux.push(ending);
            if st.cfg.files && !path.exists() {
                fs::create_dir_all(&home)?;
                File::create(&path)?.set_len(size)?;
            }
        } else if path.exists() {
            fs::remove_file(&path)?;
        }
    }
    for d in &vm.disks {
        let Some(s) = st
            .stores
            .get(&d.ds)
            .filter(|s| s.kind.starts_with("NFS") && st.cfg.files)
        else {
            continue;
        };
        for layer in 0..d.layers.len() {
            let data = extent(d, layer, &s.kind);
            let (dir, _) = data.rsplit_once('/').unwrap_or(("", ""));
            let lock = s.root.join(dir).join(lock_name(&data));
            if on {
                fs::write(lock, [0u8; 84])?;
            } else if lock.exists() {
                fs::remove_file(lock)?;
            }
        }
    }
    Ok(())
}

/// Removes the NFS locks of a virtual machine, before its files are moved away.
pub fn unlock(st: &State, vm: &Vm) {
    for d in &vm.disks {
        let Some(s) = st.stores.get(&d.ds) else {
            continue;
        };
        for layer in 0..d.layers.len() {
            let data = extent(d, layer, &s.kind);
            let (dir, _) = data.rsplit_once('/').unwrap_or(("", ""));
            let _ = fs::remove_file(s.root.join(dir).join(lock_name(&data)));
        }
    }
}

/// Length of a file of a datastore, 0 when it is not there.
pub fn size(store: &Store, path: &str) -> u64 {
    fs::metadata(store.root.join(path)).map_or(0, |m| m.len())
}
