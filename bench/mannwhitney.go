package bench

import (
	"math"
	"slices"
)

// mostExact is the largest number of values, of both samples together, for which P is exact. The
// time to count grows with its cube.
const mostExact = 60

// mannWhitney returns how likely it is that chance alone separates a from b at least as
// clearly as the sum of a's ranks does (Mann and Whitney 1947). Up to 60 values the result is
// exact: all ways to draw a's ranks are counted, with the mean rank of equal values. Above, it is
// the normal approximation with corrections for ties and continuity (Lehmann 2006, section 1.3 to
// 1.5). Neither sample is empty.
func mannWhitney(a, b []float64) float64 {
	ranks, sum := doubleRanks(a, b)
	n, all := len(a), len(a)+len(b)
	mean := n * (all + 1) // of twice the sum of n ranks
	off := sum - mean
	if off < 0 {
		off = -off
	}
	if all > mostExact {
		return normalTail(ranks, n, float64(off))
	}
	if distinct(ranks) {
		return tailsOf(rankSumCounts(n, all-n), (sum-n*(n+1))/2)
	}
	// ways[k][s] is the number of ways in which k of the ranks so far add up to s.
	most := max(all*(all+1), 2*mean)
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, most+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- {
			for s := most; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	return tailsOf(ways[n][:2*mean+1], sum)
}

func distinct(sorted []int) bool { return len(slices.Compact(slices.Clone(sorted))) == len(sorted) }

// tailsOf returns the part of the counts at values that are at least as far from the middle as
// seen.
func tailsOf(counts []float64, seen int) float64 {
	far, total := 0.0, 0.0
	for i, c := range counts {
		total += c
		if absolute(2*i-len(counts)+1) >= absolute(2*seen-len(counts)+1) {
			far += c
		}
	}
	return far / total
}

// doubleRanks returns twice the rank of each value among all, which makes them whole
// where values are equal, and the sum of a's.
func doubleRanks(a, b []float64) (ranks []int, sum int) {
	all := slices.Concat(a, b)
	slices.Sort(all)
	rank := func(v float64) int {
		first, _ := slices.BinarySearch(all, v)
		last := first
		for last+1 < len(all) && all[last+1] == v {
			last++
		}
		return first + last + 2
	}
	for _, v := range all {
		ranks = append(ranks, rank(v))
	}
	for _, v := range a {
		sum += rank(v)
	}
	return ranks, sum
}

// normalTail returns both tails beyond off, by the normal approximation, of twice the sum of n of
// the ranks.
func normalTail(ranks []int, n int, off float64) float64 {
	all := float64(len(ranks))
	mean := all + 1
	spread := 0.0
	for _, r := range ranks {
		spread += (float64(r) - mean) * (float64(r) - mean)
	}
	// The variance of the sum of n ranks that are drawn without replacement.
	variance := float64(n) * (all - float64(n)) / (all * (all - 1)) * spread
	if variance == 0 {
		return 1
	}
	return math.Erfc(math.Max(0, off-1) / math.Sqrt(2*variance))
}
