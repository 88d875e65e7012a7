package replay

import "math/bits"

// frontier holds the requests of one key at which the debt of a bucket may have begun to grow, for any limit not
// below the key's peak demand. Under a limit L the debt is the maximum of
//
//	(units - before) * window - (now - at) * L
//
// over all requests. Draw the requests as points, with the instant to the right and the units before it upward.
// The requests that can be the maximum for some limit are the corners of the lower convex hull. Corners with a
// slope below the peak demand are no longer needed. So few are left that a key costs some tens of bytes, unless
// its traffic grows faster and faster.
type frontier []start

// start is a request: its instant in ticks, and the units of the requests before it.
type start struct{ at, before int64 }

// with appends a request and drops those that it makes useless.
func (f frontier) with(s start) frontier {
	if len(f) > 0 && f[len(f)-1].at == s.at {
		return f
	}
	for len(f) > 1 {
		a, b := f[len(f)-2], f[len(f)-1]
		if less(b.before-a.before, s.at-b.at, s.before-b.before, b.at-a.at) {
			break
		}
		f = f[:len(f)-1]
	}
	return append(f, s)
}

// worst returns the index of the request since which the debt under a limit is largest, at or after the given
// one.
func (f frontier) worst(from int, limit, window int64) int {
	for from+1 < len(f) && !less(f[from+1].at-f[from].at, limit, f[from+1].before-f[from].before, window) {
		from++
	}
	return from
}

// demand returns the smallest limit, from the given one on, whose bucket has room for so many units at an
// instant: (units - before) * window <= limit * (window + now - at) for every request. Each round takes the
// limit that the worst request under the last limit needs, until it no longer grows.
func (f frontier) demand(limit, now, units, window int64) int64 {
	for i := 0; ; {
		i = f.worst(i, limit, window)
		need := quotientUp(units-f[i].before, window, window+now-f[i].at)
		if need <= limit {
			return limit
		}
		limit = need
	}
}

// less reports whether a*b < c*d, for numbers from 0 whose products may need 128 bits.
func less(a, b, c, d int64) bool {
	high1, low1 := bits.Mul64(uint64(a), uint64(b))
	high2, low2 := bits.Mul64(uint64(c), uint64(d))
	return high1 < high2 || (high1 == high2 && low1 < low2)
}

// quotientUp returns a*b/c rounded up, for numbers from 0 with b <= c.
func quotientUp(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, rest := bits.Div64(high, low, uint64(c))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}
