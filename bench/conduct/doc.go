// Package conduct plans a measurement and makes its runs: which paths there are
// between ends, which arms are run over them, in which order, how often and how
// long, and whether a run proves what it claims. A flow is the traffic over one
// path of a run; most runs have one.
//
// In goes an [Order] of ends and presets; out comes a [bench.Result] that says of
// itself when it is not whole. A run that does not prove its path is void, with the
// reason, and made again. Package preset makes arms of a name; the program
// culvert-bench calls this one.
package conduct
