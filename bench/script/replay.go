package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/resp"
)

// player replays recordings against a redis-server of its own.
type player struct {
	redis process.ID
	conn  *resp.Conn
}

func newPlayer(ctx context.Context, redis process.ID, address string) (*player, error) {
	conn, err := resp.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &player{redis, conn}, nil
}

// load empties the server and loads the script.
func (p *player) load(r *recording) error {
	for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "LOAD", r.script}} {
		if _, err := p.conn.Do(command...); err != nil {
			return err
		}
	}
	return nil
}

// play sends all batches, one after the other, several times.
func (p *player) play(r *recording, passes int) error {
	for range passes {
		for _, batch := range r.batches {
			if err := p.conn.Write(batch); err != nil {
				return err
			}
			switch reply, err := p.conn.Read(); {
			case err != nil:
				return err
			case reply == "" || reply[0] != 1: // as lua/plan.lua describes
				return fmt.Errorf("the script replies %.100q", reply)
			}
		}
	}
	return nil
}

// turn measures Redis's CPU time of a decision, in µs, once each counter exists.
func (p *player) turn(r *recording, passes int) (float64, error) {
	if err := errors.Join(p.load(r), p.play(r, 1)); err != nil {
		return 0, err
	}
	before, err := p.redis.CPU()
	if err != nil {
		return 0, err
	}
	if err := p.play(r, passes); err != nil {
		return 0, err
	}
	after, err := p.redis.CPU()
	return float64(after-before) / float64(time.Microsecond) / float64(passes*r.decisions), err
}
