package docs

// This file plays the recipes whose keys are values of the request's body.

const (
	ofJSON = "Content-Type: application/json"
	ofForm = "Content-Type: application/x-www-form-urlencoded"
)
