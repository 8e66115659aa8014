package config

import (
	"strings"

	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// runtimeKeys are the capabilities that a runtime may pass on (CNI conventions, "well-known
// capabilities"). Culvert accepts and ignores portMappings, dns, aliases and cgroupPath, since
// these concern the pod's default network.
var runtimeKeys = []string{
	"mac", "ips", "deviceID", "CNIDeviceInfoFile",
	"portMappings", "dns", "aliases", "cgroupPath",
	"bandwidth", "ipRanges", "infinibandGUID",
}

// readArgs reads the addresses that args.cni asks for. The CNI project's plugins host-local and
// tuning read its keys in any case, so each spelling counts.
func (c *Config) readArgs(in *strictjson.Object) {
	for _, key := range in.Keys() {
		switch {
		case strings.EqualFold(key, "ips"):
			c.ArgIPs = append(c.ArgIPs, in.Strings(key)...)
		case strings.EqualFold(key, "mac"):
			if mac, ok := strictjson.Text(in, key, vf.ParseUnicastMAC); ok {
				c.ArgMACs = append(c.ArgMACs, mac)
			}
		}
	}
}

// readRuntime reads runtimeConfig and args.
func (c *Config) readRuntime(o *strictjson.Object) {
	c.readArgs(o.Object("args").Object("cni"))
	declared := o.Object("capabilities")
	declared.Bool("mac")
	declared.Bool("ips")
	in := o.Object("runtimeConfig")
	in.Known(runtimeKeys...)
	if mac, ok := strictjson.Text(in, "mac", vf.ParseUnicastMAC); ok {
		c.MAC = &mac
	}
	c.IPs = in.Strings("ips")
	c.Ranges = in.Raw("ipRanges")
	in.String("CNIDeviceInfoFile")
	for _, refused := range []struct{ key, why string }{
		{"bandwidth", "not served; max_tx_rate limits what a VF sends"},
		{"infinibandGUID", "not served; culvert attaches Ethernet VFs"},
	} {
		if in.Has(refused.key) {
			in.RefuseDoubt(refused.key, "%s", refused.why)
		}
	}
}
