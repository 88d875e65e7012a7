package tryout

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// spellingsTable is written by make identity, which has asked real servers.
//
//go:embed spellings.tsv
var spellingsTable string

// Spelling is a request of which servers have read the value that they read of a usual one.
type Spelling struct {
	// Group is the part of the request that is spelled: one of the groups of make identity.
	Group string

	// Usual and Spelled are the targets of the request lines, and the lines of the headers that differ, with CRLF between.
	Usual, Spelled string

	// Servers are the names of the servers that have read one value.
	Servers []string
}

// Spellings returns the table of spellings. The slice must not be changed.
var Spellings = sync.OnceValue(func() (all []Spelling) {
	for line := range strings.Lines(spellingsTable) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(cells) != 4 {
			continue
		}
		usual, _ := strconv.Unquote(cells[1]) // the table is written, and a test reads it
		spelled, _ := strconv.Unquote(cells[2])
		all = append(all, Spelling{cells[0], usual, spelled, strings.Split(cells[3], "; ")})
	}
	return all
})

// The groups of spellings.
const (
	groupAuthorization = "Authorization"
	groupBasic         = "Basic"
	groupJWT           = "JWT"
	groupHeader        = "X-Api-Key"
	groupCookie        = "cookie"
	groupQuery         = "query"
	groupPath          = "path"
	groupScript        = "script"
	groupHost          = "host"
)

// The words that the table spells.
const (
	tableHeader = "X-Api-Key"
	tableCookie = "session"
	tableQuery  = "token"
	tableValue  = "abc"
	tableHost   = "app.example"
	tableTarget = "/r"
)
