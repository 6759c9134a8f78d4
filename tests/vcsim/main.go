// A vCenter made of govmomi's simulator (Debian's golang-github-vmware-govmomi-dev; Apache-2.0), for tests/cli/vsphere/vcsim.rs.
// It prints one line of JSON (address, certificate), then serves until its standard input ends.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"io"
	"log"
	"math/big"
	"net"
	"net/url"
	"os"
	"sort"
	"time"

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
	mounts()
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword("user", "pass-of-vcsim-1")}
	ca, certificate := identity()
	defer os.Remove(ca)
	m.Service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s := m.Service.NewServer()
	defer s.Close()
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"host": s.URL.Hostname(), "port": s.URL.Port(), "ca": ca})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// The simulator's own certificate has a key of 1,024 bits, which no careful client takes. Returns a file with ours, and it.
func identity() (string, tls.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	t := x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "vcsim"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, &t, &t, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	f, err := os.CreateTemp("", "vcsim-ca-*.pem")
	if err != nil {
		log.Fatal(err)
	}
	if err := pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	return f.Name(), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The simulator's portgroups have no VLAN: they get one by turns, in the order of their names, for the registry's order is a Go map's.
func vlans() {
	specs := []types.BaseVmwareDistributedVirtualSwitchVlanSpec{
		&types.VmwareDistributedVirtualSwitchVlanIdSpec{VlanId: 100},
		&types.VmwareDistributedVirtualSwitchTrunkVlanSpec{VlanId: []types.NumericRange{{Start: 0, End: 99}, {Start: 105, End: 105}, {Start: 300, End: 4094}}},
		&types.VmwareDistributedVirtualSwitchPvlanSpec{PvlanId: 201},
	}
	var all []*simulator.DistributedVirtualPortgroup
	for _, o := range simulator.Map.All("DistributedVirtualPortgroup") {
		if pg, ok := o.(*simulator.DistributedVirtualPortgroup); ok {
			all = append(all, pg)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	n := 0
	for _, pg := range all {
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

// The simulator notes on a datastore only the first host that mounts it, although each host lists it; a vCenter notes all.
func mounts() {
	yes := true
	for _, o := range simulator.Map.All("Datastore") {
		ds, ok := o.(*simulator.Datastore)
		if !ok {
			continue
		}
		ds.Host = nil
		for _, h := range simulator.Map.All("HostSystem") {
			host, ok := h.(*simulator.HostSystem)
			if !ok {
				continue
			}
			for _, r := range host.Datastore {
				if r == ds.Self {
					ds.Host = append(ds.Host, types.DatastoreHostMount{Key: host.Self,
						MountInfo: types.HostMountInfo{AccessMode: "readWrite", Mounted: &yes, Accessible: &yes}})
				}
			}
		}
	}
}

func isTrunk(v types.BaseVmwareDistributedVirtualSwitchVlanSpec) bool {
	_, ok := v.(*types.VmwareDistributedVirtualSwitchTrunkVlanSpec)
	return ok
}
