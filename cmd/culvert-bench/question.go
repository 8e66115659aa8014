package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/culvert-net/culvert/bench/preset"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

// addQuestionFlags adds the flags of a measurement without a preset.
func addQuestionFlags(cmd *cobra.Command, q *preset.Question) {
	f := cmd.Flags()
	f.StringVar(&q.Send, "send", "", "without a preset, the throughput of `tcp|udp`; of udp also what is lost (default tcp)")
	f.StringVar(&q.Ask, "ask", "", "without a preset, the round trips of questions by `tcp|udp|connect`; connect makes a TCP connection for each")
	f.Var((*rate)(q), "rate", "the `RATE` of --send in Mb/s or such as 10Gb/s, of --ask in questions a second (default as much as the path carries)")
	f.Var((*percents)(&q.Loads), "load", "with --ask: also while TCP carries these `PERCENTS` of the path's throughput, such as 10,50,90")
	cli.AddCount(cmd, &q.Streams, "streams", 1, 1024, "how many streams send or ask at the same time (default 1)")
	f.Var((*sizes)(&q.Sizes), "size", "`BYTES` of each write, datagram or question, with K or M for 1024 or 1048576; several, such as 64,1K,64K, are measured in turns")
	f.StringVar(&q.Direction, "direction", "", "who sends or asks: `there|back|both`, where there is from --from to --to (default there)")
	f.Var((*dscp)(&q.DSCP), "dscp", "the `CLASS` in the IP header of all data: 0 to 63, or a name such as ef, af41, cs1")
	for flag, words := range map[string][]string{
		"send": preset.Sent, "ask": preset.Asked, "direction": preset.Directions, "load": {"10,50,90"}, "dscp": {"ef", "af41", "cs1"},
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))) // only if the flag were not there
	}
}

// rate is the value of --rate in a question.
type rate preset.Question

var _ pflag.Value = (*rate)(nil)

func (r *rate) Type() string { return "rate" }

func (r *rate) String() string {
	if r.Rate == 0 {
		return ""
	}
	return strconv.FormatFloat(r.Rate, 'f', -1, 64)
}

// Set reads bits a second as other flags do, and questions a second: a number, with k or M for 1000 or
// 1000000, and "/s".
func (r *rate) Set(text string) error {
	const most = 1e9
	v, isBits, ok := cli.ParseRate(text)
	unit := preset.NoUnit
	if isBits {
		unit = preset.Bits
	}
	if number, is := strings.CutSuffix(strings.TrimSpace(text), "/s"); is && !ok && !strings.ContainsAny(number, "bB") {
		if v, isBits, ok = cli.ParseRate(number); isBits {
			v *= 1e6 // k and M of questions are those of bits
		}
		unit = preset.Questions
	}
	if !ok || v > most {
		return fmt.Errorf("want Mb/s of --send such as 200, 500M or 10Gb/s, or questions a second of --ask such as 1000, 1000/s or 50k/s, at most %.0f", most)
	}
	r.Rate, r.RateUnit = v, unit
	return nil
}

// percents is the value of --load.
type percents []int

var _ pflag.Value = (*percents)(nil)

func (p *percents) Type() string { return "percents" }

func (p *percents) String() string { return joinInts(*p) }

func (p *percents) Set(text string) error {
	*p = nil
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(word), "%"))
		if err != nil {
			return fmt.Errorf("%q is no percent: take such as 10,50,90", word)
		}
		*p = append(*p, n)
	}
	return nil
}

// sizes is the value of --size.
type sizes []int

var _ pflag.Value = (*sizes)(nil)

func (s *sizes) Type() string { return "bytes" }

func (s *sizes) String() string { return joinInts(*s) }

func (s *sizes) Set(text string) error {
	*s = nil
	for word := range strings.SplitSeq(text, ",") {
		number, unit := strings.ToUpper(strings.TrimSpace(word)), 1
		for suffix, bytes := range map[string]int{"K": 1 << 10, "M": 1 << 20} {
			if cut, has := strings.CutSuffix(number, suffix); has {
				number, unit = cut, bytes
				break
			}
		}
		const most = 1 << 30
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > most/unit {
			return fmt.Errorf("%q is no number of bytes: take such as 64, 1K or 64,1K,64K", word)
		}
		*s = append(*s, n*unit)
	}
	return nil
}

// dscp is the value of --dscp.
type dscp int

var _ pflag.Value = (*dscp)(nil)

func (d *dscp) Type() string { return "class" }

func (d *dscp) String() string { return strconv.Itoa(int(*d)) }

// Set reads a number or a name of RFC 2474 (CS), 2597 (AF), 3246 (EF) or 8622 (LE).
func (d *dscp) Set(text string) error {
	name := strings.ToLower(text)
	n, err := strconv.Atoi(name)
	switch {
	case err == nil && n >= 0 && n <= 63:
	case name == "ef":
		n = 46
	case name == "le":
		n = 1
	case len(name) == 3 && name[:2] == "cs" && name[2] >= '0' && name[2] <= '7':
		n = 8 * int(name[2]-'0')
	case len(name) == 4 && name[:2] == "af" && name[2] >= '1' && name[2] <= '4' && name[3] >= '1' && name[3] <= '3':
		n = 8*int(name[2]-'0') + 2*int(name[3]-'0')
	default:
		return fmt.Errorf("%q is no class: take 0 to 63, or cs0 to cs7, af11 to af43, ef or le", text)
	}
	*d = dscp(n)
	return nil
}

func joinInts(all []int) string {
	var words []string
	for _, n := range all {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}
