package bond

// LimitMoves sets how many bonds are moved at once.
func (f *Follower) LimitMoves(n int) { f.moves.SetLimit(n) }
