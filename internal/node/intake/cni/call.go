package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// Call is one CNI call. NewCall parses its texts where the call enters, and all that serves the call
// takes the Call.
type Call struct {
	api.CNIRequest
	args   Arguments
	config config.Config
	// wrong is why the configuration cannot be read.
	wrong error
	// undeclared has the capabilities that leaveOutUndeclared found missing.
	undeclared []string
}

// NewCall returns the call of a request, whose CNI_ARGS are a. It leaves out what the pod's author
// may not ask for. What cannot be read is an error only of the commands that need it: DEL does not.
func NewCall(r api.CNIRequest, a Arguments) Call {
	c := Call{CNIRequest: r, args: a}
	if (c.Command == cmdAdd || c.Command == cmdCheck) && netconf.CheckSize(len(c.Config)) != nil {
		return c // requestOf refuses it
	}
	c.config, c.wrong = configOf(c.Config)
	c.leaveOutUndeclared()
	return c
}

// leaveOutUndeclared takes the MAC address and the addresses for which the network does not declare
// the capability out of a pod's call. Multus copies the pod's annotation into CNI_ARGS, and its
// cni-args into args.cni, even if the network does not declare them (its DelegateAdd and
// LoadDelegateNetConf). Outside Kubernetes the caller of the runtime is root, and its arguments
// count. A call that cannot be read stays as it is: requestOf refuses it.
func (c *Call) leaveOutUndeclared() {
	asks := c.args.mac != nil || c.args.ip != "" || c.config.HasArgs || c.wrong != nil
	if c.args.Err != nil || c.args.Pod == "" || !asks || netconf.CheckSize(len(c.Config)) != nil {
		return
	}
	p, err := netconf.ParsePlugin(c.Config)
	if err != nil {
		return
	}
	text, missing := withoutUndeclaredArgs(p)
	if len(missing) > 0 {
		c.Config = text
		c.config, c.wrong = configOf(text)
	}
	if c.args.mac != nil && !p.Capabilities["mac"] {
		c.args.mac, c.Args, missing = nil, withoutArgument(c.Args, "MAC"), append(missing, "mac")
	}
	if c.args.ip != "" && !p.Capabilities["ips"] {
		c.args.ip, c.Args, missing = "", withoutArgument(c.Args, "IP"), append(missing, "ips")
	}
	slices.Sort(missing)
	c.undeclared = slices.Compact(missing)
}

// configOf reads the configuration of a call.
func configOf(text []byte) (config.Config, error) {
	c, err := config.Parse(text)
	if err != nil && !json.Valid(text) {
		return config.Config{}, fmt.Errorf("%w: %w", errUndecodable, err)
	}
	return c, err
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
