package report

import "github.com/culvert-net/culvert/bench"

// view is a result as the report shows it: with the report's names, and with what several parts of the
// report need, computed once.
type view struct {
	bench.Result // without false wires
	pairs        []bench.Pair
	best         *bench.Pair // that of the headline; nil if no arms are compared
	labels       []label
	rows         []row
	questions    []question
	colour       func(bench.Arm) string
	cares        []string
}

func makeView(raw bench.Result) view {
	shown := raw.WithoutFalseWires()
	v := view{Result: withLabels(shown), pairs: shown.Pairs()}
	v.best = headline(v.Result, v.pairs)
	v.labels, v.rows = labelArms(v.Result), listRows(v.Result, v.pairs)
	v.questions, v.colour = listQuestions(raw, v.best), chooseColours(v.Result, v.best)
	v.cares = listCares(withLabels(raw), v.pairs)
	return v
}
