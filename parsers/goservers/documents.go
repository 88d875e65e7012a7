package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/buger/jsonparser"
	"github.com/bytedance/sonic"
	jsonv2 "github.com/go-json-experiment/json"
	gojson "github.com/goccy/go-json"
	jsoniter "github.com/json-iterator/go"
	segment "github.com/segmentio/encoding/json"
	"github.com/tidwall/gjson"
	"github.com/valyala/fastjson"
)

// documentModules are those whose parsers are served.
var documentModules = []string{
	"github.com/buger/jsonparser", "github.com/bytedance/sonic", "github.com/go-json-experiment/json", "github.com/goccy/go-json",
	"github.com/json-iterator/go", "github.com/segmentio/encoding", "github.com/tidwall/gjson", "github.com/valyala/fastjson",
	"google.golang.org/protobuf",
}

// reader reads the value at a path of a document.
type reader func(body []byte, asked string) (string, error)

// object reads into a struct.
func object(unmarshal func(body []byte, into any) error) reader {
	return func(body []byte, asked string) (string, error) {
		var document Document
		err := unmarshal(body, &document)
		return document.of(asked), err
	}
}

// fields reads into a map.
func fields(unmarshal func(body []byte, into any) error) reader {
	return func(body []byte, asked string) (string, error) {
		var document map[string]any
		err := unmarshal(body, &document)
		return at(document, asked), err
	}
}

var documentReaders = map[string]reader{
	"json-struct": object(json.Unmarshal),
	"json-map":    fields(json.Unmarshal),
	"json-decoder": object(func(body []byte, into any) error {
		return json.NewDecoder(bytes.NewReader(body)).Decode(into)
	}),
	"json-int": func(body []byte, _ string) (string, error) {
		var counted Counted
		err := json.Unmarshal(body, &counted)
		return counted.of(), err
	},
	"json-v2": object(func(body []byte, into any) error { return jsonv2.Unmarshal(body, into) }),
	"json-v2-fold": object(func(body []byte, into any) error {
		return jsonv2.Unmarshal(body, into, jsonv2.MatchCaseInsensitiveNames(true))
	}),
	"goccy":       object(gojson.Unmarshal),
	"jsoniter":    object(jsoniter.Unmarshal),
	"jsoniter-go": object(jsoniter.ConfigCompatibleWithStandardLibrary.Unmarshal),
	"sonic":       object(sonic.Unmarshal),
	"sonic-map":   fields(sonic.Unmarshal),
	"segmentio":   object(segment.Unmarshal),
	"gjson":       readGJSON,
	"jsonparser":  readJSONParser,
	"fastjson":    readFastJSON,
	"protojson":   readProtoJSON,
}

func readGJSON(body []byte, asked string) (string, error) {
	if !gjson.ValidBytes(body) {
		return "", errors.New("no JSON")
	}
	result := gjson.GetBytes(body, asked)
	switch result.Type {
	case gjson.Null:
		return "none", nil
	case gjson.Number:
		return "number " + result.Raw, nil
	case gjson.String:
		return answer(result.Str), nil
	}
	return "other " + result.Raw, nil
}

func readJSONParser(body []byte, asked string) (string, error) {
	value, kind, _, err := jsonparser.Get(body, strings.Split(asked, ".")...)
	switch {
	case errors.Is(err, jsonparser.KeyPathNotFoundError):
		return "none", nil
	case err != nil:
		return "", err
	case kind == jsonparser.Number:
		return "number " + string(value), nil
	case kind == jsonparser.Null:
		return "none", nil
	case kind != jsonparser.String:
		return "other " + string(value), nil
	}
	text, err := jsonparser.ParseString(value)
	return answer(text), err
}

func readFastJSON(body []byte, asked string) (string, error) {
	document, err := fastjson.ParseBytes(body)
	if err != nil {
		return "", err
	}
	value := document.Get(strings.Split(asked, ".")...)
	switch {
	case value == nil || value.Type() == fastjson.TypeNull:
		return "none", nil
	case value.Type() == fastjson.TypeString:
		return answer(string(value.GetStringBytes())), nil
	case value.Type() == fastjson.TypeNumber:
		return "number " + value.String(), nil
	}
	return "other " + value.String(), nil
}

// serveDocuments serves parsers of JSON that applications call themselves.
func serveDocuments(address string) error {
	ways := map[string]func(r *http.Request, asked string) (string, error){}
	for name, read := range documentReaders {
		ways[name] = func(r *http.Request, asked string) (string, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return "", err
			}
			return read(body, asked)
		}
	}
	return serveReaders(address, ways)
}
