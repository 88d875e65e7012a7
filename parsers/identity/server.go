package main

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// server is a program that serves a framework. It answers ownPath, and paths of its own, with an object of readers and what
// they have of the request, and other paths with the route that it takes them for.
type server struct {
	frameworks.Program
	paths   []string // of readers that refuse requests
	scripts bool     // it serves scripts of PHP by their paths
	fastCGI bool     // it is asked by FastCGI, for the scripts in the folder php
}

// String returns the server's name with its release.
func (s *server) String() string {
	if s.Suite == "" {
		return s.Name
	}
	return s.Name + ", " + s.Suite
}

// pathsFor returns the paths that are asked for the readers of a group.
func (s *server) pathsFor(g group) (all []string) {
	all = append(all, ownPath)
	for _, path := range s.paths {
		if readers := g.readers(); slices.Contains(readers, readerWord(path[1:])) {
			all = append(all, path)
		}
	}
	return all
}

// isAsked reports whether the server has readers of a group.
func (s *server) isAsked(g group) bool { return g != scripts || s.scripts }

// programs returns what is installed and run for servers.
func programs(servers []*server) (all []*frameworks.Program) {
	for _, s := range servers {
		all = append(all, &s.Program)
	}
	return all
}

// readerWord returns the first word of a reader's name, without digits at its end.
func readerWord(name string) string {
	end := 0
	for end < len(name) && name[end]-'a' <= 'z'-'a' {
		end++
	}
	return name[:end]
}
