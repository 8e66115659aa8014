package main

import (
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
)

func TestDescribeBusy(t *testing.T) {
	for want, spent := range map[string]bench.CPUTime{
		"": {},
		"2 cores worked for 90 s, busy for 75 % of the time": {User: 60 * time.Second, System: 30 * time.Second, Idle: 20 * time.Second, Steal: 10 * time.Second},
	} {
		if got := describeBusy(spent, 2); got != want {
			t.Errorf("%+v: %q, want %q", spent, got, want)
		}
	}
	if now, err := readCPUTime(); err != nil || now.Busy() <= 0 {
		t.Errorf("this machine: %+v, %v", now, err)
	}
}
