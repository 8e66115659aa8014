package text

import (
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
)

// Flows draws `culvert vf top`: one line for each VF in use, in the given order.
func Flows(flows []api.VFFlow, o Options) string {
	if len(flows) == 0 {
		return "No VF is in use.\n"
	}
	t := &screen.Table{Columns: []screen.Column{
		{Head: "VF"}, {Head: "OWNER", Least: 16}, {Head: "NETWORK", Least: 12},
		{Head: "RECEIVES", Right: true}, {Head: "SENDS", Right: true},
		{Head: "PACKETS/S", Right: true}, {Head: "DROPS/S", Right: true},
	}}
	unknown := 0
	for _, f := range flows {
		owner := f.UsedBy
		if f.Owner != nil {
			owner = f.Owner.String()
		}
		cells := screen.Words(f.Name, owner, f.Network)
		if f.Rx == nil {
			unknown++
			t.Add(append(cells, screen.Words("-", "-", "-", "-")...)...)
			continue
		}
		drops := screen.Cell{Text: formatCount(f.Rx.Dropped + f.Tx.Dropped + f.Rx.Errors + f.Tx.Errors)}
		if drops.Text != "0" {
			drops.Style = screen.Yellow
		}
		t.Add(append(append(cells, screen.Words(formatBits(f.Rx.Bits), formatBits(f.Tx.Bits), formatCount(f.Rx.Packets+f.Tx.Packets))...), drops)...)
	}
	var b strings.Builder
	t.Write(&b, o.Look)
	if unknown > 0 {
		b.WriteString("\n- no counters: the VF has no netdevice and its PF's driver does not count,\n  or its owner changed meanwhile\n")
	}
	return b.String()
}

// formatBits formats bits a second with three digits.
func formatBits(bits float64) string {
	units := []string{"b/s", "kb/s", "Mb/s", "Gb/s"}
	i := 0
	for ; bits >= 999.5 && i < len(units)-1; i++ {
		bits /= 1000
	}
	return formatDigits(bits) + " " + units[i]
}

// formatCount formats a number for each second, from 1 on as a whole number.
func formatCount(n float64) string {
	if n == 0 || n >= 1 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return formatDigits(n)
}

func formatDigits(n float64) string {
	switch {
	case n == 0 || n >= 99.95:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 9.995:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}
