package pod

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
)

// configuration is the configuration that the runtime passes: the entry of 00-culvert.conflist,
// with the runtime's additions. Unknown keys may come from a later runtime.
type configuration struct {
	Name          string                     `json:"name"`
	PodNetworks   bool                       `json:"podNetworks"`
	RuntimeConfig map[string]json.RawMessage `json:"runtimeConfig"`
	PrevResult    json.RawMessage            `json:"prevResult"`
	Valid         []attachment               `json:"cni.dev/valid-attachments"`
	Attachments   []attachment               `json:"cni.dev/attachments"` // its name in the specification's first text of 1.1.0
}

// attachment is an attachment that GC has to keep.
type attachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// call is one call of the runtime. newCall parses its texts.
type call struct {
	api.CNIRequest
	config    configuration
	args      cni.Arguments
	runPlugin cni.Ask
}

func newCall(r api.CNIRequest, ask cni.Ask) call {
	c := call{CNIRequest: r, runPlugin: ask}
	_ = json.Unmarshal(r.Config, &c.config) // a text that is no configuration does not set podNetworks
	text := r.Args
	if c.config.PodNetworks {
		text = ignoreUnknown(text) // as the networks get it
	}
	c.args = cni.ParseArguments(text)
	return c
}

func (c call) cniVersion() string { return api.CNIVersionOf(c.Config) }

// podName returns the name of the sandbox in messages: that of its pod.
func (c call) podName() string {
	if c.args.Pod == "" {
		return c.ContainerID
	}
	return c.args.Namespace + "/" + c.args.Pod
}

// lockSandbox waits until no other call works on c's sandbox: an ADD that still runs,
// and the DEL that the runtime has sent already.
func (h *Handler) lockSandbox(ctx context.Context, c call) (unlock func(), err error) {
	unlock, err = h.sandboxes.Lock(ctx, c.ContainerID, "another "+c.Command+" for this sandbox")
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", c.podName(), err)
	}
	return unlock, nil
}
