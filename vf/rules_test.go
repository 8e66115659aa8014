package vf

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// P13, P-by-P: what each driver takes, refuses and makes of a rate.
func TestRules(t *testing.T) {
	u := func(n uint32) *uint32 { return &n }
	const refused = uint32(1 << 31)
	for _, tt := range []struct {
		driver string
		link   int // 0: no carrier
		ask    uint32
		want   uint32 // effective
	}{
		{"ixgbe", 10000, 10, refused},
		{"ixgbe", 10000, 11, 11},
		{"ixgbe", 10000, 10000, 10000},
		{"ixgbe", 10000, 10001, refused},
		{"ixgbe", 1000, 500, refused},
		{"ixgbe", 0, 500, refused},
		{"i40e", 10000, 1, 50},
		{"i40e", 10000, 50, 50},
		{"i40e", 10000, 99, 50},
		{"i40e", 10000, 170, 150},
		{"i40e", 10000, 10001, refused},
		{"i40e", 0, 100, refused},
		{"igb", 1000, 1, 1},
		{"igb", 1000, 1001, refused},
		{"igb", 0, 100, refused},
		{"ice", 25000, 1, 1},
		{"ice", 25000, 25001, refused},
		{"ice", 0, 100, 100}, // the kernel is asked
		{"cxgb4", 100000, 99999, 99999},
		{"cxgb4", 100000, 100001, refused},
		{"cxgb4", 0, 100, refused},
		{"bnxt_en", 25000, 25001, refused},
		{"bnxt_en", 0, 100, 100},
		{"mlx5_core", 25000, 30000, 30000},
		{"something_else", 1000, 4000000, 4000000},
		{"ixgbe", 0, 0, 0}, // unlimited is not a rate
	} {
		pf := PF{Name: "p0", Driver: tt.driver, SpeedMbps: tt.link, Carrier: tt.link > 0}
		r := RulesOf(tt.driver)
		err := r.Check(pf, Spec{MaxTxRate: u(tt.ask)})
		got := r.Effective(Admin{MaxTxRate: tt.ask}).MaxTxRate
		if errors.Is(err, ErrUnable) {
			got = refused
		}
		if got != tt.want || (err != nil) != (tt.want == refused) {
			t.Errorf("%s at %d asked for %d: %d, want %d (%v)", tt.driver, tt.link, tt.ask, got, tt.want, err)
		}
	}
}

func TestRulesSay(t *testing.T) {
	u := func(n uint32) *uint32 { return &n }
	for _, tt := range []struct {
		driver string
		link   int
		spec   Spec
		want   string
	}{
		{"ixgbe", 1000, Spec{MaxTxRate: u(200)}, "max_tx_rate 200: not supported by the driver: PF p0 (driver ixgbe) takes 11 to 10000 Mb/s, and only while its link runs at 10000 Mb/s; no min_tx_rate; it runs at 1000 Mb/s now"},
		{"ixgbe", 10000, Spec{MaxTxRate: u(7)}, "max_tx_rate 7: not supported by the driver: PF p0 (driver ixgbe) takes 11 to 10000 Mb/s, and only while its link runs at 10000 Mb/s; no min_tx_rate; ask for 11 or more"},
		{"i40e", 10000, Spec{MaxTxRate: u(20000)}, "max_tx_rate 20000: not supported by the driver: PF p0 (driver i40e) takes 50 to 10000 Mb/s (its link), in steps of 50, less counts as 50; no min_tx_rate; ask for 10000 or less"},
		{"i40e", 10000, Spec{MinTxRate: u(5)}, "min_tx_rate 5: not supported by the driver: PF p0 (driver i40e) has no min_tx_rate: leave it out"},
		{"ice", 25000, Spec{MinTxRate: u(500), MaxTxRate: u(100)}, "min_tx_rate 500: invalid: it is above max_tx_rate 100"},
		{"ice", 25000, Spec{MinTxRate: u(500), MaxTxRate: u(1000)}, ""},
		{"bnxt_en", 25000, Spec{MinTxRate: u(30000)}, "min_tx_rate 30000: not supported by the driver: PF p0 (driver bnxt_en) takes no more than the speed of its link, 25000 Mb/s"},
		{"cxgb4", 100000, Spec{VLAN: &VLAN{ID: 5, QoS: 3}}, "vlanQoS 3: not supported by the driver: PF p0 (driver cxgb4) takes a VLAN without priority only: leave vlanQoS out"},
		{"cxgb4", 100000, Spec{VLAN: &VLAN{ID: 5}}, ""},
	} {
		pf := PF{Name: "p0", Driver: tt.driver, SpeedMbps: tt.link, Carrier: tt.link > 0}
		got := ""
		if err := RulesOf(tt.driver).Check(pf, tt.spec); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.driver, diff)
		}
	}
}

// I6: what is effective stays so, never is no limit where one was asked for, and
// is never more than what was asked, but for what a driver raises.
func TestEffectiveIsSettled(t *testing.T) {
	for _, driver := range []string{"igb", "ixgbe", "i40e", "ice", "mlx5_core", "cxgb4", "bnxt_en", "unknown"} {
		r := RulesOf(driver)
		for asked := range uint32(2000) {
			once := r.Effective(Admin{MaxTxRate: asked})
			if r.Effective(once) != once || (once.MaxTxRate == 0) != (asked == 0) || once.MaxTxRate > asked && once.MaxTxRate != r.Lowest {
				t.Errorf("%s: %d becomes %d", driver, asked, once.MaxTxRate)
			}
		}
	}
}
