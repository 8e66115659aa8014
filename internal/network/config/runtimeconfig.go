package config

import (
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

// readRuntime reads runtimeConfig and args.
func (c *Config) readRuntime(o *strictjson.Object) {
	c.ArgIPs = o.Object("args").Object("cni").Strings("ips")
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
