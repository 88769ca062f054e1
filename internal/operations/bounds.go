package operations

import (
	"cmp"

	"github.com/koalagate/koalagate/internal/mapping"
)

// maxDeclared is the maximum number of declarations in [params] of a draft that explains a
// request: the origin of each parameter takes a mapping of the request.
const maxDeclared = 1024

// checkQuestion checks the size of a question, and that none of its values is a mask, which is the
// value of nobody. What doors derive from other parts of a request is checked once it is known.
func (d *Desk) checkQuestion(q *Question) error {
	if err := d.checkSize(q); err != nil {
		return err
	}
	if _, _, err := d.Named("", q.Params); err != nil || q.Request == nil {
		return err
	}
	for _, e := range q.Request.Descriptor {
		if err := d.checkMask(e.Key, e.Value); err != nil {
			return err
		}
	}
	for key, value := range q.Request.Metadata {
		if err := d.checkMask(key.Path, value); err != nil {
			return err
		}
	}
	for name, values := range q.Request.Headers {
		for _, value := range values {
			if err := d.checkMask(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMask checks that a value of a parameter is not a mask.
func (d *Desk) checkMask(name, value string) error {
	if err := d.identities.Check(name, value); err != nil {
		return InputError{err}
	}
	return nil
}

// checkSize checks a question against the bounds of the doors, so that it is no more work
// than a request.
func (d *Desk) checkSize(q *Question) error {
	count, size := len(q.Params), 0
	for name, value := range q.Params {
		size += len(name) + len(value)
	}
	if r := q.Request; r != nil {
		count += len(r.Descriptor) + len(r.Metadata)
		size += r.size()
	}
	if most := cmp.Or(d.mapping.MaxParams, mapping.DefaultMaxParams); count > most {
		return invalid("the question has %d parameters; want at most %d, which is max_params", count, most)
	}
	if size > d.maxHeader {
		return invalid("the question has %d bytes; want at most %d, which is http_max_header", size, d.maxHeader)
	}
	return nil
}

// size returns the number of bytes in the names and values of a request.
func (r *Request) size() int {
	size := len(r.Door) + len(r.Method) + len(r.Target) + len(r.Peer)
	for name, values := range r.Headers {
		size += len(name)
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	for _, e := range r.Descriptor {
		size += len(e.Key) + len(e.Value)
	}
	for key, value := range r.Metadata {
		size += len(key.Namespace) + len(key.Path) + len(value)
	}
	return size
}
