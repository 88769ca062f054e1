// Command clients asks koalagate for rows before an export, and settles the rows that it used:
//
//	KOALA_TOKEN=… go run client.go http://127.0.0.1:9981 ann 600 250
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

var client = http.Client{Timeout: time.Second}

type reply struct {
	Verdict int    `json:"Err_no"` // 0 allows
	Message string `json:"Err_msg"`
	Receipt string
	Fault   int    `json:"err_no"`
	Reason  string `json:"err_msg"`
}

// call returns an error if koalagate has not decided: whether the work is done then is up to you.
func call(address string, args url.Values) (r reply, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address, strings.NewReader(args.Encode()))
	if err != nil {
		return r, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("KOALA_TOKEN")) // of koala_token, if that is set
	response, err := client.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	if err = json.NewDecoder(response.Body).Decode(&r); err == nil && r.Fault != 0 {
		err = fmt.Errorf("%s: %s", address, r.Reason)
	}
	return r, err
}

func export(address, user, expected, used string) (string, error) {
	entry, err := call(address+"/rule/take", url.Values{"act": {"export"}, "uid": {user}, "rows": {expected}})
	if err != nil || entry.Verdict != 0 {
		return "refused: " + entry.Message, err
	}
	// The export is here. If the settlement fails, the expected rows stay counted.
	_, err = call(address+"/rule/settle", url.Values{"_receipt": {entry.Receipt}, "_hits": {used}})
	return "allowed", err
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: client ADDRESS USER EXPECTED USED")
	}
	outcome, err := export(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome)
}
