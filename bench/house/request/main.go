// Request makes one request of ext_authz to a service with Redis, and records its way for
// bench/house, which builds it with coverage counters and runs it:
//
//	request FOLDER
//
// The service runs in this process with default settings, and its Redis is real. Once
// everything is warm, rounds of one request each leave the coverage counters of what was
// executed in FOLDER/request1, FOLDER/request2 and so on, and calls of gRPC's health
// service theirs in FOLDER/front1 and so on. One more request leaves FOLDER/trail.json.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/internal/admin"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/service"
)

const (
	// warmup is the number of requests before the first that is recorded, so that pools
	// are filled, the script is known to Redis and connections are open.
	warmup = 50
	rounds = 30
	// rest is how long what a request leaves to other goroutines may take.
	rest = time.Millisecond
)

// ruleText is the example of ARCHITECTURE.md, with a limit that is not reached.
const ruleText = `
[params]
uid : header X-User-Id
[routes]
POST /api/comments : act=comment
[rules]
rule : [count] [act=comment; uid=+] [time=90; count=4000;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: request FOLDER")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "request:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) (err error) {
	stage, err := e2e.NewStage(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	redis, err := stage.Redis()
	if err != nil {
		return err
	}
	o, closed, err := observe(ctx, redis.Address)
	if err != nil {
		return err
	}
	defer closed()
	s, err := open(ctx, folder, redis.URL())
	if err != nil {
		return err
	}
	stop, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, stop, nil) }()
	defer func() {
		stop <- os.Interrupt
		err = errors.Join(err, <-ended)
	}()
	return record(ctx, folder, s.Addresses().GRPC, o)
}

// open opens the service with the Redis at a URL.
func open(ctx context.Context, folder, redis string) (*service.Service, error) {
	rules := filepath.Join(folder, "rules.conf")
	if err := os.WriteFile(rules, []byte(ruleText), 0o600); err != nil { //nolint:gosec // the folder is the caller's
		return nil, err
	}
	loaded, err := config.Load(config.Input{Environ: []string{
		"KOALAGATE_RULES=" + rules, "KOALAGATE_REDIS=" + redis, "KOALAGATE_REDIS_BUDGET=5s",
		"KOALAGATE_GRPC_ADDR=127.0.0.1:0", "KOALAGATE_HTTP_ADDR=127.0.0.1:0", "KOALAGATE_ADMIN_ADDR=127.0.0.1:0",
	}})
	if err != nil {
		return nil, err
	}
	return service.Open(ctx, service.Options{Config: loaded, Log: io.Discard, Version: admin.Version{Version: "house"}})
}

// record warms the service up, and records its requests.
func record(ctx context.Context, folder, address string, o *observer) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := authv3.NewAuthorizationClient(connection)
	for range warmup {
		if err := ask(ctx, client); err != nil {
			return err
		}
	}
	health := healthv1.NewHealthClient(connection)
	if err := recordRounds(folder, "front", func() error {
		_, err := health.Check(ctx, &healthv1.HealthCheckRequest{})
		return err
	}); err != nil {
		return err
	}
	if err := recordRounds(folder, "request", func() error { return ask(ctx, client) }); err != nil {
		return err
	}
	earlier, err := o.commands(ctx)
	if err != nil {
		return err
	}
	t, err := o.follow(ctx, earlier, func() error { return ask(ctx, client) })
	if err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "trail.json"), text, 0o600) //nolint:gosec // the folder is the caller's
}

// recordRounds keeps the coverage counters of calls in a folder for each, whose names
// begin with the kind of the call.
func recordRounds(folder, kind string, call func() error) error {
	for i := range rounds {
		round := filepath.Join(folder, kind+strconv.Itoa(i+1))
		if err := os.Mkdir(round, 0o700); err != nil { //nolint:gosec // the folder is the caller's
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		if err := call(); err != nil {
			return err
		}
		<-time.After(rest)
		if err := errors.Join(coverage.WriteMetaDir(round), coverage.WriteCountersDir(round)); err != nil {
			return err
		}
	}
	return nil
}

// ask makes the request of ARCHITECTURE.md.
func ask(ctx context.Context, client authv3.AuthorizationClient) error {
	reply, err := client.Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Path: "/api/comments", Host: "shop.example", Scheme: "https",
			Headers: map[string]string{
				":authority": "shop.example", ":method": "POST", ":path": "/api/comments", ":scheme": "https",
				"x-user-id": "ann", "x-request-id": "1", "x-forwarded-for": "198.51.100.7", "user-agent": "house",
			},
		}},
	}})
	if err == nil && reply.GetStatus().GetCode() != int32(codes.OK) {
		err = fmt.Errorf("the request was refused: %v", reply)
	}
	return err
}
