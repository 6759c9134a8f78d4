"""proxmoxer against labsim: sign in by ticket and by token, create, read and delete a guest. Arguments: host:port, CA file."""
import sys
import time

from proxmoxer import ProxmoxAPI
from proxmoxer.core import ResourceException

address, ca = sys.argv[1:3]
host, port = address.split(":")


def wait(api, upid):
    for _ in range(500):
        status = api.nodes("pve1").tasks(upid).status.get()
        if status["status"] == "stopped":
            return status["exitstatus"]
        time.sleep(0.02)
    raise SystemExit(f"{upid} does not end")


def life(api, vmid):
    assert api.cluster.nextid.get(vmid=vmid) == str(vmid)
    upid = api.nodes("pve1").qemu.post(
        vmid=vmid, name="smoke", memory=64, cores=2, net0="virtio,bridge=vmbr0", scsi0="local:1", tags="b;a"
    )
    assert wait(api, upid) == "OK", upid
    config = api.nodes("pve1").qemu(vmid).config.get()
    assert config["name"] == "smoke" and config["cores"] == 2 and config["memory"] == "64", config
    assert config["net0"].startswith("virtio=") and config["net0"].endswith(",bridge=vmbr0"), config
    assert config["scsi0"].startswith("local:") and config["tags"] == "a;b", config
    api.nodes("pve1").qemu(vmid).config.put(description="a=b & ü", delete="tags")
    config = api.nodes("pve1").qemu(vmid).config.get()
    assert config["description"] == "a=b & ü" and "tags" not in config, config
    assert vmid in [v["vmid"] for v in api.cluster.resources.get(type="vm")]
    assert wait(api, api.nodes("pve1").qemu(vmid).delete()) == "OK"
    try:
        api.nodes("pve1").qemu(vmid).config.get()
    except ResourceException as e:
        assert e.status_code == 500 and "does not exist" in str(e), e
    else:
        raise SystemExit("the guest is still there")
    try:
        api.nodes("pve1").qemu.post(vmid=vmid, bogus=1)
    except ResourceException as e:
        assert e.status_code == 400 and "bogus" in e.errors, e
    else:
        raise SystemExit("an unknown parameter was taken")


# proxmoxer looks for a CA file in verify_ssl.
life(ProxmoxAPI(host, port=int(port), user="root@pam", password="smoke-password", verify_ssl=ca), 4001)
life(ProxmoxAPI(host, port=int(port), user="root@pam", token_name="ci", token_value="smoke-secret", verify_ssl=ca), 4002)
try:
    ProxmoxAPI(host, port=int(port), user="root@pam", password="wrong", verify_ssl=ca)
except Exception as e:  # proxmoxer's AuthenticationError is in its backend module
    assert "authenticate" in str(e).lower(), e
else:
    raise SystemExit("a wrong password was taken")
print("proxmoxer works")
