package torture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// smallDisk mounts a little file system where culvertd keeps its ledger.
func smallDisk(t *testing.T, d *daemon) (dir string) {
	t.Helper()
	dir = filepath.Dir(d.ledger)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir)
	t.Cleanup(func() {
		d.kill()
		run(t, "umount", dir)
	})
	return dir
}

// fill writes a file until the disk is full, and returns the name of the file.
func fill(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return name
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// I2 I6: the disk of the ledger is full. culvertd does nothing that it cannot record.
// It finishes detaches when there is room again, by itself or by the runtime's next
// DEL.
func TestFullDisk(t *testing.T) {
	k := inNode(t)
	d := prepareDaemon(t, hostYAML)
	dir := smallDisk(t, d)
	d.start(t)
	d.ready(t)
	before := allClean(pfs(t, k))
	pods := map[string]pod{}
	ballast := fill(t, dir)
	refused := 0
	for n := 0; n < 100 && refused < 3; n++ {
		id := fmt.Sprintf("full%d", n%5)
		if p, ok := pods[id]; ok {
			if _, err := d.cni(t.Context(), "DEL", p); err != nil {
				mentions(t, err, "no space left")
				refused++
				continue
			}
		} else {
			pods[id] = newPod(t, id, vf.PCIAddr{}, `"vlan": 9, `)
		}
		_, err := d.cni(t.Context(), "ADD", pods[id])
		if err == nil {
			continue
		}
		var e *cniError
		if errors.As(err, &e) && e.Code == codeNothingFree {
			continue
		}
		refused++
		mentions(t, err, "no space left")
		t.Logf("refused: %v", err)
	}
	if refused == 0 {
		t.Fatal("the disk is full, and everything was written down")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		d.mustCNI(t, "DEL", p)
	}
	wholeAgain(t, d, k, before)
}

// If culvertd cannot write its ledger, it does not start, and its log says why.
func TestReadOnlyDisk(t *testing.T) {
	inNode(t)
	d := prepareDaemon(t, hostYAML)
	dir := smallDisk(t, d)
	d.start(t)
	d.ready(t)
	d.kill()
	run(t, "mount", "-o", "remount,ro", dir)
	d.start(t)
	select {
	case err := <-d.exited:
		d.exited <- err // for kill
		if err == nil {
			t.Error("culvertd ended as if all were well")
		}
	case <-time.After(time.Minute):
		t.Error("culvertd runs on a disk that it cannot write to")
	}
	mentions(t, errors.New(d.lastWords(1000)), d.ledger, "read-only file system")
	run(t, "mount", "-o", "remount,rw", dir)
	d.kill()
	d.start(t)
	d.ready(t)
}
