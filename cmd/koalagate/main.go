// Koalagate decides for gateways whether requests may pass. It evaluates rules,
// counts in Redis or in process, and implements the protocols of Envoy, nginx and
// other gateways.
package main

import "os"

func main() {
	p := program{args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, installed: "/etc"}
	if isRateLimit(os.Args[0]) {
		p.args = []string{rateLimitName}
	}
	os.Exit(p.run())
}
