package redis

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// KeyWriter writes key names. It belongs to one goroutine at a time.
type KeyWriter struct {
	Head string
	Mac  hash.Hash
	sum  []byte

	client []byte // scratch space of SlotOf
}

// ProbeKey is the client key of probes, or on a Cluster what it begins with.
const ProbeKey = limiter.ReservedMark

// NewKeyWriter returns a writer of keys of a format.
func NewKeyWriter(k limiter.KeyFormat) *KeyWriter {
	w := &KeyWriter{Head: k.Head()}
	if k.Secret != "" {
		w.Mac = hmac.New(sha256.New, []byte(k.Secret))
	}
	return w
}

// Append appends the name of a key in the states of an ID.
func (k *KeyWriter) Append(dst []byte, id, key string) []byte {
	dst = append(dst, k.Head...)
	dst = k.AppendClient(dst, key)
	dst = append(dst, "}:"...)
	return append(dst, id...)
}

// AppendClient appends the part between the braces, which is never empty: a Cluster ignores empty
// braces. The keys of probes, which tell nothing of a client, are never hashed, so that they can be told
// from states.
func (k *KeyWriter) AppendClient(dst []byte, key string) []byte {
	switch {
	case k.Mac != nil && !strings.HasPrefix(key, ProbeKey):
		k.Mac.Reset()
		k.Mac.Write([]byte(key))
		k.sum = k.Mac.Sum(k.sum[:0])
		return hex.AppendEncode(append(dst, limiter.HashedMark...), k.sum)
	case key == "":
		return append(dst, '%')
	}
	return append(dst, key...)
}

// SlotOf returns the Cluster slot of a client key: CRC16 (XMODEM) of the part between the braces,
// modulo 16384, as in the Redis Cluster specification.
func (k *KeyWriter) SlotOf(key string) uint16 {
	k.client = k.AppendClient(k.client[:0], key)
	client := k.client
	if end := bytes.IndexByte(client, '}'); end > 0 {
		client = client[:end]
	}
	return SlotOfTag(client)
}

// SlotOfTag returns the Cluster slot of what stands between the braces of a key.
func SlotOfTag(tag []byte) uint16 {
	crc := uint16(0)
	for _, b := range tag {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc % ClusterSlots
}

// crcTable holds the CRC16 of every byte.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// SlotOfName returns the slot of a key of that name: that of the part between its braces.
func SlotOfName(name string) uint16 {
	_, tag, _ := strings.Cut(name, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return SlotOfTag([]byte(tag))
}

// ClusterSlots is how many slots the keys of a Cluster are spread over.
const ClusterSlots = 16384
