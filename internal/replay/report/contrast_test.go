package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestReport_contrast(t *testing.T) {
	sheet, err := reportFiles.ReadFile("report.css")
	if err != nil {
		t.Fatal(err)
	}
	light, rest, _ := strings.Cut(string(sheet), "@media screen and (prefers-color-scheme: dark)")
	dark, _, _ := strings.Cut(rest, "* {")
	colors := colorsIn(light)
	for _, scheme := range []string{"light", "dark"} {
		if scheme == "dark" {
			for name, color := range colorsIn(dark) {
				colors[name] = color
			}
		}
		for _, pair := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "paper", 7}, {"muted", "paper", 4.5}, {"link", "paper", 4.5}, {"denied", "paper", 4.5}, {"ink", "warning", 7},
			{"line", "paper", 4.5}, {"clients", "paper", 4.5}, {"base", "paper", 3}, {"denied", "area", 3},
		} {
			front, back := colors[pair.front], colors[pair.back]
			if front == "" || back == "" {
				t.Fatalf("no color %s or %s", pair.front, pair.back)
			}
			if got := contrast(t, front, back); got < pair.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", scheme, pair.front, pair.back, got, pair.least)
			}
		}
	}
}

func colorsIn(sheet string) map[string]string {
	colors := map[string]string{}
	for _, match := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`).FindAllStringSubmatch(sheet, -1) {
		colors[match[1]] = match[2]
	}
	return colors
}

// contrast is the ratio that WCAG 2 defines.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	brighter, darker := luminance(t, a), luminance(t, b)
	if brighter < darker {
		brighter, darker = darker, brighter
	}
	return (brighter + 0.05) / (darker + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
