package bench

import (
	"cmp"
	"math"
	"slices"
)

// ratioBounds returns the smallest and the largest ratio of a to b that Mann and Whitney's test
// does not reject at that chance: the k-th from each end of all ratios of a value of a to one of
// b, for the largest k at which U is below k in at most half of that chance (Moses; Hollander and
// Wolfe 1973, section 4.3, on logarithms). Neither sample is empty.
func ratioBounds(a, b []float64, chance float64) (low, high float64) {
	all := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			all = append(all, quotientOf(x, y))
		}
	}
	n, m := float64(len(a)), float64(len(b))
	if len(a)+len(b) > mostExact {
		k := n*m/2 - normalQuantile(1-chance/2)*math.Sqrt(n*m*(n+m+1)/12)
		return kthFromEnds(all, int(math.Max(0, math.Floor(k))))
	}
	return kthFromEnds(all, rankBelow(rankSumCounts(len(a), len(b)), chance))
}

// quotientOf returns x/y of two values that are not negative. For two zeros it returns 1.
func quotientOf(x, y float64) float64 {
	if x == 0 && y == 0 {
		return 1
	}
	return x / y
}

// averageBounds returns the bounds of the centre of values that Wilcoxon's test of signed ranks
// does not reject at that chance: the k-th from each end of the averages of all pairs (Tukey;
// Hollander and Wolfe 1973, section 3.3).
func averageBounds(values []float64, chance float64) (low, high float64) {
	var all []float64
	for i, x := range values {
		for _, y := range values[i:] {
			all = append(all, (x+y)/2)
		}
	}
	return kthFromEnds(all, rankBelow(signedSumCounts(len(values)), chance))
}

// kthFromEnds returns the k-th smallest and the k-th largest value, or the infinities if k is 0.
func kthFromEnds(values []float64, k int) (low, high float64) {
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	slices.Sort(values)
	return values[k-1], values[len(values)-k]
}

// rankBelow returns the largest k for which a statistic with these counts is below k with at most
// half of that chance.
func rankBelow(counts []float64, chance float64) int {
	total := 0.0
	for _, c := range counts {
		total += c
	}
	k, fewer := 0, 0.0
	for k < len(counts)/2 && (fewer+counts[k])/total <= chance/2 {
		fewer += counts[k]
		k++
	}
	return k
}

// rankSumCounts returns the number of ways in which U of samples of n and m takes each value from
// 0 to n*m: the coefficients of Gauss's binomial.
func rankSumCounts(n, m int) []float64 {
	counts := make([]float64, n*m+1)
	counts[0] = 1
	for i := 1; i <= n; i++ {
		for u := n * m; u >= m+i; u-- {
			counts[u] -= counts[u-m-i]
		}
		for u := i; u <= n*m; u++ {
			counts[u] += counts[u-i]
		}
	}
	return counts
}

// signedSumCounts returns the number of ways in which the sum of the positive ranks among n takes
// each value.
func signedSumCounts(n int) []float64 {
	counts := make([]float64, n*(n+1)/2+1)
	counts[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := len(counts) - 1; sum >= rank; sum-- {
			counts[sum] += counts[sum-rank]
		}
	}
	return counts
}

// signedRank returns the probability that chance alone puts the values as far from 0, by Wilcoxon's
// signed ranks. It is exact, and gives equal values their mean rank. It leaves out values of 0.
func signedRank(values []float64) float64 {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v == 0 })
	sizes := make([]float64, len(values))
	for i, v := range values {
		sizes[i] = math.Abs(v)
	}
	ranks, _ := doubleRanks(sizes, nil)
	slices.SortFunc(values, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	sum, all := 0, 0
	for i, r := range ranks { // both are in the order of the sizes
		all += r
		if values[i] > 0 {
			sum += r
		}
	}
	ways := make([]float64, all+1)
	ways[0] = 1
	for _, r := range ranks {
		for s := all; s >= r; s-- {
			ways[s] += ways[s-r]
		}
	}
	return tailsOf(ways, sum)
}

func absolute(n int) int { return max(n, -n) }
