package limiter

// NameOf is what a share is called in Redis. On a Cluster the name tells which master has it.
func (r *Redis) NameOf(p *Policy, key string) string { return r.nameOf(p, key) }
