package adminapi

import "time"

// CrawlersRequest is the body of POST /redis_ratelimit/crawlers. The DNS is asked about its address; empty: about none.
type CrawlersRequest struct {
	Address string `json:"address,omitempty"`
}

// CrawlersReport answers it: the crawlers of the configuration, and what is found out about the address.
type CrawlersReport struct {
	Crawlers []CrawlerEntry `json:"crawlers"`

	// Resolver is nil where no crawler is known by names.
	Resolver *ResolverReport `json:"resolver,omitempty"`

	// Address is nil where none is asked for.
	Address *AddressReport `json:"address,omitempty"`
}

// CrawlerEntry is a crawler: its ways, and how many requests have claimed it since the process started, by what was known.
type CrawlerEntry struct {
	Name     string         `json:"name"`
	Agents   []string       `json:"agents"`
	Names    []string       `json:"names,omitempty"`
	Ranges   []RangesReport `json:"ranges,omitempty"`
	Verified int64          `json:"verified"`
	Forged   int64          `json:"forged"`
	Unknown  int64          `json:"unknown"`
}

// RangesReport is a file of ranges. Old ones make nothing forged.
type RangesReport struct {
	File     string    `json:"file"`
	Ranges   int       `json:"ranges"`
	Modified time.Time `json:"modified"`
	Old      bool      `json:"old,omitempty"`
}

// ResolverReport is what look-ups are at. Address is empty for the resolver of the system.
type ResolverReport struct {
	Address    string `json:"address,omitempty"`
	Failing    bool   `json:"failing"`     // the last look-ups failed, and no request waits
	FoundNames bool   `json:"found_names"` // of any address; before that nothing is forged by its name
	Verified   int    `json:"verified"`    // addresses that are remembered
	Others     int    `json:"others"`
	Waiting    int    `json:"waiting"` // look-ups
	Running    int    `json:"running"`
}

// AddressReport is what is found out about an address: each question to the DNS, and what it is for each crawler.
type AddressReport struct {
	Address  string             `json:"address"`
	Internet bool               `json:"internet"` // false: a client of the internet cannot have it, and all claims are unknown
	Steps    []StepReport       `json:"steps,omitempty"`
	Claims   []ExplainedCrawler `json:"claims"`
}

// StepReport is a question to the DNS, and how many seconds its answer took.
type StepReport struct {
	Question string   `json:"question"`
	Answers  []string `json:"answers,omitempty"`
	Took     float64  `json:"took"`
	Error    string   `json:"error,omitempty"`
}
