package main

import "time"

// The backend: 40 pages a second.
const (
	workers = 4
	service = 100 * time.Millisecond // of a page
	queue   = 500                    // requests that wait for a worker
)

// People: they use half of the backend.
const (
	visitsPerSecond = 4.0
	crowd           = 4 // times as many come in flood H
	clicks          = 4 // of a visit
	patience        = 10 * time.Second
	reloads         = 2
	reloadAfter     = 2 * time.Second
	soon            = 3 * time.Second // by when a page counts as one that came
)

// When what happens, counted from the start of a run.
const (
	calm       = 4 * time.Second  // the flood begins
	settled    = 7 * time.Second  // visits that begin from now on are measured
	measured   = 23 * time.Second // until now
	lastArrive = 75 * time.Second // by when all measured visits have ended: each click takes 10 s at most
)
