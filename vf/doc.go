// Package vf holds the values of the domain: addresses and identities of
// Physical and Virtual Functions, what somebody wants of a VF (Spec), what the
// kernel says of it (State), what it looked like when it was made and clean
// (Baseline), and who holds it (Owner).
//
// Values only: nothing here does I/O, and every other package may import it.
// Parsing happens once, at the edge that received the text; after that the
// types here are valid by construction.
package vf
