package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// A node does not keep the text of a network or an annotation that is too large to be used. The pod
// that names it gets an error with the size and the limit.
func TestTooLargeIsNotKept(t *testing.T) {
	s, access := newAPI(t)
	large := fmt.Sprintf(`{"type":"bridge","cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", 100<<10))
	fits := fmt.Sprintf(`{"type":"bridge","cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", netconf.MaxText-100))
	for i := range 40 {
		s.addNet("d", fmt.Sprint("n", i), large)
	}
	s.addNet("d", "fits", fits)
	s.addPod("d", "a", "u1", map[string]any{netannotation.Networks: strings.Repeat("x", 200<<10), "k8s.v1.cni.cncf.io/other": "y"})
	c := start(t, access)
	s.addNet("d", "late", large)
	until(t, "the network that came later", func() bool { return len(c.Networks()) == 42 })
	kept := 0
	for _, n := range c.Networks() {
		kept += len(n.Config)
	}
	if kept > netconf.MaxText {
		t.Errorf("%d bytes of configurations are kept", kept)
	}
	refused := func(n api.NetworkDefinition, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.ParseDefinition(n)
		if want := fmt.Sprintf("it has %d bytes; want at most 65536", len(large)); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("network %s: %v; want %q", n.Name, err, want)
		}
		if _, err := config.Own(n); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("network %s: %v", n.Name, err)
		}
	}
	refused(c.Network(t.Context(), "d", "n7"))
	refused(c.Network(t.Context(), "d", "late"))
	if n, err := c.Network(t.Context(), "d", "fits"); err != nil || n.Config != fits || n.Dropped != 0 {
		t.Errorf("%d bytes, %v", len(n.Config), err)
	}
	if got := s.log("GET"); len(got) > 0 {
		t.Errorf("what is too large is asked for again: %v", got)
	}
	if p, ok := c.Known("d", "a"); !ok || len(p.Annotations) > 0 {
		t.Errorf("%d large annotations are kept", len(p.Annotations))
	}
	p, err := c.Pod(t.Context(), "d", "a", "u1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := netannotation.Parse(p.Annotations[netannotation.Networks], "d"); len(p.Annotations) != 1 || len(p.Annotations[netannotation.Networks]) > 65537 || !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("%d annotations, %v", len(p.Annotations), err)
	}
}

