package hostile_test

import (
	"fmt"
	rand "math/rand/v2"
	"strings"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// hostileTable lists requests that programs are known to interpret differently, each
// unusual in one place.
func hostileTable() (list []rig.HostileRequest) {
	for _, target := range plainTargets {
		list = append(list, rig.HostileRequest{Line: "GET " + target + " HTTP/1.1", Headers: rig.ShopHost, Plain: true, Only: nil})
	}
	for _, target := range hostileTargets {
		list = append(list, rig.HostileRequest{Line: "GET " + target + " HTTP/1.1", Headers: rig.ShopHost, Plain: false, Only: nil})
	}
	for _, host := range plainHosts {
		list = append(list, rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: " + host, Plain: true, Only: nil})
	}
	for _, host := range hostileHosts {
		list = append(list, rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: " + host, Plain: false, Only: nil})
	}
	for _, version := range []string{"1.0", "1.1", "1.2", "2.0", "0.9"} {
		list = append(list, rig.HostileRequest{Line: "GET /a HTTP/" + version, Headers: "", Plain: false, Only: nil},
			rig.HostileRequest{Line: "GET http://blocked.example/a HTTP/" + version, Headers: "", Plain: false, Only: nil},
			rig.HostileRequest{Line: "GET /a HTTP/" + version, Headers: "Host: blocked.example", Plain: false, Only: nil})
	}
	for _, method := range []string{"get", "Get", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PRI", "post", "FOO", "M-SEARCH", "G%45T", "PROPFIND"} {
		list = append(list, rig.HostileRequest{Line: method + " /a HTTP/1.1", Headers: rig.ShopHost, Plain: false, Only: nil}, rig.HostileRequest{Line: method + " /healthz HTTP/1.1", Headers: rig.ShopHost, Plain: false, Only: nil})
	}
	list = append(list, rig.HostileRequest{Line: "CONNECT shop.example:80 HTTP/1.1", Headers: rig.ShopHost, Plain: false, Only: nil}, rig.HostileRequest{Line: "OPTIONS * HTTP/1.1", Headers: rig.ShopHost, Plain: false, Only: nil})
	for _, line := range hostileHeaders {
		list = append(list, rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: rig.ShopHost + "\r\n" + line, Plain: false, Only: nil}, rig.HostileRequest{Line: "GET /healthz HTTP/1.1", Headers: rig.ShopHost + "\r\n" + line, Plain: false, Only: nil})
	}
	for _, body := range hostileBodies {
		list = append(list, rig.HostileRequest{Line: "POST /a HTTP/1.1", Headers: rig.ShopHost + "\r\n" + body, Plain: false, Only: nil})
	}
	return list
}

var plainTargets = []string{
	"/", "/a", "/a/", "/healthz", "/healthz?x=1", "/downloads/f", "/downloads/%c3%a9", "/a%20b", "/a%25b", "/~a", "/a,b:c@d", "/a+b", "/a.b", "/...",
	"/.well-known/x", "/a?x=%2f..%5c", "/a?x=/../healthz", "//a", "/downloads//f", "/%61", "/a;x=1",
}

var hostileTargets = []string{
	"/search/..%2Fhealthz", "/search/..%2fhealthz", "/search%2f..%2fhealthz", "/search/..%5chealthz", "/search/..%5Chealthz", `/search/..\healthz`,
	"/x/%2e%2e/healthz", "/x/.%2E/healthz", "/x/../healthz", "/x/..//healthz", "//healthz", "/healthz/", "/HEALTHZ", "/healthz.", "/healthz%20",
	"/healthz%2e", "/healthz;a=b", "/healthz/../admin", "/healthz%2f..%2fadmin", "/healthz/..%2fadmin", "/healthz%00", "/healthz%0a",
	"/healthz#/../admin", "/healthz%23/../admin", "/healthz%3f/../admin", "/%68ealthz", "/x/%252e%252e/healthz", "/x/..%252fhealthz",
	"/..;/healthz", "/x/..;/healthz", "/x/..;a=b/healthz", "/x/.;/healthz", "/x/..%3b/healthz", "/x/%2e%2e;/healthz", "/x/%2e%2e%3Ba/healthz",
	"/x/%2%65%2%65/healthz", "/x/%u002e%u002e/healthz", "/.../healthz", "/x/.../healthz", "/..", "/../..", "/.", "/a/..", "/a/.", "/a//..//b",
	"/downloads/..%2ff", "/downloads/..%2Ff", "/downloads/%2e%2e/f", "/downloads/%2E%2e%2ff", "/downloads/..%5cf", `/downloads/..\f`,
	"/downloads/..;/f", "/downloads/..%3b/f", "/downloads/;/f", "/downloads;x/f", "/downloads/%00f", "/downloads%20/f", "/downloads%2ff",
	"/DOWNLOADS/f", "/Downloads%2Ff", "/x/..%2fdownloads/f", "/x/%2%65%2%65/downloads/f", "//downloads/f", "/./downloads/f", "/x/../downloads/f",
	"/downloads/./f", "/downloads/%2e/f", "/downloads/.", "/downloads/..", "/%64ownloads/f", "/downloads/f%0d%0aX: y", "/downloads/f%0aX",
	`/a"b`, "/a%22b", "/a|b", "/a{b}", "/a^b`", "/a%", "/a%2", "/a%zz", "/a%3fb", "/a%23b", "/a%252fb", "/%2%66x", "/a%5C..%5Cb", "/x%25%32%66y",
	"/a b", "*", "admin", "?", "/a\tb", "/a\x01b", "/a\x7fb", "/healthz\x00", "{http.request.uri}", "/{http.request.host}",
	"http://other.example/a", "http://blocked.example/a", "HTTP://blocked.example/a", "http://blocked.example", "http://blocked.example?x=/healthz",
	"http://blocked.example/healthz", "http://user@blocked.example/a", "http://blocked.example:80/a", "https://blocked.example/a",
	"ftp://blocked.example/a", "//blocked.example/a", "http:///a", "http://shop.example@blocked.example/a", "http://[::1]/a",
	"http://blocked.example//a", "http://blocked.example/../a", "http://blocked.example/..%2fhealthz", "http:/a", "http:a", "blocked.example:80",
	`http://blocked.example\@shop.example/a`, "http://shop.example/../healthz", "http://shop.example/x/..%2fhealthz",
}

var plainHosts = []string{"shop.example", "Shop.Example", "shop.example:8080", "shop_a.example", "127.0.0.1:80", "[::1]", "[::1]:80", "xn--a.example"}

var hostileHosts = []string{
	"blocked.example", "BLOCKED.example", "blocked.example:80", "blocked.example:80:80", "blocked.example:", "blocked.example::",
	"blocked.example.", "blocked.example..", "blocked.example.:80", ".blocked.example", "user@blocked.example", "a:b@blocked.example",
	"blocked.example@x", "blocked.example,shop.example", "shop.example,blocked.example", "blocked.example, shop.example", "blocked.example shop.example",
	"blocked.example/x", "blocked.example#", "blocked.example?", `blocked.example\`, `"blocked.example"`, "[blocked.example]", "[::1]80", "::1",
	"[::ffff:1.2.3.4]", "blocked%2eexample", "blocked.example%00", "blocked.example:80a", "blocked.example:99999999", "blocked.example:+80",
	"blocked.example:-1", "blocked.example\t", "\tblocked.example", "", "blocked.example\xff", "blocked.example;x", "{http.request.host}",
	"blocked.example:80.", ":80", "..", "-", "shop.example\r\nHost: blocked.example", "blocked.example\r\nHost: shop.example",
	"shop.example\r\nHost: shop.example", "shop.example\r\nHost : blocked.example", "shop.example\r\n Host: blocked.example",
}

var hostileHeaders = []string{
	"X-Forwarded-Host: blocked.example", "Forwarded: host=blocked.example", "X-Forwarded-Prefix: /admin", "X-Original-URL: /admin",
	"X-Original-URI: /admin", "X-Rewrite-URL: /admin", "X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE",
	"X-User-Id: neighbor", "x-user-id: neighbor", "X_User_Id: neighbor", "X-User_Id: neighbor", "X_User-Id: neighbor",
	"X-Koala-Rule: 9", "X_Koala_Rule: 9", "X-Koala_Decision: allow", "X-Koala-Param-Act: forged", "X-Koala_Param-Act: forged",
	"Connection: close, X-User-Id, Host, X-Forwarded-Host", "X-HTTP_Method-Override: DELETE",
	"X-Forwarded-Client-Cert: Subject=\"CN=neighbor\";URI=spiffe://mesh.example/neighbor", "x_forwarded_client_cert: Hash=0", "Client-Cert: :MIIB:",
	"Client-Cert-Chain: :MIIB:", "Client_Cert: :MIIB:",
}

// pipelined is the trace of requests in the bodies of others. A gateway that ends the body
// where the attacker says takes them for the connection's next requests.
const pipelined = "pipelined"

var hostileBodies = []string{
	"Transfer-Encoding: chunked\r\n\r\n0", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0", "Transfer-Encoding: xchunked\r\n\r\n0",
	"Transfer-Encoding: gzip, chunked\r\n\r\n0", "Content-Length: 0\r\nContent-Length: 3\r\n\r\nabc", "Content-Length: +3\r\n\r\nabc",
	"Transfer-Encoding : chunked\r\n\r\n0", "Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\nabcde\r\n0",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\nX-User-Id: neighbor\r\nHost: blocked.example", "Transfer-Encoding:\x0bchunked\r\n\r\n0",
	"Content-Length: 0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: blocked.example\r\nX-Trace: " + pipelined,
	"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: blocked.example\r\nX-Trace: " + pipelined,
}

// hostileRandom composes a request of unusual parts.
func hostileRandom(random *rand.Rand) rig.HostileRequest {
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	var target strings.Builder
	if random.IntN(8) == 0 {
		target.WriteString("http://" + pick([]string{"shop.example", "blocked.example", "shop.example:80"}))
	}
	for range 1 + random.IntN(4) {
		target.WriteString(pick([]string{"/", "/", "/", "/", "/", "//", "%2f", "%2F", `\`, "%5c", "/./", "%252f"}))
		segment := pick([]string{"healthz", "downloads", "a", "f", "..", ".", "...", "", "blocked"})
		for i := range len(segment) {
			switch c := segment[i]; random.IntN(12) {
			case 0:
				fmt.Fprintf(&target, "%%%02x", c)
			case 1:
				fmt.Fprintf(&target, "%%%02X", c)
			case 2:
				fmt.Fprintf(&target, "%%25%02x", c)
			case 3:
				target.WriteString(strings.ToUpper(string(c)))
			default:
				target.WriteByte(c)
			}
		}
		target.WriteString(pick([]string{"", "", "", "", "", ";", ";x=1", "%3b", "%20", ".", "%00", "#", "?", "%3f", "%23", "%"}))
	}
	method := pick([]string{"GET", "GET", "GET", "POST", "HEAD", "DELETE", "get", "TRACE", "FOO"})
	host := "Host: " + pick([]string{"shop.example", "shop.example", "shop.example", pick(plainHosts), pick(hostileHosts)})
	if random.IntN(3) == 0 {
		host += "\r\n" + pick(hostileHeaders)
	}
	return rig.HostileRequest{Line: method + " " + target.String() + " HTTP/1." + pick([]string{"0", "1", "1", "1"}), Headers: host}
}
