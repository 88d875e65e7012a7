package rule

import (
	"strings"
	"testing"
)

// TestParseCost_factors refuses sums and placeholders of factors that cannot be, by the words of the option.
func TestParseCost_factors(t *testing.T) {
	cost, err := ParseCost("json {price_in}*a-{http.request.header.X-Price}*b+0.5*c", 7)
	if err != nil || len(cost.prices) != 2 || cost.prices[0].Name != "price_in" || cost.prices[1].field.kind != headerField {
		t.Errorf("got %+v, %v", cost, err)
	}
	for from, want := range map[string]string{
		"json a*2":                  `cost json a*2: "a" is no factor`,
		"json {}*a":                 "cost {}: use one placeholder",
		"json {header.X}*a":         "in JSON write {http.request.header.X}",
		"json {a}*b+{http.x.{y}}*c": `"{http.x.{y}}" is no factor`,
	} {
		if _, err := ParseCost(from, 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", from, err, want)
		}
	}
}
