package claim

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func mustPF(t *testing.T, text string) vf.PFID {
	t.Helper()
	id, err := vf.ParsePFID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestPoolName(t *testing.T) {
	long := strings.Repeat("n", 236)
	for _, c := range []struct{ node, pf, want string }{
		{"node1", "0c:42:a1:00:00:01", "node1/0c-42-a1-00-00-01"},
		{"node1", "0c:42:a1:00:00:01/pf2", "node1/0c-42-a1-00-00-01.pf2"},
		{"a.b", "0c:42:a1:00:00:01", "a.b/0c-42-a1-00-00-01"},
		{long[:235], "0c:42:a1:00:00:01", long[:235] + "/0c-42-a1-00-00-01"},
	} {
		got, err := PoolName(c.node, mustPF(t, c.pf))
		if err != nil || got != c.want {
			t.Errorf("PoolName(%s, %s) = %s, %v; want %s", c.node, c.pf, got, err, c.want)
		}
		if !IsPoolOf(c.node, got) || IsPoolOf(c.node+"0", got) || IsPoolOf(c.node[:len(c.node)-1], got) {
			t.Errorf("pool %s is not of %s alone", got, c.node)
		}
	}
	a, err := PoolName(long, mustPF(t, "0c:42:a1:00:00:01"))
	b, _ := PoolName(long, mustPF(t, "0c:42:a1:00:00:02"))
	if err != nil || a == b || len(a) != maxPoolName || !strings.HasPrefix(a, long+"/") {
		t.Errorf("the pools of a node with a long name are %s and %s, %v", a, b, err)
	}
	if got, err := PoolName(long+"n", mustPF(t, "0c:42:a1:00:00:01")); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("a node with a name of 237 bytes has the pool %q, %v", got, err)
	}
}

func TestDeviceName(t *testing.T) {
	for _, index := range []int{0, 7, 255} {
		if got, err := ParseDeviceName(DeviceName(index)); err != nil || got != index {
			t.Errorf("ParseDeviceName(%s) = %d, %v", DeviceName(index), got, err)
		}
	}
	for _, wrong := range []string{"", "vf-", "vf-07", "vf--1", "vf-+1", "3", "pf-3", "vf-3 ", "vf-99999999999999999999"} {
		if got, err := ParseDeviceName(wrong); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("ParseDeviceName(%q) = %d, %v; want vf.ErrInvalid", wrong, got, err)
		}
	}
}
