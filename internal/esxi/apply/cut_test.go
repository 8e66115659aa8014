package apply

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/esxi/vsphere"
	"github.com/culvert-net/culvert/test/vcsim"
)

// small has one part of each kind.
const small = `server: esxi01
ports:
- {nic: vmnic2, vfs: 3}
switches:
- name: sriov-a
  uplinks: [vmnic2]
  portGroups:
  - {name: vf-a, vlan: 100}
vms:
- name: vm1
  vfs:
  - {as: nic, port: vmnic2, portGroup: vf-a}
  - {as: device, port: vmnic2}
`

// bench is a host with the folder of a person who configures it.
type bench struct {
	*vcsim.Model
	made string
}

func newBench(t testing.TB, o vcsim.Options) *bench {
	return &bench{vcsim.New(t, o), filepath.Join(t.TempDir(), "esxi.yaml.made")}
}

// spec reads a file for the host.
func (b *bench) spec(t testing.TB, text string) file.Spec {
	t.Helper()
	spec, err := file.Parse("esxi.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	spec.Server, spec.Thumbprint = b.Server, b.Thumbprint
	return spec
}

// dial opens a session of a process of its own.
func (b *bench) dial(ctx context.Context, spec file.Spec) (*vsphere.Conn, error) {
	c, err := vsphere.Dial(ctx, spec, vsphere.Login{User: vcsim.User, Password: vcsim.Password})
	if c != nil {
		c.Poll = time.Millisecond
	}
	return c, err
}

// apply plans and applies as one run of the command does.
func (b *bench) apply(ctx context.Context, spec file.Spec, allow bool) (string, error) {
	var out bytes.Buffer
	c, err := b.dial(ctx, spec)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	r := &Run{Host: c, Path: b.made, Out: &out, Poll: time.Millisecond, Patience: time.Minute, AllowReboot: func(string) (bool, error) { return allow, nil }}
	p, err := r.Plan(ctx, spec)
	if err == nil {
		err = r.Apply(ctx, p)
	}
	return out.String(), err
}

// observe returns the host without what each boot and each call makes anew.
func (b *bench) observe(t testing.TB, spec file.Spec) state.Host {
	t.Helper()
	c, err := b.dial(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	h, err := c.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Boot = time.Time{}
	return h
}

// TestCutOffAtAnyCall cuts the connection at every call of apply and of remove, before the host gets
// the request. It also cuts at every call that changes something, after the host has done it. The next
// run finishes. Applied twice is as applied once, and removed is as before.
func TestCutOffAtAnyCall(t *testing.T) {
	for when, cut := range map[string]func(*bench, int){
		"request": func(b *bench, n int) { b.Before = func(number int, _ string) bool { return number == n } },
		"answer": func(b *bench, n int) {
			changes := 0
			b.After = func(_ int, method string) bool {
				if changesHost(method) {
					changes++
				}
				return changesHost(method) && changes == n
			}
		},
	} {
		t.Run(when, func(t *testing.T) {
			b := newBench(t, vcsim.Options{})
			spec := b.spec(t, small)
			none := file.Spec{Server: spec.Server, Thumbprint: spec.Thumbprint}
			before := b.observe(t, spec)
			cuts := 0
			for n, fails := 1, true; fails; n++ {
				fails = false
				for _, wanted := range []file.Spec{spec, none} {
					cut(b, n)
					b.Methods()
					_, err := b.apply(t.Context(), wanted, true)
					b.Before, b.After = nil, nil
					if err != nil {
						cuts++
						fails = true
						b.finish(t, n, wanted, err)
					}
					b.check(t, wanted, before)
				}
			}
			t.Logf("%d calls were cut off", cuts)
			if cuts < 14 {
				t.Error("too few")
			}
		})
	}
}

// changesHost reports whether a method changes the host.
func changesHost(method string) bool {
	return !strings.HasPrefix(method, "Retrieve") && !strings.HasPrefix(method, "Query") && !strings.HasPrefix(method, "Log")
}

// finish runs the command again after it was cut off. While the host restarts, it does not answer.
func (b *bench) finish(t *testing.T, n int, wanted file.Spec, cut error) {
	t.Helper()
	calls := b.Methods()
	for range 4 {
		_, err := b.apply(t.Context(), wanted, true)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "connect to ") {
			t.Fatalf("call %d of %v was cut off (%v), and the next run: %v", n, calls, cut, err)
		}
	}
	t.Fatal("the host does not come back")
}

// check finds the host as the file wants it, with a list of entries only where there are parts.
func (b *bench) check(t *testing.T, wanted file.Spec, before state.Host) {
	t.Helper()
	h := b.observe(t, wanted)
	_, err := os.Stat(b.made)
	if len(wanted.Ports) == 0 {
		if diff := cmp.Diff(before, h); diff != "" || err == nil {
			t.Fatalf("after remove (list: %v): -before +after:\n%s", err, diff)
		}
		return
	}
	vm := h.VMs[0]
	if h.Maintenance || h.Ports[0].PresentVFs() != 3 || h.FindSwitch("sriov-a") == nil || h.FindGroup("vf-a") == nil || len(vm.VFs) != 2 || !vm.Locked || err != nil {
		t.Fatalf("after apply: %+v, %v", h, err)
	}
}

// TestIdempotent: applied twice is as applied once, and then no call changes the host.
func TestIdempotent(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, small)
	for range 2 {
		b.Methods()
		if _, err := b.apply(t.Context(), spec, true); err != nil {
			t.Fatal(err)
		}
	}
	if i := slices.IndexFunc(b.Methods(), changesHost); i >= 0 {
		t.Error("the second run changes the host")
	}
}

// TestLeft: the error of a run that was cut off names the steps that are left.
func TestLeft(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	b.Before = func(_ int, method string) bool { return method == "AddPortGroup" }
	_, err := b.apply(t.Context(), b.spec(t, small), true)
	if err == nil || !strings.Contains(err.Error(), "add port group vf-a") || !strings.Contains(err.Error(), "run the command again to go on; left: + port group vf-a on vSwitch sriov-a: VLAN 100; ~ virtual machine vm1: reserved memory") {
		t.Error(err)
	}
}
