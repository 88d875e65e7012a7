package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// wireReader reads Redis's protocol and keeps the bytes.
type wireReader struct {
	*bufio.Reader
	kept []byte
}

func newWireReader(r io.Reader) *wireReader {
	return &wireReader{Reader: bufio.NewReaderSize(r, 1<<20)}
}

// next returns the bytes of the next value, and its words: texts and numbers, in order.
func (r *wireReader) next() (raw []byte, words [][]byte, err error) {
	r.kept = nil
	err = r.value(&words)
	return r.kept, words, err
}

// value reads a value with all that belongs to it.
func (r *wireReader) value(words *[][]byte) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	r.kept = append(r.kept, line...)
	if len(line) < 3 {
		return fmt.Errorf("not a value of Redis's protocol: %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '$', '=', '!':
		return r.text(text, words)
	case '*', '~', '>', '%':
		elements, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("not a number of elements: %q", line)
		}
		if kind == '%' {
			elements *= 2
		}
		for range elements { // none where it is -1
			if err := r.value(words); err != nil {
				return err
			}
		}
		return nil
	}
	*words = append(*words, bytes.Clone(line[:len(line)-2]))
	return nil
}

// text reads the bytes of a text whose length stands in the line before.
func (r *wireReader) text(length []byte, words *[][]byte) error {
	n, err := strconv.Atoi(string(length))
	if err != nil {
		return fmt.Errorf("not a length: %q", length)
	}
	if n < 0 {
		*words = append(*words, nil)
		return nil
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	r.kept = append(r.kept, text...)
	*words = append(*words, text[:n])
	return nil
}

// scriptKeys returns the keys of a command that runs a script; ran is false for all others.
func scriptKeys(words [][]byte) (keys [][]byte, ran bool) {
	if len(words) < 3 || !bytes.EqualFold(words[0], []byte("evalsha")) && !bytes.EqualFold(words[0], []byte("eval")) {
		return nil, false
	}
	n, err := strconv.Atoi(string(words[2]))
	if err != nil || n < 0 || 3+n > len(words) {
		return nil, false
	}
	return words[3 : 3+n], true
}