// A node keeps 2 MiB of networks, however many tenants write and whenever. A pod that names one of
// the other networks gets it all the same.
func TestKeptNetworksAreBounded(t *testing.T) {
	s, config := newAPI(t)
	half := fmt.Sprintf(`{"type":"bridge","cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", netconf.MaxText/2))
	for i := range 50 {
		s.addNet("d", fmt.Sprintf("early%d", i), half)
	}
	c := start(t, config)
	for i := range 200 {
		s.addNet("d", fmt.Sprintf("late%d", i), half)
	}
	s.addNet("e", "small", `{"type":"bridge"}`)
	until(t, "the network that came last", func() bool {
		return slices.ContainsFunc(c.Networks(), func(n api.NetworkDefinition) bool { return n.Name == "small" })
	})
	kept, sum := map[string]bool{}, 0
	for _, n := range c.Networks() {
		kept[n.Name] = true
		sum += objectSize + len(n.Config)
	}
	if sum > maxKept || sum < maxKept-2*netconf.MaxText || !kept["early20"] || kept["late199"] {
		t.Fatalf("%d networks with %d bytes are kept", len(kept), sum)
	}
	for _, name := range []string{"early20", "late199"} {
		if n, err := c.Network(t.Context(), "d", name); err != nil || n.Config != half {
			t.Errorf("network %s: %d bytes, %v", name, len(n.Config), err)
		}
	}
	if got := s.log("GET"); len(got) != 1 || got[0] != "GET d/late199" {
		t.Errorf("asked for: %v", got)
	}

	for i := range 50 {
		s.remove("network-attachment-definitions", "d", fmt.Sprintf("early%d", i))
	}
	s.addNet("d", "late199", `{"type":"macvlan"}`)
	until(t, "a network for which there is room again", func() bool {
		return slices.ContainsFunc(c.Networks(), func(n api.NetworkDefinition) bool { return n.Name == "late199" })
	})
	for _, n := range c.Networks() {
		if strings.HasPrefix(n.Name, "early") {
			t.Errorf("network %s is kept, and is deleted", n.Name)
		}
	}
}

// The networks of one namespace leave room for those of others: the namespace with the most gives way,
// in the list and later. Pods then get their networks also while the API server does not answer.
func TestI7NamespacesShareWhatIsKept(t *testing.T) {
	s, access := newAPI(t)
	half := fmt.Sprintf(`{"type":"bridge","cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", netconf.MaxText/2))
	for i := range 100 {
		s.addNet("a", fmt.Sprintf("n%d", i), half)
	}
	for i := range 10 {
		s.addNet("b", fmt.Sprintf("n%d", i), half)
	}
	c := start(t, access)
	has := func(namespace string) (n int) {
		for _, d := range c.Networks() {
			if d.Namespace == namespace {
				n++
			}
		}
		return n
	}
	if has("a") == 0 || has("b") != 10 {
		t.Fatalf("%d and %d networks are kept", has("a"), has("b"))
	}
	for i := range 10 {
		s.addNet("c", fmt.Sprintf("n%d", i), half)
	}
	until(t, "the networks of a third namespace", func() bool { return has("c") == 10 })
	s.addNet("a", "late", half)
	s.addNet("d", "last", `{"type":"bridge"}`)
	until(t, "the last network", func() bool { return has("d") == 1 })
	if has("a") == 0 || has("b") != 10 || has("c") != 10 {
		t.Errorf("%d, %d and %d networks are kept", has("a"), has("b"), has("c"))
	}
	sum := 0
	for _, n := range c.Networks() {
		sum += objectSize + len(n.Config)
	}
	if sum > maxKept {
		t.Errorf("%d bytes are kept", sum)
	}
}

// While the API server takes no writes, events wait up to a bound. Annotations of pods always wait. When
// it takes writes again, there is room for new events.
func TestWaitingEventsAreBounded(t *testing.T) {
	var log strings.Builder
	c := &Client{node: "n1", log: slog.New(slog.NewTextHandler(&log, nil))}
	c.writer = newWriter(c)
	pod := func(i int) api.Pod { return api.Pod{Namespace: "d", Name: fmt.Sprint("p", i), UID: fmt.Sprint("u", i)} }
	for i := range 5 * mostEvents {
		c.PodEvent(pod(i), "Warning", "NoVF", "none is free")
	}
	for i := range 300 {
		c.Annotate(pod(i), map[string]string{"a": "b"})
	}
	if n := len(c.writer.todo); n != mostEvents+300 || len(c.writer.said.at) > mostSaid || strings.Count(log.String(), "events are dropped") != 1 {
		t.Errorf("%d writes wait, %d events are remembered; log:\n%s", n, len(c.writer.said.at), &log)
	}
	for key, w := range c.writer.todo {
		c.writer.takeWrite(key)
		if len(c.writer.todo) < mostEvents { // it failed, and waits again
			c.writer.putBack(key, w)
			break
		}
	}
	before := len(c.writer.todo)
	c.writer.said = newSaid()
	for i := range 2 * mostEvents {
		c.PodEvent(pod(-i), "Normal", "Attached", "as net1")
	}
	if after := len(c.writer.todo); after <= before || c.writer.events != mostEvents || !strings.Contains(log.String(), "events were dropped") {
		t.Errorf("%d writes wait, and %d waited; %d events", after, before, c.writer.events)
	}
	late := time.Now().Add(repeat)
	if !c.writer.said.isFirst("x", late) || len(c.writer.said.at) != 1 {
		t.Errorf("%d events are remembered after a minute", len(c.writer.said.at))
	}
}
