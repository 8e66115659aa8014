package cni

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// leaveOutUndeclared returns a pod's request without the MAC address and the addresses for which
// the network does not declare the capability, and the capabilities that are missing. Multus copies
// the pod's annotation into CNI_ARGS, and its cni-args into args.cni, even if the network does not
// declare them (its DelegateAdd and LoadDelegateNetConf). Outside Kubernetes the caller of the
// runtime is root, and its arguments count. A request that cannot be read stays as it is:
// parseRequest refuses it.
func leaveOutUndeclared(r api.CNIRequest) (api.CNIRequest, []string) {
	a, err := parseArguments(r.Args)
	if err != nil || a.podName == "" || netconf.CheckSize(len(r.Config)) != nil {
		return r, nil
	}
	p, err := netconf.ParsePlugin(r.Config)
	if err != nil {
		return r, nil
	}
	text, missing := withoutUndeclaredArgs(p)
	r.Config = text
	for _, asked := range []struct {
		capability, key string
		is              bool
	}{{"mac", "MAC", a.mac != nil}, {"ips", "IP", a.ip != ""}} {
		if !asked.is || p.Capabilities[asked.capability] {
			continue
		}
		r.Args = withoutArgument(r.Args, asked.key)
		if !slices.Contains(missing, asked.capability) {
			missing = append(missing, asked.capability)
		}
	}
	slices.Sort(missing)
	return r, missing
}

// withoutUndeclaredArgs returns the configuration of a plugin without the keys that
// Plugin.LeaveOutUndeclared takes out of its args.cni.
func withoutUndeclaredArgs(p netconf.Plugin) (json.RawMessage, []string) {
	var whole, args, asked map[string]json.RawMessage // keys count as they are written
	if json.Unmarshal(p.Raw, &whole) != nil || json.Unmarshal(whole["args"], &args) != nil || json.Unmarshal(args["cni"], &asked) != nil {
		return p.Raw, nil
	}
	rest, missing := p.LeaveOutUndeclared(asked)
	if len(missing) == 0 {
		return p.Raw, nil
	}
	raw, err1 := json.Marshal(rest)
	raw, err2 := netconf.SetKeys(whole["args"], map[string]json.RawMessage{"cni": raw})
	changed, err3 := p.With(map[string]json.RawMessage{"args": raw})
	if errors.Join(err1, err2, err3) != nil { // a text that could be read causes no error
		return p.Raw, nil
	}
	return changed.Raw, missing
}

// withoutArgument returns CNI_ARGS without a key.
func withoutArgument(args, key string) string {
	pairs := strings.Split(args, ";")
	return strings.Join(slices.DeleteFunc(pairs, func(pair string) bool { return strings.HasPrefix(pair, key+"=") }), ";")
}
