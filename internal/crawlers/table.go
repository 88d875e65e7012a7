package crawlers

import (
	"slices"
	"strings"
)

// Shipped is a crawler that a configuration may have by its name alone, as far as its operator has published how it is known. Its
// ranges are never shipped: they change.
type Shipped struct {
	Name     string
	Words    []string
	Suffixes []string // none: it has no names

	// RangesURL is where the operator publishes ranges; empty: no list is known.
	RangesURL string
}

// shipped is the table of docs/crawlers.md, which says where each row comes from.
var shipped = []Shipped{
	{
		"google", []string{"Googlebot", "Google-InspectionTool", "Storebot-Google", "GoogleOther", "Google-CloudVertexBot"},
		[]string{".googlebot.com"}, "https://developers.google.com/static/search/apis/ipranges/googlebot.json",
	}, {
		"google-special", []string{"AdsBot-Google", "Mediapartners-Google", "APIs-Google", "Google-Safety"},
		[]string{".google.com"}, "https://developers.google.com/static/search/apis/ipranges/special-crawlers.json",
	}, {
		"bing", []string{"bingbot", "adidxbot", "BingPreview", "MicrosoftPreview"},
		[]string{".search.msn.com"}, "https://www.bing.com/toolbox/bingbot.json",
	}, {
		"apple", []string{"Applebot"}, []string{".applebot.apple.com"}, "",
	}, {
		"yandex", []string{"YandexBot", "YandexImages"}, []string{".yandex.ru", ".yandex.net", ".yandex.com"}, "",
	}, {
		"amazon", []string{"Amazonbot", "AmazonAdBot"}, []string{".crawl.amazonbot.amazon", ".amazonadbot.com"}, "",
	}, {
		"commoncrawl", []string{"CCBot"}, []string{".crawl.commoncrawl.org"}, "",
	}, {
		"pinterest", []string{"Pinterestbot"}, []string{".pinterest.com", ".pinterestcrawler.com"}, "",
	}, {
		"openai", []string{"GPTBot", "OAI-SearchBot", "ChatGPT-User"}, nil, "https://openai.com/gptbot.json",
	}, {
		"perplexity", []string{"PerplexityBot", "Perplexity-User"}, nil, "https://www.perplexity.ai/perplexitybot.json",
	}, {
		"anthropic", []string{"ClaudeBot", "Claude-User", "Claude-SearchBot"}, nil, "",
	}, {
		"meta", []string{"meta-externalagent", "facebookexternalhit"}, nil, "https://www.facebook.com/peering/geofeed",
	}, {
		"ahrefs", []string{"AhrefsBot"}, nil, "https://api.ahrefs.com/v3/public/crawler-ip-ranges",
	}, {
		"duckduckgo", []string{"DuckDuckBot", "DuckAssistBot"}, nil, "",
	}, {
		"uptimerobot", []string{"UptimeRobot"}, nil, "",
	},
}

// ShippedAs returns the crawler of the table with a name.
func ShippedAs(name string) (s Shipped, found bool) {
	i := slices.IndexFunc(shipped, func(s Shipped) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return shipped[i], true
}

// ShippedNames lists the names of the table whose crawlers need no block, or, with others, all of them.
func ShippedNames(others bool) (names []string) {
	for i := range shipped {
		if others || len(shipped[i].Suffixes) > 0 {
			names = append(names, shipped[i].Name)
		}
	}
	return names
}

// Meant returns the crawler with names whose word is in one of some patterns for a User-Agent; empty: none.
func Meant(patterns []string) string {
	for i := range shipped {
		for _, word := range shipped[i].Words {
			isIn := func(pattern string) bool { return strings.EqualFold(strings.Trim(pattern, "*"), word) }
			if len(shipped[i].Suffixes) > 0 && slices.ContainsFunc(patterns, isIn) {
				return shipped[i].Name
			}
		}
	}
	return ""
}
