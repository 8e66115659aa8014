package cni

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
)

// I8: GC with a list that is older than an attachment keeps it: one whose ADD is under way, and one
// whose ADD has just ended. GC lists both for the IPAM plugin. A later GC ends the attachment.
func TestI8GCKeepsWhatIsNewerThanTheList(t *testing.T) {
	newest := strings.Replace(borrowed, "1.0.0", "1.1.0", 1)
	d := newDelegates(t, strings.Replace(lease1, "1.0.0", "1.1.0", 1))
	gc := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // it would wait for the VF
		defer cancel()
		r := api.CNIRequest{Command: cmdGC, IfName: "net1", Config: []byte(strings.TrimSuffix(newest, "}") + `,"cni.dev/valid-attachments":[]}`)}
		_, err := d.h.Run(ctx, callOf(r), d.ask)
		return err
	}
	wantKept := func(what string) {
		t.Helper()
		d.wantCalls(t, "GC whereabouts2  net1")
		var told struct {
			Valid []map[string]string `json:"cni.dev/valid-attachments"`
		}
		if err := json.Unmarshal(d.last.Call.Config, &told); err != nil || len(told.Valid) != 1 || told.Valid[0]["containerID"] != "c1" || told.Valid[0]["ifname"] != "net1" {
			t.Errorf("%s: the plugin was told %v, %v", what, told, err)
		}
		d.calls = nil
	}
	ask := func(ctx context.Context, method string, params, result any) error { // while the plugin works for the ADD
		d.later = time.Hour
		if err := gc(); err != nil {
			t.Error(err)
		}
		wantKept("under way")
		d.later = 0
		return d.ask(ctx, method, params, result)
	}
	r := api.CNIRequest{Command: cmdAdd, ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x", Config: []byte(newest)}
	if _, err := d.h.Run(t.Context(), callOf(r), ask); err != nil {
		t.Fatal(err)
	}
	d.calls = nil
	if err := gc(); err != nil {
		t.Error(err)
	}
	wantKept("young")
	if held, _, err := d.VFs.Delegations(); err != nil || len(held) != 1 {
		t.Errorf("held %v, %v", held, err)
	}
	d.later = hold.GCGrace
	if err := gc(); err != nil {
		t.Error(err)
	}
	d.wantCalls(t, "DEL whereabouts2 c1 net1", "GC whereabouts2  net1")
	if held, _, err := d.VFs.Delegations(); err != nil || len(held) != 0 {
		t.Errorf("held %v, %v", held, err)
	}
}

// I8: a GC whose list of young attachments cannot be read ends no attachment.
func TestI8GCThatCannotReadTheLedgerEndsNothing(t *testing.T) {
	e := newMemory(1)
	if resp := serve(t, e, invocation(cmdAdd, with(""))); resp.Exit != 0 {
		t.Fatalf("%s", resp.Stdout)
	}
	had := e.String()
	e.unread = errors.New("read the ledger: input/output error")
	got := refused(t, serve(t, e, api.CNIRequest{Command: cmdGC, Config: []byte(with(`"cni.dev/valid-attachments":[]`))}))
	if !strings.Contains(got, "input/output error") || e.String() != had || had == "" {
		t.Errorf("%s, left %q of %q", got, e, had)
	}
}
