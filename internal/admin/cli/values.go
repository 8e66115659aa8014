package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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

// AddCount gives cmd a flag that takes a whole number of a range, both ends included. value has the
// number if the command line does not have the flag.
func AddCount(cmd *cobra.Command, value *int, name string, least, most int, usage string) {
	cmd.Flags().Var(&count{value, least, most}, name, usage)
}

type count struct {
	value       *int
	least, most int
}

func (c *count) String() string { return strconv.Itoa(*c.value) }
func (c *count) Type() string   { return "number" }

func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < c.least || n > c.most {
		return fmt.Errorf("want a whole number from %d to %d", c.least, c.most)
	}
	*c.value = n
	return nil
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

// rateUnits has the units of rates in Mb/s, in lower case, with the endings "bit", "bit/s" and "b/s"
// left out.
var rateUnits = map[string]float64{"": 1, "m": 1, "g": 1000, "t": 1e6}

func (r *rate) Set(s string) error {
	const want = "want Mb/s as a whole number, or a number with a unit such as 500M or 2.5Gbit"
	text := strings.ToLower(strings.TrimSpace(s))
	for _, ending := range []string{"bit/s", "bits", "bit", "bps", "b/s"} {
		if cut, ok := strings.CutSuffix(text, ending); ok {
			text = cut
			break
		}
	}
	number := strings.TrimRight(text, "mgt ")
	unit, ok := rateUnits[strings.TrimSpace(strings.TrimPrefix(text, number))]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || strings.ContainsAny(number, "xpinfe_") {
		return errors.New(want)
	}
	v *= unit
	if v < 0 || v != math.Trunc(v) || v > math.MaxUint32 {
		return fmt.Errorf("%s, at most %d Mb/s", want, uint32(math.MaxUint32))
	}
	*r = rate(v)
	return nil
}
