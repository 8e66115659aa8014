package api

import "github.com/culvert-net/culvert/vf"

// LendRateRequest is the parameters of the dialog MethodLendRate: an attached VF is to have
// another max_tx_rate, for so long at most. When it has, culvertd asks MethodRateIsLent with
// LentRate; the client answers when the VF is to have its own rate again, and is told
// when it has. When the client leaves, or the time is up, it gets it as well.
type LendRateRequest struct {
	VF        vf.PCIAddr `json:"vf"`
	MaxTxRate uint32     `json:"maxTxRate"` // Mb/s; 0: no limit
	Seconds   int        `json:"seconds"`
}

// LentRate is what the hardware keeps to.
type LentRate struct {
	MaxTxRate uint32 `json:"maxTxRate"` // Mb/s
}
