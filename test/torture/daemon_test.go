package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
)

// hostYAML makes all VFs: two are bound to vfio-pci, the others are netdevices.
const hostYAML = `pfs:
- name: eth0
  vfs: 7
- name: eth1
  vfs: 7
pools:
- name: vm
  deviceType: vfio-pci
  selectors: {pfNames: ["eth1#5-6"]}
- name: net
  selectors: {pfNames: [eth0, eth1]}
`

// daemon is a culvertd with its files.
type daemon struct {
	socket, ledger, host, log string
	cmd                       *exec.Cmd
	exited                    chan error
	results                   sync.Map // the plugin's output, a string, by container
}

// newDaemon starts culvertd on files of its own and waits until it is ready. When the test ends,
// newDaemon kills culvertd. If the test failed, it logs the end of culvertd's log.
func newDaemon(t *testing.T, host string) *daemon {
	t.Helper()
	d := prepareDaemon(t, host)
	d.start(t)
	d.ready(t)
	return d
}

func prepareDaemon(t *testing.T, host string) *daemon {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	d := &daemon{socket: at("sock"), ledger: at("var/ledger.db"), host: at("host.yaml"), log: at("log")}
	if err := errors.Join(os.WriteFile(d.host, []byte(host), 0o644), os.Mkdir(filepath.Dir(d.ledger), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("culvertd's last words:\n%s", d.lastWords(12000))
		}
	})
	return d
}

// start starts culvertd and does not wait.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d.cmd = exec.Command(culvertd, "--debug", "--host", d.host, "--ledger", d.ledger, "--socket", d.socket)
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(d.cmd, d.exited)
}

// kill is kill -9. It returns when the process is gone.
func (d *daemon) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill() // it may have ended by itself
		<-d.exited
		d.cmd = nil
	}
}

// ready waits until culvertd reports that it is ready, and returns how long that took. On a busy
// machine, an emulated node needs minutes.
func (d *daemon) ready(t *testing.T) time.Duration {
	t.Helper()
	return eventually(t, 5*time.Minute, func() error {
		st, err := d.status(t.Context())
		if err == nil && !st.Ready {
			err = fmt.Errorf("not ready: %v", st.Problems)
		}
		return err
	})
}

func (d *daemon) status(ctx context.Context) (st api.NodeStatus, err error) {
	err = rpc.Call(ctx, d.socket, api.MethodStatus, nil, &st)
	return st, err
}

// leases has the records and the addresses of a ledger.
type leases struct {
	records   []journal.Record
	addresses []journal.Address
}

// leases reads the ledger from a copy: culvertd has the file itself locked.
func (d *daemon) leases(t *testing.T) leases {
	t.Helper()
	copied := d.ledger + ".copy"
	if err := os.WriteFile(copied, d.readLedger(t), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(copied, journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	var out leases
	err = l.View(func(tx *journal.Tx) error {
		out.records = tx.Records()
		out.addresses = tx.AddressesOf("")
		return nil
	})
	if err := errors.Join(err, l.Close(), os.Remove(copied)); err != nil {
		t.Fatal(err)
	}
	return out
}

// readLedger returns the ledger's file as it was at one moment. culvertd may write the file
// meanwhile, so readLedger reads it until two readings are equal: these have no part of a write in
// them.
func (d *daemon) readLedger(t *testing.T) []byte {
	t.Helper()
	var content []byte
	eventually(t, time.Minute, func() error {
		before := content
		var err error
		content, err = os.ReadFile(d.ledger)
		if err == nil && !bytes.Equal(before, content) {
			err = errors.New("the ledger is being written")
		}
		return err
	})
	return content
}

// lastWords are the last bytes of culvertd's log.
func (d *daemon) lastWords(most int) string {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// lastStep is the type of the last change to the kernel that culvertd began.
func (d *daemon) lastStep() string {
	text := d.lastWords(4000)
	i := strings.LastIndex(text, "msg=step ")
	if i < 0 {
		return "none yet"
	}
	line, _, _ := strings.Cut(text[i:], "\n")
	_, what, _ := strings.Cut(line, "do=")
	return firstWords(strings.Trim(what, `"`))
}

// firstWords returns the first three words of s, without words that name a single VF.
func firstWords(s string) string {
	words := slices.DeleteFunc(strings.Fields(s), func(w string) bool { return strings.ContainsAny(w, "0123456789:/") })
	return strings.Join(words[:min(3, len(words))], " ")
}

// events returns all events that culvertd has kept.
func (d *daemon) events(t *testing.T) []api.Event {
	t.Helper()
	var all []api.Event
	err := rpc.Stream(t.Context(), d.socket, api.MethodEvents, nil, func(raw json.RawMessage) error {
		var e api.Event
		err := json.Unmarshal(raw, &e)
		all = append(all, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
