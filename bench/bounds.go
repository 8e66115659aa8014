package bench

import (
	"cmp"
	"math"
	"slices"
)

// ratiosOf returns the ratios of all values of a to all values of b, in order. Bounds of the ratio
// of the populations are the k-th from each end (Moses; Hollander and Wolfe 1973, section 4.3, on
// logarithms). Neither sample is empty.
func ratiosOf(a, b []float64) []float64 {
	all := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			all = append(all, quotientOf(x, y))
		}
	}
	slices.Sort(all)
	return all
}

// quotientOf returns x/y of two values that are not negative. For two zeros it returns 1.
func quotientOf(x, y float64) float64 {
	if x == 0 && y == 0 {
		return 1
	}
	return x / y
}

// averageRatios returns, in order, the ratios whose logarithms are the averages of all pairs of
// logs, each with itself too. Bounds of the centre are the k-th from each end (Tukey; Hollander and
// Wolfe 1973, section 3.3).
func averageRatios(logs []float64) []float64 {
	var all []float64
	for i, x := range logs {
		for _, y := range logs[i:] {
			all = append(all, math.Exp((x+y)/2))
		}
	}
	slices.Sort(all)
	return all
}

// kthFromEnds returns the k-th smallest and the k-th largest of sorted values, or the infinities if
// k is 0.
func kthFromEnds(sorted []float64, k int) (low, high float64) {
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return sorted[k-1], sorted[len(sorted)-k]
}

// rankCounts has the distribution of the statistic of a test of ranks where there is no difference:
// the number of ways in which it takes each value from 0. Samples that are too large to count have
// the mean and the deviation of its normal approximation in place of them.
type rankCounts struct {
	ways            []float64
	mean, deviation float64
}

// countsOfRankSum returns the distribution of Mann and Whitney's U for samples of n and m.
func countsOfRankSum(n, m int) rankCounts {
	if n+m > mostExact {
		x, y := float64(n), float64(m)
		return rankCounts{mean: x * y / 2, deviation: math.Sqrt(x * y * (x + y + 1) / 12)}
	}
	return rankCounts{ways: rankSumCounts(n, m)}
}

// countsOfSignedSum returns the distribution of Wilcoxon's sum of the positive ranks among n.
func countsOfSignedSum(n int) rankCounts { return rankCounts{ways: signedSumCounts(n)} }

// rankBelow returns the largest k for which the statistic is below k with less than half of that
// chance.
func (c rankCounts) rankBelow(chance float64) int {
	if c.ways == nil {
		return int(math.Max(0, math.Floor(c.mean-normalQuantile(1-chance/2)*c.deviation)))
	}
	total := 0.0
	for _, n := range c.ways {
		total += n
	}
	k, fewer := 0, 0.0
	for k < len(c.ways)/2 && (fewer+c.ways[k])/total < chance/2 {
		fewer += c.ways[k]
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
