package tuning

import (
	"errors"
	"net"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The loopback interface has features, and all its values are the same at the next read.
func TestRead(t *testing.T) {
	lo, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Skip(err)
	}
	first, err := Read(lo.Name, lo.Index)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(lo.Name, lo.Index)
	if err != nil {
		t.Fatal(err)
	}
	if first["features"] == "" {
		t.Errorf("no features: %v", first)
	}
	for name, v := range first {
		if again[name] != v {
			t.Errorf("%s is %s, then %s", name, v, again[name])
		}
	}
}

// I2: the baseline has no attribute that the owner of a VF cannot set and that others
// change. Each VF of the port would differ from its baseline, and no bind of its driver
// would mend that. mlx5 answers the pause parameters of the port for its VFs, which
// cannot set them (mlx5e_ethtool_set_pauseparam). Link modes, FEC and EEE are of the
// same kind.
func TestI2AsksForNothingOfThePort(t *testing.T) {
	port := []uint32{unix.ETHTOOL_GPAUSEPARAM, unix.ETHTOOL_GSET, unix.ETHTOOL_GLINKSETTINGS, unix.ETHTOOL_GFECPARAM, unix.ETHTOOL_GEEE, unix.ETHTOOL_GLINK}
	for _, q := range listQuestions() {
		if slices.Contains(port, q.command) {
			t.Errorf("it asks for %s", q.name)
		}
	}
}

func TestReadNothing(t *testing.T) {
	for _, name := range []string{"none0", "a-name-that-is-too-long"} {
		if v, err := Read(name, 1<<30); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
	if _, err := Read("none0", 1<<30); !errors.Is(err, unix.ENODEV) {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if _, err := Read("lo", 1); err != nil {
			b.Skip(err)
		}
	}
}
