package kube

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/share"
)

// A list may come in pages, and events of an earlier watch may come late. A network whose room another
// took meanwhile is served in its last version, and is not served once it is deleted.
func TestI7NetworksOfEarlierPages(t *testing.T) {
	s, access := newAPI(t)
	s.page = 100
	half := fmt.Sprintf(`{"type":"bridge","cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", netconf.MaxText/2))
	for _, namespace := range []string{"a", "b"} {
		for i := range 100 {
			s.addNet(namespace, fmt.Sprintf("n%02d", i), half)
		}
	}
	c := start(t, access)
	if got := s.log("LIST " + definitions); len(got) != 2 {
		t.Fatalf("the list has no second page: %v", got)
	}
	sum, kept := 0, map[share.Entry]bool{}
	for _, n := range c.Networks() {
		sum += objectSize + len(n.Config)
		kept[share.Entry{Owner: n.Namespace, Key: n.Name}] = true
	}
	if sum > maxKept {
		t.Errorf("%d bytes are kept", sum)
	}
	changed := strings.Replace(half, "xx", "yy", 1)
	for e := range kept {
		if e.Owner == "a" && e.Key != "n00" {
			s.addNet(e.Owner, e.Key, changed)
		}
	}
	s.remove(definitions, "a", "n00")
	s.addNet("c", "last", `{"type":"bridge"}`)
	until(t, "the last network", func() bool {
		n, err := c.Network(t.Context(), "c", "last")
		return err == nil && c.networks.LastSyncResourceVersion() == n.Version
	})
	if n, err := c.Network(t.Context(), "a", "n00"); err == nil {
		t.Errorf("network %s is served, and is deleted", n.Name)
	}
	for e := range kept {
		if e.Owner != "a" || e.Key == "n00" {
			continue
		}
		if n, err := c.Network(t.Context(), e.Owner, e.Key); err != nil || n.Config != changed {
			t.Fatalf("network %s/%s is served in an earlier version: %v", e.Owner, e.Key, err)
		}
	}
}

// If the API server forgets the version of a list before its last page was read, the node reads the list
// in one piece.
func TestI7PagesThatExpire(t *testing.T) {
	s, access := newAPI(t)
	s.page, s.expired = 10, true
	for i := range 30 {
		s.addNet("a", fmt.Sprintf("n%02d", i), `{"type":"bridge"}`)
	}
	if got := start(t, access).Networks(); len(got) != 30 {
		t.Errorf("%d networks are kept", len(got))
	}
	if got := s.log("LIST " + definitions); len(got) != 3 {
		t.Errorf("%d requests: %v", len(got), got)
	}
}

// The keeper passes each deletion on, since the store may have a network that the keeper does not know.
func TestDeletionsPass(t *testing.T) {
	k := newKeeper()
	gone := &network{object: object{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}}
	if out := k.filterEvent(watch.Event{Type: watch.Deleted, Object: gone}); len(out) != 1 || out[0].Type != watch.Deleted {
		t.Errorf("%v", out)
	}
}
