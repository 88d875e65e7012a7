package main

func (h *harness) writeResults(string) error { return nil }
