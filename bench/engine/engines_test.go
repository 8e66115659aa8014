package engine

import "testing"

func TestSecondsOf(t *testing.T) {
	tasks := map[string]float64{"culvert": 1, "iperf3": 2, "iperf": 4, "kpktgend_0": 8, "kpktgend_1": 16, "vhost-7": 32}
	for name, want := range map[string]float64{Own: 1, Iperf3: 2, Iperf2: 4, Pktgen: 24, Ping: 0, "netperf": 0, "": 0} {
		if got := SecondsOf(name, tasks); got != want {
			t.Errorf("%s: %g s, want %g", name, got, want)
		}
	}
}
