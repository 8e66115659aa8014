package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkVersion replaces versions that have no CHECK.
const checkVersion = "1.0.0"

// chain is one network of a sandbox for one call.
type chain struct {
	h  *Handler
	c  call
	sb journal.Sandbox
	n  journal.SandboxNetwork
}

// addAll runs the plugins one after another, each with the result of the one before,
// and returns the last one's.
func (ch chain) addAll(ctx context.Context) (json.RawMessage, error) {
	var prev json.RawMessage
	for _, p := range ch.n.Plugins {
		out, err := ch.runPlugin(ctx, "ADD", p, prev, nil)
		if err != nil {
			return nil, err
		}
		if prev, err = resultOf(out); err != nil {
			return nil, fmt.Errorf("plugin %s: ADD answered %.200q: %w", p.Type, out, err)
		}
	}
	return prev, nil
}

// resultOf returns a plugin's answer as compact JSON.
func resultOf(out []byte) (json.RawMessage, error) {
	if len(out) > netconf.MaxText { // the ledger keeps it
		return nil, fmt.Errorf("%w: it has %d bytes; want at most %d", vf.ErrInvalid, len(out), netconf.MaxText)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(out, &fields); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	return json.Marshal(fields)
}

// delAll runs the plugins in reverse. A plugin that fails does not stop the others.
func (ch chain) delAll(ctx context.Context) error {
	prev := ch.n.Result
	if !ch.isSince("0.4.0") {
		prev = nil
	}
	var errs []error
	for _, p := range slices.Backward(ch.n.Plugins) {
		_, err := ch.runPlugin(ctx, "DEL", p, prev, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkAll runs CHECK of the plugins. It checks Culvert's own plugins in networks of every version.
func (ch chain) checkAll(ctx context.Context) error {
	if ch.n.DisableCheck {
		return nil
	}
	if !ch.isSince("0.4.0") {
		result, err := inVersion(ch.n.Result, checkVersion)
		if err != nil {
			return err
		}
		ch.n.Version, ch.n.Result = checkVersion, result
		ch.n.Plugins = slices.DeleteFunc(slices.Clone(ch.n.Plugins), func(p netconf.Plugin) bool { return !p.IsOwn() })
	}
	for _, p := range ch.n.Plugins {
		if _, err := ch.runPlugin(ctx, "CHECK", p, ch.n.Result, nil); err != nil {
			return err
		}
	}
	return nil
}

// runAll runs GC or STATUS of every plugin, where the network's version has them.
func (ch chain) runAll(ctx context.Context, command string, keys map[string]json.RawMessage) error {
	if !ch.isSince("1.1.0") {
		return nil
	}
	var errs []error
	for _, p := range ch.n.Plugins {
		_, err := ch.runPlugin(ctx, command, p, nil, keys)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isSince reports whether the network's version is v or later.
func (ch chain) isSince(v string) bool {
	ok, err := version.GreaterThanOrEqualTo(ch.n.Version, v)
	return err == nil && ok
}

// runPlugin runs one plugin: Culvert's own in process, others by the shim.
func (ch chain) runPlugin(ctx context.Context, command string, p netconf.Plugin, prev json.RawMessage, keys map[string]json.RawMessage) ([]byte, error) {
	config, err := ch.composeConfig(p, prev, keys)
	if err != nil {
		return nil, err
	}
	r := api.CNIRequest{
		Command: command, ContainerID: ch.sb.ID, Netns: ch.sb.Netns, IfName: ch.n.Interface, Args: cni.AddArguments(ch.sb.Args, ch.n.Args), Path: ch.sb.Path, Config: config,
	}
	if p.IsOwn() {
		switch {
		case ch.n.Claim != "":
			r.Claim = ch.n.Claim
		case strings.Contains(ch.n.Name, "/"): // the name of a network in a file is a CNI name
			r.Definition = ch.n.Name
		}
		args := ch.c.args
		if args.Text != ch.sb.Args { // the sandbox had others when it was added
			args = cni.ParseArguments(ch.sb.Args)
		}
		return ch.h.Networks.Run(ctx, cni.NewCall(r, args.Add(ch.n.Args)), ch.c.runPlugin)
	}
	return cni.RunPlugin(ctx, ch.c.runPlugin, p.Type, r)
}

// servesFor reports whether another project's plugin of the list serves a capability which Culvert's
// plugin p can only refuse.
func (ch chain) servesFor(p netconf.Plugin, capability string) bool {
	return p.IsOwn() && capability == "bandwidth" && slices.ContainsFunc(ch.n.Plugins, func(o netconf.Plugin) bool {
		return !o.IsOwn() && o.Takes(capability)
	})
}

// composeConfig returns the configuration as a plugin gets it (specification, section 3,
// "deriving request configuration").
func (ch chain) composeConfig(p netconf.Plugin, prev json.RawMessage, keys map[string]json.RawMessage) (json.RawMessage, error) {
	set := map[string]json.RawMessage{"name": netconf.String(ch.n.Network), "cniVersion": netconf.String(ch.n.Version)}
	if len(prev) > 0 {
		set["prevResult"] = prev
	}
	runtime := map[string]json.RawMessage{}
	for key, v := range ch.n.Runtime {
		if p.Takes(key) && !ch.servesFor(p, key) {
			runtime[key] = v
		}
	}
	if ch.n.DeviceInfo != "" && p.Capabilities["CNIDeviceInfoFile"] {
		runtime["CNIDeviceInfoFile"] = netconf.String(ch.n.DeviceInfo)
	}
	if len(runtime) > 0 {
		config, err := json.Marshal(runtime)
		if err != nil {
			return nil, fmt.Errorf("runtimeConfig: %w: %w", vf.ErrInvalid, err)
		}
		set["runtimeConfig"] = config
	}
	for key, v := range keys {
		set[key] = v
	}
	return netconf.ReplaceKeys(p.Raw, "prevResult", set) // the author's would show addresses that the pod does not have
}
