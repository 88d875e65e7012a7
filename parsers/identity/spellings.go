package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// spellingsHead has a place for the day of the run.
const spellingsHead = "# Spellings that servers read as one value, found by make identity on %s:\n" +
	"# group, value, spelling, servers. Written by -write.\n"

// usual are the requests that the spellings of the table are compared with, in the order of the groups.
func usual() []input {
	first := func(all []input) input { return all[0] }
	return []input{
		first(authorizationInputs()), first(loginInputs()), first(jwtInputs()), first(apiKeyInputs()), first(cookieInputs()),
		first(queryInputs()), first(pathInputs()), {paths, "/api/items", nil}, first(scriptInputs()), first(hostInputs()),
	}
}

// spelling is an input of which a reader has the value that it has of a usual one.
type spelling struct{ usual, number int }

// spellingsOf returns the inputs of which readers of a server have the same value as of a usual one.
func spellingsOf(all readings, inputs []input) (found []spelling) {
	for u, base := range usual() {
		isUsual := func(in input) bool { return in.group == base.group && in.text() == base.text() }
		at := slices.IndexFunc(inputs, isUsual)
		for reader, values := range all {
			value := values[at]
			if value == "" || !slices.Contains(base.group.readers(), readerWord(reader)) {
				continue
			}
			for number := range inputs {
				s := spelling{u, number}
				if number != at && inputs[number].group == base.group && values[number] == value && !slices.Contains(found, s) {
					found = append(found, s)
				}
			}
		}
	}
	return found
}

// text returns the target and the lines of the request that tell it from others.
func (i *input) text() string { return strings.Join(append([]string{i.target}, i.lines...), "\r\n") }

// writeSpellings writes the table of spellings, which the command try has within it.
func (h *harness) writeSpellings(path, day string) error {
	var table strings.Builder
	fmt.Fprintf(&table, spellingsHead, day)
	for u, base := range usual() {
		for number := range h.inputs {
			var servers []string
			for _, s := range list() {
				if slices.Contains(h.sheetOf(s).alike, spelling{u, number}) && !slices.Contains(servers, s.Name) {
					servers = append(servers, s.Name)
				}
			}
			if len(servers) > 0 {
				fmt.Fprintf(&table, "%s\t%s\t%s\t%s\n", base.group, strconv.Quote(base.text()), strconv.Quote(h.inputs[number].text()),
					strings.Join(servers, "; "))
			}
		}
	}
	return os.WriteFile(path, []byte(table.String()), 0o600)
}
