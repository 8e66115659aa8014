// Package preset has a recipe for every figure that the five field reports print, so that one command
// measures the figure again.
//
// The input is a name ("m4") and the abilities of this place: its paths, its engines and a switch for
// the cable. The output is the arms with the report's parameters and the report's figures. Notes say
// which ability is missing here and what the arms measure instead. If no sensible measurement is left,
// the package returns an error. Package conduct runs the arms.
package preset
