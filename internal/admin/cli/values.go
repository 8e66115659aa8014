package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/suggest"
)

// AddChoice gives cmd a flag that takes one of some words. The shell completes them. value has the
// word if the command line does not have the flag.
func AddChoice[T ~string](cmd *cobra.Command, value *T, name, usage string, words ...T) {
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = string(w)
	}
	cmd.Flags().Var(&choice[T]{value, known}, name, usage+": "+strings.Join(known, ", "))
	completeWords(cmd, name, known)
}

type choice[T ~string] struct {
	value *T
	known []string
}

func (c *choice[T]) String() string { return string(*c.value) }
func (c *choice[T]) Type() string   { return "word" }

func (c *choice[T]) Set(s string) error {
	*c.value = T(s)
	return checkWord(s, c.known)
}

func checkWord(s string, known []string) error {
	if slices.Contains(known, s) {
		return nil
	}
	return errors.New("want " + joinOr(known) + suggest.DidYouMean(s, known))
}

// joinOr joins words as a sentence does: "a, b or c".
func joinOr(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func completeWords(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	cobra.CheckErr(err) // only if the flag were not there
}

// whole is a type of whole numbers.
type whole interface{ int | uint8 | uint16 | uint64 }

// AddCount gives cmd a flag that takes a whole number of a range, both ends included. value has the
// number if the command line does not have the flag.
func AddCount[T whole](cmd *cobra.Command, value *T, name string, least, most T, usage string) {
	cmd.Flags().Var(&count[T]{value, least, most, strings.ReplaceAll(usage, "`", "")}, name, usage)
}

type count[T whole] struct {
	value       *T
	least, most T
	usage       string
}

func (c *count[T]) String() string { return fmt.Sprint(*c.value) }
func (c *count[T]) Type() string   { return "number" }

func (c *count[T]) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < uint64(c.least) || n > uint64(c.most) {
		if uint64(c.most) == math.MaxUint64 {
			return fmt.Errorf("want a whole number, %d or more (%s)", c.least, c.usage)
		}
		return fmt.Errorf("want a whole number from %d to %d", c.least, c.most)
	}
	*c.value = T(n)
	return nil
}

// AddNumber gives cmd a flag that takes a number of a range, both ends included. value has the number
// if the command line does not have the flag.
func AddNumber(cmd *cobra.Command, value *float64, name string, least, most float64, usage string) {
	cmd.Flags().Var(&number{value, least, most}, name, usage)
}

type number struct {
	value       *float64
	least, most float64
}

func (n *number) String() string { return strconv.FormatFloat(*n.value, 'g', -1, 64) }
func (n *number) Type() string   { return "number" }

func (n *number) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v < n.least || v > n.most {
		return fmt.Errorf("want a number from %s to %s", strconv.FormatFloat(n.least, 'f', -1, 64), strconv.FormatFloat(n.most, 'f', -1, 64))
	}
	*n.value = v
	return nil
}

// AddSeconds gives cmd a flag that takes seconds as a number, or a time with its unit, of a range with
// both ends included. value has the seconds if the command line does not have the flag.
func AddSeconds(cmd *cobra.Command, value *float64, name string, least, most float64, usage string) {
	cmd.Flags().Var(&seconds{number{value, least, most}}, name, usage)
}

type seconds struct{ number }

func (s *seconds) Type() string { return "seconds" }

func (s *seconds) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil {
		text = strconv.FormatFloat(d.Seconds(), 'g', -1, 64)
	}
	if s.number.Set(text) != nil {
		return fmt.Errorf("want seconds from %v to %v, or a time with a unit such as 90s or 2m", s.least, s.most)
	}
	return nil
}

// AddTime gives cmd a flag that takes a span of time, both ends included. value has the time if the
// command line does not have the flag.
func AddTime(cmd *cobra.Command, value *time.Duration, name string, least, most time.Duration, usage string) {
	cmd.Flags().Var(&span{value, least, most}, name, usage)
}

type span struct {
	value       *time.Duration
	least, most time.Duration
}

func (s *span) String() string {
	if *s.value == 0 {
		return ""
	}
	return formatSpan(*s.value)
}

func (s *span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < s.least || d > s.most {
		return fmt.Errorf("want a time from %s to %s, such as 90s or 5m", formatSpan(s.least), formatSpan(s.most))
	}
	*s.value = d
	return nil
}

// formatSpan formats a time without the units that are 0: 24h, not 24h0m0s.
func formatSpan(d time.Duration) string {
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

// AddRate gives cmd a flag that takes a rate. value has it in Mb/s, as the kernel does
// (IFLA_VF_RATE of linux/if_link.h).
func AddRate(cmd *cobra.Command, value *uint32, name, usage string) {
	cmd.Flags().Var((*rate)(value), name, usage+" (Mb/s, or with a unit: 2.5G)")
}

type rate uint32

func (r *rate) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*r), 10)
}

func (r *rate) Type() string { return "rate" }

func (r *rate) Set(s string) error {
	const want = "want Mb/s as a whole number, or a number with a unit of bits such as 500M or 2.5Gbit"
	v, _, ok := ParseRate(s)
	switch {
	case !ok:
		return errors.New(want)
	case v != math.Trunc(v) || v > math.MaxUint32:
		return fmt.Errorf("%s, at most %d Mb/s", want, uint32(math.MaxUint32))
	}
	*r = rate(v)
	return nil
}

// rateUnits has the units of rates in bits a second, in lower case and without their endings.
var rateUnits = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}

// ParseRate reads a rate of bits in Mb/s, such as 500M, 2.5Gbit or 40 Gb/s. A number without a unit is
// one of Mb/s. B stands for bytes, and a rate of bytes is none.
func ParseRate(s string) (mbps float64, hasUnit, ok bool) {
	text := strings.TrimSpace(s)
	if strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(text, "/s"), "ps"), "B") {
		return 0, false, false
	}
	text, isBits := cutRateEnding(strings.ToLower(text))
	number := strings.TrimRight(text, "kmgt ")
	letter := strings.TrimSpace(strings.TrimPrefix(text, number))
	unit, known := rateUnits[letter]
	if hasUnit = isBits || letter != ""; !hasUnit {
		unit = rateUnits["m"]
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || v < 0 || strings.ContainsAny(number, "xpinfe_") {
		return 0, false, false
	}
	return v * unit / rateUnits["m"], hasUnit, true
}

// cutRateEnding cuts the part of a rate's unit that says that it is one of bits.
func cutRateEnding(text string) (rest string, isBits bool) {
	for _, ending := range []string{"bit/s", "bits", "bit", "bps", "b/s"} {
		if cut, ok := strings.CutSuffix(text, ending); ok {
			return cut, true
		}
	}
	return text, false
}
