// A vCenter made of govmomi's simulator (Debian's golang-github-vmware-govmomi-dev; Apache-2.0), for tests/cli/vsphere/vcsim.rs.
// It prints one line of JSON (address, certificate), then serves until its standard input ends.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/url"
	"os"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

func main() {
	m := simulator.VPX()
	m.Datacenter = 2
	m.Datastore = 2
	flag.IntVar(&m.Machine, "vm", m.Machine, "machines per pool")
	flag.IntVar(&m.Portgroup, "pg", m.Portgroup, "portgroups per datacenter")
	flag.IntVar(&m.OpaqueNetwork, "nsx", 0, "opaque networks per datacenter")
	folders := flag.Int("folder", 0, "folders around each datacenter's objects")
	flag.Parse()
	m.Folder = *folders
	defer m.Remove()
	if err := m.Create(); err != nil {
		log.Fatal(err)
	}
	vlans()
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword("user", "pass-of-vcsim-1")}
	m.Service.TLS = new(tls.Config)
	s := m.Service.NewServer()
	defer s.Close()
	ca, err := s.CertificateFile()
	if err != nil {
		log.Fatal(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"host": s.URL.Hostname(), "port": s.URL.Port(), "ca": ca})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// The simulator's portgroups have no VLAN: the first of each kind gets one, in the order of the registry's keys.
func vlans() {
	specs := []types.BaseVmwareDistributedVirtualSwitchVlanSpec{
		&types.VmwareDistributedVirtualSwitchVlanIdSpec{VlanId: 100},
		&types.VmwareDistributedVirtualSwitchTrunkVlanSpec{VlanId: []types.NumericRange{{Start: 0, End: 99}, {Start: 105, End: 105}, {Start: 300, End: 4094}}},
		&types.VmwareDistributedVirtualSwitchPvlanSpec{PvlanId: 201},
	}
	n := 0
	for _, o := range simulator.Map.All("DistributedVirtualPortgroup") {
		pg, ok := o.(*simulator.DistributedVirtualPortgroup)
		if !ok {
			continue
		}
		setting, ok := pg.Config.DefaultPortConfig.(*types.VMwareDVSPortSetting)
		if !ok {
			setting = new(types.VMwareDVSPortSetting)
			pg.Config.DefaultPortConfig = setting
		}
		if len(pg.Tag) > 0 || setting.Vlan != nil && isTrunk(setting.Vlan) {
			continue // an uplink portgroup
		}
		setting.Vlan = specs[n%len(specs)]
		n++
	}
}

func isTrunk(v types.BaseVmwareDistributedVirtualSwitchVlanSpec) bool {
	_, ok := v.(*types.VmwareDistributedVirtualSwitchTrunkVlanSpec)
	return ok
}
