package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Ask is rpc.Ask: a question to the shim, which waits for the answer to its call.
type Ask = func(ctx context.Context, method string, params, result any) error

// pluginBound is how long one plugin of another project may take.
const pluginBound = 80 * time.Second

// killBound is how long the shim may take to kill a plugin that runs for pluginBound, and to say
// which of its processes survive.
const killBound = 8 * time.Second

// RunPlugin runs a CNI plugin of another project where the shim is, which is where the
// runtime would run it, and returns its standard output. The error names plugin and command;
// vf.ErrNotFound: the plugin is not installed. A *types.Error is the plugin's own.
func RunPlugin(ctx context.Context, ask Ask, plugin string, r api.CNIRequest) ([]byte, error) {
	if ask == nil {
		return nil, fmt.Errorf("plugin %s: %s: %w: no runtime waits for the answer that could run it", plugin, r.Command, vf.ErrNotReady)
	}
	ctx, cancel := context.WithTimeout(ctx, pluginBound+killBound)
	defer cancel()
	var out api.PluginResponse
	err := ask(ctx, api.MethodPlugin, api.PluginRequest{Type: plugin, Call: r, BoundMS: pluginBound.Milliseconds()}, &out)
	if err == nil && out.Exit != 0 {
		err = readRefusal(out)
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %s: %w", plugin, r.Command, err)
	}
	return out.Stdout, nil
}

// readRefusal returns the error of a plugin that failed: the specification's error object, or the
// text on its standard error.
func readRefusal(out api.PluginResponse) error {
	e := &types.Error{}
	if err := json.Unmarshal(out.Stdout, e); err == nil && e.Msg != "" {
		return e
	}
	said := strings.TrimSpace(string(out.Stderr))
	if said == "" {
		said = strings.TrimSpace(string(out.Stdout))
	}
	return fmt.Errorf("exit status %d: %.500q", out.Exit, said)
}

// isUnimplemented reports whether a plugin has refused a command because it does not implement it.
// The specification has no code for that. whereabouts 0.9.2 refuses CHECK with this text.
func isUnimplemented(err error) bool {
	var theirs *types.Error
	return errors.As(err, &theirs) && strings.Contains(strings.ToLower(theirs.Msg), "not implemented")
}
