package journal

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"
)

// I4: ViewLatest waits for an update that has begun.
func TestI4ViewLatestSeesUpdatesUnderWay(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	begun, seen := make(chan struct{}), make(chan int, 1)
	go func() {
		<-begun
		n := -1
		_ = l.ViewLatest(func(tx *Tx) error { n = len(tx.AddressesOf("n")); return nil })
		seen <- n
	}()
	err = l.Update(func(tx *Tx) error {
		close(begun)
		time.Sleep(50 * time.Millisecond) // longer than a View takes
		return tx.HoldAddress(Address{Network: "n", Addr: netip.MustParseAddr("10.0.0.3")})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := <-seen; n != 1 {
		t.Errorf("I4: %d addresses, want 1", n)
	}
}
