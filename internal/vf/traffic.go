package vf

// Traffic counts what a VF has received and sent. The netdevice's driver counts from the moment when
// it made the netdevice, and a PF's driver from the VF's last reset or the load of the driver.
type Traffic struct {
	RxBytes   uint64 `json:"rxBytes"`
	RxPackets uint64 `json:"rxPackets"`
	RxDropped uint64 `json:"rxDropped"`
	RxErrors  uint64 `json:"rxErrors"`
	TxBytes   uint64 `json:"txBytes"`
	TxPackets uint64 `json:"txPackets"`
	TxDropped uint64 `json:"txDropped"`
	TxErrors  uint64 `json:"txErrors"`
}

// Since returns how much each counter has risen since an earlier time. ok is false if a counter is
// lower than before: the netdevice was made anew, or the VF was reset.
func (t Traffic) Since(earlier Traffic) (rise Traffic, ok bool) {
	ok = true
	sub := func(now, before uint64) uint64 {
		ok = ok && now >= before
		return now - before
	}
	rise = Traffic{
		RxBytes: sub(t.RxBytes, earlier.RxBytes), RxPackets: sub(t.RxPackets, earlier.RxPackets),
		RxDropped: sub(t.RxDropped, earlier.RxDropped), RxErrors: sub(t.RxErrors, earlier.RxErrors),
		TxBytes: sub(t.TxBytes, earlier.TxBytes), TxPackets: sub(t.TxPackets, earlier.TxPackets),
		TxDropped: sub(t.TxDropped, earlier.TxDropped), TxErrors: sub(t.TxErrors, earlier.TxErrors),
	}
	if !ok {
		return Traffic{}, false
	}
	return rise, true
}
