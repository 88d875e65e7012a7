package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// build is a Caddy of one commit, with the benchmarks' modules.
type build struct {
	name   string // its commit
	binary string
}

// buildBoth builds the Caddy of the base commit, from a worktree that remove removes, and that of the working tree.
func buildBoth(ctx context.Context, o options, dir string) (builds [2]build, remove func(), err error) {
	tree := filepath.Join(dir, "base")
	remove = func() {}
	if _, err = git(ctx, o.root, "worktree", "add", "--detach", tree, o.base); err != nil {
		return builds, remove, err
	}
	remove = func() {
		if _, err := git(context.WithoutCancel(ctx), o.root, "worktree", "remove", "--force", tree); err != nil {
			progress("%v", err)
		}
	}
	for i, root := range [2]string{tree, o.root} {
		builds[i].binary = filepath.Join(dir, fmt.Sprint("caddy", i))
		if builds[i].name, err = git(ctx, root, "describe", "--always", "--dirty"); err != nil {
			return builds, remove, err
		}
		progress("building the Caddy of %s", builds[i].name)
		// The flags of the Makefile.
		err = serve.Build(ctx, filepath.Join(root, "bench"), "./cmd/caddy", builds[i].binary, "-trimpath", "-tags", "nobadger,nomysql,nopgx")
		if err != nil {
			return builds, remove, err
		}
	}
	return builds, remove, nil
}

// git runs git in a folder and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	var problem strings.Builder
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, &problem)
	}
	return strings.TrimSpace(string(output)), nil
}
