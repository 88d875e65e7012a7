package main

import "context"

// install installs what the chosen clients need into .build.
func (b *bench) install(ctx context.Context, chosen []*client) {
}
