package nginx

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/hits"
	"github.com/koalagate/koalagate/rules"
)

// The headers of a settlement. X-Koala-Response-NAME is the parameter response.name.
const (
	headerHits     = "X-Koala-Hits"
	responsePrefix = "X-Koala-Response-"
)

// maxSettlement is the maximum size of the document of a settlement, in bytes.
const maxSettlement = 16 << 10

// onReceipt is an operation of the engine on a receipt.
type onReceipt func(*engine.Engine, context.Context, *engine.Settlement) (engine.Settled, error)

// receiptPaths maps the paths for receipts to their operations.
var receiptPaths = map[string]onReceipt{"/v1/settle": (*engine.Engine).Settle, "/v1/renew": (*engine.Engine).Renew}

// settlement is the document of a settlement without X-Koala-Receipt.
type settlement struct {
	Receipt  string                     `json:"receipt"`
	Hits     json.RawMessage            `json:"hits"`
	Response map[string]json.RawMessage `json:"response"`
}

var (
	errDocument = errors.New(`want the header X-Koala-Receipt, or a document {"receipt": "…", "hits": 600, "response": {"status": "200"}}`)
	errReceipt  = errors.New("the receipt is malformed; want the X-Koala-Receipt of a check's answer")
	errHits     = errors.New("the hits are no whole number 0 … 10^15")
)

// settle carries out the operation of a path in receiptPaths, and answers 204, or 404 for a
// receipt that is unknown. A query of the path has no meaning: nginx appends the client's in
// a rewrite.
func (a *answer) settle(ctx context.Context, path string) {
	if a.check.Method != http.MethodPost {
		a.w.Header().Set("Allow", http.MethodPost)
		a.reject(http.StatusMethodNotAllowed, "want POST")
		return
	}
	s, err := a.readSettlement()
	if err != nil {
		a.reject(http.StatusBadRequest, err.Error())
		return
	}
	s.Door = strings.TrimPrefix(path, "/v1/")
	got, err := receiptPaths[path](a.server.gate.Engine, ctx, s)
	switch {
	case err != nil:
		a.server.complaints.warn("a receipt was not settled", "door", s.Door, "error", err)
		a.reject(http.StatusServiceUnavailable, "no store answered; repeat the call")
	case !got.Known:
		a.reject(http.StatusNotFound, "the receipt is settled already, has expired or was never issued")
	default:
		a.send(http.StatusNoContent, nil, nil)
	}
}

// reject answers with a problem document. Unlike the answers to checks, it is for the
// gateway or the application itself.
func (a *answer) reject(status int, detail string) {
	r := engine.Problem(status, detail)
	a.send(status, []rules.Header{{Name: "Content-Type", Value: r.ContentType}}, r.Body)
}

// readSettlement reads a settlement from the headers, or else from the body.
func (a *answer) readSettlement() (*engine.Settlement, error) {
	s := &engine.Settlement{Response: new(rules.Params)}
	var used string
	if receipts := a.check.Header.Values(engine.HeaderReceipt); len(receipts) > 0 {
		s.Receipt, used = receipts[0], a.check.Header.Get(headerHits)
		for name, values := range a.check.Header {
			if parameter, is := strings.CutPrefix(name, responsePrefix); is && parameter != "" {
				s.Response.Set(rules.ResponsePrefix+strings.ToLower(parameter), values[0])
			}
		}
	} else if err := a.readDocument(s, &used); err != nil {
		return nil, err
	}
	if !engine.ValidReceipt(s.Receipt) {
		return nil, errReceipt
	}
	if used != "" {
		n, ok := hits.Parse(used)
		if !ok {
			return nil, errHits
		}
		s.Hits, s.HasHits = uint64(n), true
	}
	return s, nil
}

// readDocument reads the JSON document of a settlement. Its numbers may be texts.
func (a *answer) readDocument(s *engine.Settlement, used *string) error {
	text, err := io.ReadAll(http.MaxBytesReader(a.w, a.check.Body, maxSettlement))
	var document settlement
	if err != nil || json.Unmarshal(text, &document) != nil {
		return errDocument
	}
	s.Receipt = document.Receipt
	if *used, err = scalar(document.Hits); err != nil {
		return errHits
	}
	for name, value := range document.Response {
		parameter, err := scalar(value)
		if err != nil {
			return errDocument
		}
		s.Response.Set(rules.ResponsePrefix+name, parameter)
	}
	return nil
}

var errScalar = errors.New("want a text, a number, true or false")

// scalar returns the text of a JSON value that is no list and no object; "" for null and
// without a value.
func scalar(value json.RawMessage) (string, error) {
	switch {
	case len(value) == 0 || string(value) == "null":
		return "", nil
	case value[0] == '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case value[0] == '{' || value[0] == '[':
		return "", errScalar
	}
	return string(value), nil
}
