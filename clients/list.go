package main

import "slices"

// list returns all clients, in the order of the table.
func list() []*client {
	return slices.Concat(transfers(), packages(), images(), gits(), stores(), acmes(), media(), pages(), sdks())
}
