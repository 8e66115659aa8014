// Package preset knows every figure that the five field reports print, and how each
// was measured, so that one command measures it again.
//
// In goes a name ("m4") and the abilities of this place: paths, engines, a switch for the cable.
// Out come arms with the report's parameters, the report's figures, and notes on what this place
// lacks and what is measured instead. If nothing sensible can be measured, out comes an error. It
// is pure; package conduct calls it and runs the arms.
package preset
