package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// ErrBlob reports a content in Redis that is cut, damaged or missing.
var ErrBlob = errors.New("its content in Redis is cut, damaged or missing")

// A content is a hash with a field for each piece: 0, 1 and so on, all of pieceSize bytes
// but the last. Redis copies a string of 50 MB each time that it grows by 1 MB, which
// stopped it for 20 to 30 ms.

// piecesOf returns the number of pieces of a content. An empty one has an empty piece.
func piecesOf(size int64) int64 { return max(1, (size+pieceSize-1)/pieceSize) }

// CheckBlobs returns a RefusedError unless the blobs may be contents of one version.
func (r *Records) CheckBlobs(blobs []Blob) error {
	if len(blobs) > maxFiles {
		return refused("%d contents; want at most %d", len(blobs), maxFiles)
	}
	if err := checkBlobs(blobs, r.o.MaxVersionBytes); err != nil {
		return refused("the version is refused: %v", err)
	}
	return nil
}

// ReadBlob reads a content in pieces and checks it. It never reads more than the
// size of the blob.
func (r *Records) ReadBlob(ctx context.Context, b Blob) ([]byte, error) {
	if err := r.CheckBlobs([]Blob{b}); err != nil {
		return nil, err
	}
	pieces, err := r.countPieces(ctx, b)
	if err != nil {
		return nil, err
	}
	if want := piecesOf(b.Size); pieces != want {
		return nil, fmt.Errorf("%w: blob %.12s has %d pieces; want %d", ErrBlob, b.Sum, pieces, want)
	}
	content := make([]byte, 0, b.Size)
	for n := range pieces {
		piece, err := r.piece(ctx, b, n)
		if err != nil {
			return nil, err
		}
		content = append(content, piece...)
	}
	switch got := blobOf(ctx, content); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case got != b:
		return nil, fmt.Errorf("%w: blob %.12s has another hash", ErrBlob, b.Sum)
	}
	return content, nil
}

func (r *Records) countPieces(ctx context.Context, b Blob) (int64, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	pieces, err := r.client.HLen(ctx, r.keys.blob(b.Sum)).Result()
	if err != nil {
		return 0, unavailable(err)
	}
	return pieces, nil
}

// piece reads a piece, if it has its size: what Redis holds may be hostile.
func (r *Records) piece(ctx context.Context, b Blob, n int64) (string, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	size := min(pieceSize, b.Size-n*pieceSize)
	piece, err := readPiece().Run(ctx, r.client, []string{r.keys.blob(b.Sum)}, n, size).Text()
	switch {
	case errors.Is(err, goredis.Nil):
		return "", fmt.Errorf("%w: piece %d of blob %.12s has another size than %d bytes", ErrBlob, n, b.Sum, size)
	case err != nil:
		return "", unavailable(err)
	}
	return piece, nil
}

// HasBlob reports whether Redis has the content, which it reads and checks: an equal
// content is not sent again, and a damaged one is replaced.
func (r *Records) HasBlob(ctx context.Context, b Blob) (bool, error) {
	_, err := r.ReadBlob(ctx, b)
	if errors.Is(err, ErrBlob) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	// It expires if no version uses it soon; blobs of versions never expire.
	key := r.keys.blob(b.Sum)
	ttl, err := r.client.PTTL(ctx, key).Result()
	if err == nil && ttl > 0 {
		err = r.client.PExpire(ctx, key, spareTime).Err()
	}
	if err != nil {
		return false, unavailable(err)
	}
	return true, nil
}

// WriteBlob writes a content in pieces. Until it is complete and checked it has another
// key, so that nobody reads a part of it. Without a version that uses it, it expires.
func (r *Records) WriteBlob(ctx context.Context, b Blob, from io.Reader) error {
	if err := r.CheckBlobs([]Blob{b}); err != nil {
		return err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	upload := r.keys.begin + "upload:" + hex.EncodeToString(id[:])
	sum, size := sha256.New(), int64(0)
	for buffer := make([]byte, pieceSize); ; {
		n, err := io.ReadFull(from, buffer)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("reading a file to publish: %w", err)
		}
		if size += int64(n); size > b.Size {
			return refused("a file to publish has more than %d bytes", b.Size)
		}
		sum.Write(buffer[:n])
		if n > 0 || size == 0 {
			if sent := r.writePiece(ctx, upload, piecesOf(size)-1, buffer[:n]); sent != nil {
				return sent
			}
		}
		if err != nil {
			break
		}
		if !delay.Wait(ctx, pieceGap) {
			return ctx.Err()
		}
	}
	if hex.EncodeToString(sum.Sum(nil)) != b.Sum || size != b.Size {
		return refused("a file to publish has another hash than its manifest states: it changed while it was sent")
	}
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	// A blob of a version in use is replaced by the same content without an expiry.
	if err := completeBlob().Run(ctx, r.client, []string{upload, r.keys.blob(b.Sum)}, spareTime.Milliseconds()).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// writePiece writes a piece of an upload, which expires if it does not go on. A piece that
// the client sends twice, as on a Cluster after an error, changes nothing.
func (r *Records) writePiece(ctx context.Context, key string, n int64, piece []byte) error {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	pipe := r.client.TxPipeline()
	pipe.HSet(ctx, key, n, piece)
	pipe.PExpire(ctx, key, spareTime)
	if _, err := pipe.Exec(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}
