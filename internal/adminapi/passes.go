package adminapi

// ChallengeReport is how many passes a key has, and the limit of each; 0: that of the policy.
type ChallengeReport struct {
	Passes int   `json:"passes"`
	Limit  int64 `json:"limit,omitempty"`
}

// PassReport is the quota of a pass, by its key.
type PassReport struct {
	Key string `json:"key"`
	QuotaReport
}
