package main

import "github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"

const (
	oldSuite = frameworks.OldSuite
	newSuite = frameworks.NewSuite
)

// server is a program that serves a framework. It prints its version in its first line.
type server struct {
	name      string
	suite     string   // the Debian release that the program is of, or "" for one of this machine
	packages  []string // Debian's, with the program
	sources   string   // the folder of what is compiled
	compiled  string   // what becomes of it
	prepare   []string // a command that compiles it before the program is run, once
	command   []string // {port} stands for the port
	version   []string // a command that prints the version, of a program that does not
	forms     []string // ways to read forms
	documents []string // ways to read documents of JSON
}

// program returns what is installed and run.
func (s *server) program() *frameworks.Program {
	return &frameworks.Program{
		Name: s.String(), Suite: s.suite, Packages: s.packages, Sources: s.sources, Compiled: s.compiled, Prepare: s.prepare,
		Command: s.command, Version: s.version,
	}
}

// programs returns what is installed and run for servers.
func programs(servers []*server) (all []*frameworks.Program) {
	for _, s := range servers {
		all = append(all, s.program())
	}
	return all
}

// String returns the server's name with its release.
func (s *server) String() string {
	if s.suite == "" {
		return s.name
	}
	return s.name + ", " + s.suite
}

// inBoth returns a server of each release.
func inBoth(s server) []*server {
	older, newer := s, s
	older.suite, newer.suite = oldSuite, newSuite
	return []*server{&older, &newer}
}

// inNew returns a server of the newer release.
func inNew(s server) []*server {
	s.suite = newSuite
	return []*server{&s}
}
