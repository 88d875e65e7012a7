package main

// corpus returns all inputs.
func corpus() (all []input) {
	for _, group := range [][]input{
		authorizationInputs(), loginInputs(), jwtInputs(), apiKeyInputs(), cookieInputs(), queryInputs(), pathInputs(), scriptInputs(),
		hostInputs(),
	} {
		all = append(all, group...)
	}
	return all
}

// ofHeader returns requests with one line of a header each.
func ofHeader(g group, header string, values []string) (all []input) {
	for _, value := range values {
		all = append(all, input{g, ownPath, []string{header + ": " + value}})
	}
	return all
}

// ofLines returns requests with several lines, or with one that is no usual one.
func ofLines(g group, requests [][]string) (all []input) {
	for _, lines := range requests {
		all = append(all, input{g, ownPath, lines})
	}
	return all
}

// ofTargets returns requests of targets behind a prefix.
func ofTargets(g group, prefix string, targets []string) (all []input) {
	for _, target := range targets {
		all = append(all, input{g, prefix + target, nil})
	}
	return all
}
