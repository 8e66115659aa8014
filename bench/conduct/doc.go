// Package conduct makes the runs of a measurement: which paths there are between
// ends, in which order arms are run over them, how often, and whether a run
// proves what it claims. A flow is the traffic over one path of a run; most runs have one.
//
// In go two or more ends with an agent each, and arms; out comes a [bench.Result]
// that says of itself when it is not whole. A run that does not prove its path is
// void, with the reason, and made again. Package preset makes arms of a name;
// the program culvert calls both.
package conduct
