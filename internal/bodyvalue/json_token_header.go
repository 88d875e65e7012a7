package bodyvalue

import (
	"errors"
	"net/http"
	"strconv"
)

// errHeader is why a header's counts of tokens cannot be read.
var errHeader = errors.New("a count of tokens in the response's header is no whole number from 0 to 2^52, is there twice, " +
	"or their sum is above that")

// headerCounts are the fields in which Bedrock's InvokeModel counts the tokens of a call, in their canonical form. The
// input leaves out the cached ones. The body is the model's own, and may tell none.
var headerCounts = [...]string{
	"X-Amzn-Bedrock-Input-Token-Count",
	"X-Amzn-Bedrock-Cache-Write-Input-Token-Count",
	"X-Amzn-Bedrock-Cache-Read-Input-Token-Count",
	"X-Amzn-Bedrock-Output-Token-Count",
}

// HeaderTokens returns the sum of the counts of tokens in a response's header, of which those count that are there. The
// error is [ErrNoNumber] if none is, and for bodies that are no document: the header of a stream is sent before its tokens are
// known. Any other error says that a count cannot be read.
func HeaderTokens(header http.Header) (sum int64, err error) {
	if !isDocument(header) {
		return 0, ErrNoNumber
	}
	err = ErrNoNumber
	for _, name := range headerCounts {
		values := header[name]
		if len(values) == 0 {
			continue
		}
		n, wrong := strconv.ParseInt(values[0], 10, 64)
		if wrong != nil || len(values) > 1 || n < 0 || n > largestNumber-sum {
			return 0, errHeader
		}
		sum, err = sum+n, nil
	}
	return sum, err
}

// isDocument reports whether a body with a header is one document of JSON. A compressed body is taken for one.
func isDocument(header http.Header) bool {
	form, err := formOf(header)
	return form == formOne && !errors.Is(err, errType)
}
