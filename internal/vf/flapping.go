package vf

import (
	"fmt"
	"time"
)

// The link of a PF is flapping from its FlapLosses-th loss of carrier within FlapPeriod on, until
// it has lost no carrier for FlapPeriod. Losses by a change of the number of VFs or of the MTU do not
// count.
const (
	FlapLosses = 5
	FlapPeriod = time.Minute
)

// DescribeFlapping returns the text that a link is flapping. It does not change while the link
// flaps.
func DescribeFlapping() string {
	return fmt.Sprintf("its link is flapping: it lost its carrier %d times or more within %d s", FlapLosses, int(FlapPeriod.Seconds()))
}
