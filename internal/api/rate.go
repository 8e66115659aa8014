package api

import "github.com/culvert-net/culvert/internal/vf"

// LendRateRequest has the parameters of the dialog MethodLendRate: culvertd sets another
// max_tx_rate on an attached VF, for a limited time. Once the VF has that rate, culvertd asks
// MethodRateIsLent with LentRate. The client answers when the VF is to have its own rate again, and
// gets the answer to its request when it has. culvertd also restores the rate if the client
// disconnects, or the time is up.
type LendRateRequest struct {
	VF        vf.PCIAddr `json:"vf"`
	MaxTxRate uint32     `json:"maxTxRate"` // Mb/s; 0: no limit
	Seconds   int        `json:"seconds"`
}

// LentRate is the rate that the hardware applies.
type LentRate struct {
	MaxTxRate uint32 `json:"maxTxRate"` // Mb/s
}
