package limiter

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// readBan reads a ban and how long it is left from the value of a key of that name; all zero where there is
// none, or a foreign value.
func (r *Redis) readBan(answer *redis.StringCmd, name string) (state banState, left int64, err error) {
	text, err := answer.Result()
	if isNil(err) || redis.HasErrorPrefix(err, "WRONGTYPE") {
		return state, 0, nil
	}
	if err != nil {
		return state, 0, err
	}
	state, _ = decodeBan(text)
	return state, max(0, state.until-r.nowOn(name)), nil
}

// splitBanKey returns the policy and the client of the key of a ban.
func splitBanKey(name, head string) (policy, key string, ok bool) {
	at := strings.LastIndex(name, "}:")
	if at < len(head) || !strings.HasPrefix(name, head) {
		return "", "", false
	}
	policy, code, found := strings.Cut(name[at+2:], ":")
	if !found || !strings.HasPrefix(code, banCode) || !codePattern.MatchString(code) || !validName(policy) {
		return "", "", false
	}
	key = name[len(head):at]
	if key == "%" {
		key = "" // as it is encoded
	}
	return policy, key, true
}

// decodeBan reads a stored state of bans.
func decodeBan(text string) (s banState, ok bool) {
	const size, confirmedSize = 5 * 8, 7 * 8
	if len(text) != size && len(text) != confirmedSize {
		return s, false
	}
	var n [7]int64
	for i := range len(text) / 8 {
		value := double(text, i)
		if !(value >= 0 && value <= precision) {
			return s, false
		}
		n[i] = int64(value)
	}
	return banState{n[0], n[1], n[2], n[3], n[4], n[5], n[6]}, true
}

// readStoredBan reads a stored state of bans in words for operators.
func (r *Redis) readStoredBan(ctx context.Context, name, kind string) (map[string]any, error) {
	if kind != "string" {
		return nil, nil //nolint:nilnil // a foreign value has no description
	}
	text, err := r.client.Get(ctx, name).Result()
	if err != nil {
		return nil, ignoreGone(err)
	}
	s, ok := decodeBan(text)
	if !ok {
		return nil, nil //nolint:nilnil // as above
	}
	return s.describe(), nil
}

// describe returns the state in words for operators.
func (s banState) describe() map[string]any {
	words := map[string]any{"denials": s.denials, "offenses": s.offenses}
	instants := map[string]int64{"denials_since": s.since, "banned_until": s.until, "offenses_forgotten": s.forgotten, "counted_since": s.confirmed}
	for name, micros := range instants {
		if micros > 0 {
			words[name] = time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) //nolint:forbidigo // for people
		}
	}
	if s.counted > 0 {
		words["units_counted"] = s.counted
	}
	return words
}
