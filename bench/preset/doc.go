// Package preset knows every figure that the five field reports print, and how each
// was measured, so that one command measures it again.
//
// In goes a name ("m4") and what there is here: paths, engines, a switch for the
// cable. Out come arms with the report's parameters, the report's figures, and what is
// lacking here with what is measured instead; or a refusal, when nothing sensible is
// left. It is pure; package conduct calls it and runs the arms.
package preset
