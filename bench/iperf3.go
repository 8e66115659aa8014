package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Transfer is one run of iperf3 over TCP.
type Transfer struct {
	Bytes       uint64  // that the receiver got
	Seconds     float64 // as the receiver counts them
	Gbps        float64 // goodput at the receiver: 1e9 bits a second
	Retransmits int     // segments that the sender sent again
}

// ParseIperf3 reads what `iperf3 --json` prints at the client (iperf3 3.x,
// "end.sum_received" and "end.sum_sent"). What iperf3 reports as its error is
// returned as one.
func ParseIperf3(text []byte) (Transfer, error) {
	var out struct {
		Error string `json:"error"`
		End   struct {
			Sent struct {
				Retransmits int `json:"retransmits"`
			} `json:"sum_sent"`
			Received struct {
				Seconds float64 `json:"seconds"`
				Bytes   uint64  `json:"bytes"`
				Bits    float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return Transfer{}, fmt.Errorf("read iperf3's result: %w", err)
	}
	if out.Error != "" {
		return Transfer{}, errors.New("iperf3: " + out.Error)
	}
	t := Transfer{
		Bytes: out.End.Received.Bytes, Seconds: out.End.Received.Seconds,
		Gbps: out.End.Received.Bits / 1e9, Retransmits: out.End.Sent.Retransmits,
	}
	if t.Bytes == 0 || t.Seconds <= 0 || t.Gbps <= 0 || math.IsInf(t.Gbps, 0) || t.Retransmits < 0 {
		return Transfer{}, fmt.Errorf("read iperf3's result: nothing was received: %d bytes in %g s, %d sent again", t.Bytes, t.Seconds, t.Retransmits)
	}
	return t, nil
}

// Gigabits is how much was transferred, in 1e9 bits.
func (t Transfer) Gigabits() float64 { return float64(t.Bytes) * 8 / 1e9 }
