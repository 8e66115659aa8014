package config

import (
	"encoding/json"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
)

// prevResult reads the key of that name, which is a result of the
// configuration's version.
func prevResult(o *strictjson.Object, version string) *current.Result {
	in := o.Object("prevResult")
	if in == nil {
		return nil
	}
	for _, key := range []string{"interfaces", "ips", "routes"} {
		in.Objects(key) // the library does not survive a null among them
	}
	if o.Err() != nil {
		return nil
	}
	r, err := DecodeResult(o.Raw("prevResult"), version)
	if err != nil {
		o.Fail("prevResult", "not a result of version %s: %v", version, err)
		return nil
	}
	refuseParts(o, r)
	return r
}

// refuseParts refuses addresses without an IP and routes without a destination, which the library
// lets through. Culvert passes them on in its own result.
func refuseParts(o *strictjson.Object, r *current.Result) {
	for i, ip := range r.IPs {
		if ip.Address.IP == nil {
			o.Fail("prevResult", "ips[%d] has no address", i)
		}
	}
	for i, route := range r.Routes {
		if route.Dst.IP == nil {
			o.Fail("prevResult", "routes[%d] has no dst", i)
		}
	}
}

// DecodeResult reads a result of a version. Results before 1.0.0 need not say their
// version.
func DecodeResult(raw json.RawMessage, version string) (*current.Result, error) {
	whole, err := netconf.SetKeys(raw, map[string]json.RawMessage{"cniVersion": netconf.String(version)})
	if err != nil {
		return nil, err
	}
	r, err := create.Create(version, whole)
	if err != nil {
		return nil, err
	}
	return current.NewResultFromResult(r)
}
