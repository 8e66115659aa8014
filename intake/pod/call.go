package pod

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/culvert-net/culvert/api"
)

// configuration is what the runtime hands over: the entry of 00-culvert.conflist
// and what the runtime put in. Keys that are not known may be of a later runtime.
type configuration struct {
	Name          string                     `json:"name"`
	PodNetworks   bool                       `json:"podNetworks"`
	RuntimeConfig map[string]json.RawMessage `json:"runtimeConfig"`
	PrevResult    json.RawMessage            `json:"prevResult"`
	Valid         []attachment               `json:"cni.dev/valid-attachments"`
	Attachments   []attachment               `json:"cni.dev/attachments"` // its name in the specification's first text of 1.1.0
}

// attachment is one that GC keeps.
type attachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// call is one invocation.
type call struct {
	api.CNIRequest
	config              configuration
	namespace, pod, uid string // as CNI_ARGS has them; empty where the runtime knows no pods
	runPlugin           Ask
}

func newCall(r api.CNIRequest, ask Ask) call {
	c := call{CNIRequest: r, runPlugin: ask}
	_ = json.Unmarshal(r.Config, &c.config) // what is none is no podNetworks either
	for _, pair := range strings.Split(r.Args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "K8S_POD_NAMESPACE":
			c.namespace = value
		case "K8S_POD_NAME":
			c.pod = value
		case "K8S_POD_UID":
			c.uid = value
		}
	}
	return c
}

func (c call) version() string { return api.CNIVersionOf(c.Config) }

// podName is how messages name whose sandbox it is.
func (c call) podName() string {
	if c.pod == "" {
		return c.ContainerID
	}
	return c.namespace + "/" + c.pod
}

// hands runs a plugin where the shim is.
func (c call) hands(ctx context.Context, r api.PluginRequest) (out api.PluginResponse, err error) {
	err = c.runPlugin(ctx, api.MethodPlugin, r, &out)
	return out, err
}

// turns serialises the calls for one sandbox: an ADD that still runs, and the DEL
// that the runtime has sent already. The zero value is ready.
type turns struct {
	mu   sync.Mutex // guards held
	held map[string]chan struct{}
}

// take waits for the turn; done ends it. The error is ctx's.
func (t *turns) take(ctx context.Context, id string) (done func(), err error) {
	for {
		busy := t.try(id)
		if busy == nil {
			return func() { t.end(id) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (t *turns) try(id string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if busy, ok := t.held[id]; ok {
		return busy
	}
	if t.held == nil {
		t.held = map[string]chan struct{}{}
	}
	t.held[id] = make(chan struct{})
	return nil
}

func (t *turns) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.held[id])
	delete(t.held, id)
}
