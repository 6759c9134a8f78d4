"""pyVmomi, a third party's client, against labsim's vCenter. Usage: pyvmomi_smoke.py LAB.JSON USER PASSWORD"""
import json
import ssl
import sys
import time

from pyVim.connect import SmartConnect
from pyVim.task import WaitForTask
from pyVmomi import vim, vmodl

lab = json.load(open(sys.argv[1], encoding="utf-8"))
host, port = lab["vcenter"].split(":")
tls = ssl.create_default_context(cafile=lab["ca"])
tls.check_hostname = False


def connect(password):
    return SmartConnect(host=host, port=int(port), user=sys.argv[2], pwd=password, sslContext=tls)


def fails(kind, call):
    """The fault of that type that the call ends with."""
    try:
        call()
    except kind as fault:
        return fault
    raise AssertionError(f"expected {kind.__name__}")


fails(vim.fault.InvalidLogin, lambda: connect("wrong"))
si = connect(sys.argv[3])
content = si.RetrieveContent()
assert content.about.apiType == "VirtualCenter"
assert content.sessionManager.currentSession.userName == sys.argv[2]


def view(kind):
    return content.viewManager.CreateContainerView(content.rootFolder, [kind], True).view


# Every guest's devices, and every property that the types know of every object.
vms = {}
devices = 0
for vm in view(vim.VirtualMachine):
    vms[vm._moId] = vm
    devices += len(vm.config.hardware.device)
    assert any(isinstance(d, vim.vm.device.VirtualDisk) for d in vm.config.hardware.device)
read = 0
for kind in (
    vim.VirtualMachine, vim.HostSystem, vim.Datastore, vim.Network, vim.DistributedVirtualSwitch,
    vim.ComputeResource, vim.ResourcePool, vim.Folder, vim.Datacenter,
):
    for obj in view(kind):
        for prop in obj._GetPropertyList():
            try:
                getattr(obj, prop.name)
                read += 1
            except (vmodl.query.InvalidProperty, vmodl.fault.MethodNotFound):
                pass  # not in the recorded table of types, or newer than the server
assert len(vms) >= 15 and read > 500, (len(vms), read)

by_name = {}
for vm in vms.values():
    by_name.setdefault(vm.name, []).append(vm)
assert len(by_name["app01"]) == 2 and "Büro Server 1" in by_name

# One bulk retrieval, in pages.
spec = vmodl.query.PropertyCollector.FilterSpec(
    objectSet=[
        vmodl.query.PropertyCollector.ObjectSpec(
            obj=content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True),
            skip=True,
            selectSet=[
                vmodl.query.PropertyCollector.TraversalSpec(
                    name="view", type=vim.view.ContainerView, path="view", skip=False)
            ],
        )
    ],
    propSet=[
        vmodl.query.PropertyCollector.PropertySpec(
            type=vim.VirtualMachine, pathSet=["name", "config.hardware.device", "runtime.powerState"])
    ],
)
collector = content.propertyCollector
page = collector.RetrievePropertiesEx([spec], vmodl.query.PropertyCollector.RetrieveOptions(maxObjects=4))
found, pages = list(page.objects), 1
while page.token is not None:
    token = page.token
    page = collector.ContinueRetrievePropertiesEx(token)
    found += page.objects
    pages += 1
    fails(vmodl.fault.InvalidArgument, lambda: collector.ContinueRetrievePropertiesEx(token)) if page.token != token else None
assert len(found) == len(vms) and pages == (len(vms) + 3) // 4, (len(found), pages)

# Relocation with everything that goes with it.
web = by_name["web01"][0]
stores = {d.name: d for d in web.runtime.host.datastore}
move = vim.vm.RelocateSpec(datastore=stores["migration-nfs"])
task = web.RelocateVM_Task(move)
assert fails(vim.fault.TaskInProgress, lambda: web.RelocateVM_Task(move)).task == task
WaitForTask(task)
disk = next(d for d in web.config.hardware.device if isinstance(d, vim.vm.device.VirtualDisk))
assert disk.backing.fileName.startswith("[migration-nfs] "), disk.backing.fileName
assert [d.name for d in web.datastore] == ["migration-nfs"]
rdm = by_name["rdm-host"][0]
fails(vim.fault.RDMNotSupportedOnDatastore, lambda: WaitForTask(rdm.RelocateVM_Task(move)))
check = content.vmProvisioningChecker.CheckRelocate_Task(rdm, move, None)
WaitForTask(check)
assert [type(e).__name__ for e in check.info.result[0].error] == ["vim.fault.RDMNotSupportedOnDatastore"]

# Power, guest, snapshots, notes.
fails(vim.fault.ToolsUnavailable, by_name["no-tools"][0].ShutdownGuest)
web.ShutdownGuest()
for _ in range(100):
    if web.runtime.powerState == "poweredOff":
        break
    time.sleep(0.05)
assert web.runtime.powerState == "poweredOff"
fault = fails(vim.fault.InvalidPowerState, web.ShutdownGuest)
assert fault.existingState == "poweredOff"
WaitForTask(web.PowerOnVM_Task())
WaitForTask(web.ReconfigVM_Task(vim.vm.ConfigSpec(annotation='a <b> & "c"\nü')))
assert web.config.annotation == 'a <b> & "c"\nü'
WaitForTask(web.CreateSnapshot_Task("s1", "d", False, False))
assert web.snapshot.rootSnapshotList[0].name == "s1"
WaitForTask(web.snapshot.rootSnapshotList[0].snapshot.RemoveSnapshot_Task(False))
assert web.snapshot is None

# Look-ups; the session ends.
assert content.searchIndex.FindByUuid(None, web.config.instanceUuid, True, True) == web
assert len(content.searchIndex.FindAllByUuid(None, web.config.uuid, True, False)) == 1
assert content.searchIndex.FindByInventoryPath("DC1/vm/Linux/Web/web01") == web
fails(vmodl.query.InvalidProperty, lambda: collector.RetrieveProperties([
    vmodl.query.PropertyCollector.FilterSpec(
        objectSet=[vmodl.query.PropertyCollector.ObjectSpec(obj=web)],
        propSet=[vmodl.query.PropertyCollector.PropertySpec(type=vim.VirtualMachine, pathSet=["config.nonsense"])])]))
si.content.sessionManager.Logout()
fails(vim.fault.NotAuthenticated, lambda: web.name)
print(f"pyVmomi: {len(vms)} guests, {devices} devices, {read} properties, {pages} pages")
