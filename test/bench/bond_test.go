package bench

import (
	"errors"
	"testing"
	"time"
)

const bondConfig = `{"cniVersion": "1.1.0", "name": "bench", "type": "culvert", "bond": {"links": 2},
	"ipam": {"type": "host-local", "subnet": "` + subnet + `", "routes": [{"dst": "` + route + `", "gw": "` + gateway + `"}]}}`

// BenchmarkAttachBond attaches a bond of two VFs. It is compared with two attaches of one VF, one
// after the other.
func BenchmarkAttachBond(b *testing.B) {
	var bonds, singles []time.Duration
	for range b.N {
		bond, err := host.timed(func() error { return host.run(invocation{"culvert-cni", "ADD", bondConfig, 0}) })
		if err = errors.Join(err, host.run(invocation{"culvert-cni", "DEL", bondConfig, 0})); err != nil {
			b.Fatalf("%v\n%s", err, host.log())
		}
		two, err := host.timed(func() error { return errors.Join(host.add(0), host.add(1)) })
		if err = errors.Join(err, host.del(0), host.del(1)); err != nil {
			b.Fatalf("%v\n%s", err, host.log())
		}
		bonds, singles = append(bonds, bond), append(singles, two)
	}
	report(b, bonds)
	b.ReportMetric(ratio(bonds, singles), "x-two-attaches")
}
