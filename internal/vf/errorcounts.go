package vf

// ErrorCounts are counts of errors of a PF or VF, as the kernel has counted them.
type ErrorCounts struct {
	// Errors on PCIe that the function reported (AER).
	Correctable uint64 `json:"correctable"`
	Nonfatal    uint64 `json:"nonfatal"`
	Fatal       uint64 `json:"fatal"`
	// TxTimeouts is how often a transmit queue of the netdevice did not send in time.
	TxTimeouts uint64 `json:"txTimeouts"`
}

// Since returns how much each count has risen since an earlier time. A count that is lower than
// before is of a device that was made anew, so it has risen from 0.
func (c ErrorCounts) Since(earlier ErrorCounts) ErrorCounts {
	rise := func(now, before uint64) uint64 {
		if now < before {
			return now
		}
		return now - before
	}
	return ErrorCounts{
		Correctable: rise(c.Correctable, earlier.Correctable), Nonfatal: rise(c.Nonfatal, earlier.Nonfatal),
		Fatal: rise(c.Fatal, earlier.Fatal), TxTimeouts: rise(c.TxTimeouts, earlier.TxTimeouts),
	}
}

// Plus returns the sums of two counts.
func (c ErrorCounts) Plus(o ErrorCounts) ErrorCounts {
	return ErrorCounts{
		Correctable: c.Correctable + o.Correctable, Nonfatal: c.Nonfatal + o.Nonfatal,
		Fatal: c.Fatal + o.Fatal, TxTimeouts: c.TxTimeouts + o.TxTimeouts,
	}
}
