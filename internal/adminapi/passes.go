package adminapi

// PassReport is the quota of a pass, by its key.
type PassReport struct {
	Key string `json:"key"`
	QuotaReport
}
