package rule

import (
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

var (
	sizePattern = regexp.MustCompile(`^(\d{1,18}(?:\.\d{1,18})?)([KMGTPkmgtp]?)([Ii]?)[Bb]$`)
	errNoSize   = errors.New("no size such as 5MB or 500MiB")
)

// ParseSize reads a number of bytes with its unit, as Caddy does: 5MB is 5·1000², 5MiB is 5·1024². The unit has to end
// with B: 5m is a duration.
func ParseSize(text string) (int64, error) {
	parts := sizePattern.FindStringSubmatch(text)
	if len(parts) == 0 || parts[2] == "" && parts[3] != "" {
		return 0, errNoSize
	}
	base := int64(1000)
	if parts[3] != "" {
		base = 1024
	}
	power := strings.Index(" kmgtp", strings.ToLower(parts[2]))
	if parts[2] == "" {
		power = 0
	}
	size, _ := new(big.Rat).SetString(parts[1])
	unit := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(power)), nil)
	size.Mul(size, new(big.Rat).SetInt(unit))
	if !size.IsInt() || !size.Num().IsInt64() {
		return 0, errNoSize
	}
	return size.Num().Int64(), nil
}

// FormatSize writes a number of bytes as [ParseSize] reads it, with the largest unit of 1024 of which it is a whole
// number: 16MiB, 1000B.
func FormatSize(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	unit := 0
	for ; unit < len(units)-1 && bytes != 0 && bytes%1024 == 0; unit++ {
		bytes /= 1024
	}
	return strconv.FormatInt(bytes, 10) + units[unit]
}
