package page

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// earlier writes to Redis what another instance refused so many minutes ago: calls of an address by
// rule 202.
func (f *fleet) earlier(minutes, calls int, ip string) {
	f.Helper()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	minute := time.Now().Unix()/60 - int64(minutes)
	top := fmt.Sprintf(`{"m":[0,0,0],"n":[%d,0,0],"l":[{"r":202,"d":"auth-request","v":[%q,%q,%q,%q],"c":[%[1]d,0,0],"e":[0,0,0]}]}`,
		calls, encoded("act"), encoded("login"), encoded("ip"), encoded(ip))
	traffic := fmt.Sprintf(`{"v":[0,%d,0,0,0],"r":[{"n":202,"l":"logins","c":[0,%[1]d,0,0]}]}`, calls)
	conn, err := net.Dial("tcp", f.redis.Address)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	for kind, document := range map[string]string{"top": top, "traffic": traffic} {
		args := []string{"HSET", fmt.Sprintf("koala:{minutes}:%s:%d", kind, minute), "another", document}
		command := fmt.Appendf(nil, "*%d\r\n", len(args))
		for _, a := range args {
			command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(a), a)
		}
		answer := make([]byte, 4)
		if _, err := conn.Write(command); err != nil {
			f.Fatal(err)
		}
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), ":1") {
			f.Fatalf("Redis answers %q, %v", answer[:n], err)
		}
	}
}

// Now shows what happens now first: an attack of half an hour ago comes after the refusals of the last
// minutes, however large it was. The chart says when a version was published.
func TestNowIsAboutNow(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	f.refuse("ann")
	f.earlier(30, 5000, "198.51.100.9")
	w := enter(t, f.one.Admin, "", desk)
	const rows = `Array.from(document.querySelectorAll(".columns .panel")[%d].querySelectorAll("tbody tr"), (r) => r.innerText)`
	w.wait(fmt.Sprintf(rows, 0) + `.map((r) => r.match(/comments|logins/)?.[0]).join() === "comments,logins"`)
	w.wait(fmt.Sprintf(rows, 1) + `.map((r) => r.match(/ann|Before, in the last hour|198[.]51[.]100[.]9/)?.[0]).join() === "ann,Before, in the last hour,198.51.100.9"`)
	w.wait(`document.querySelectorAll(".tile b")[2].textContent === "20.0 %"`) // of the last minutes
	w.see("99.9 % in the last hour")
	w.wait(`Array.from(document.querySelectorAll(".chart .mark"), (m) => m.textContent).join() === "v1"`)
	f.publish(with(t, "count=4]", "count=5]"))
	w.wait(`Array.from(document.querySelectorAll(".chart .mark"), (m) => m.textContent).join() === "v1,v2"`)
	w.wait(`document.querySelector(".chart").getAttribute("aria-label").includes("Published: v1, v2.")`)
	w.accessible("now with an earlier attack")
	w.fits("now with an earlier attack")
	w.picture("now-lately")
}

// Now names an instance that ended without taking leave, until an operator dismisses it.
func TestGoneInstance(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "", desk)
	w.see("Rules that refuse")
	if err := f.two.Kill(); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprintf("(pid %d)", f.two.PID())
	w.see(pid + " is gone.")
	w.accessible("a gone instance")
	w.picture("gone")
	w.visit("#/instances")
	w.see("last heard")
	w.visit("#/")
	w.click("Dismiss")
	w.see(pid + " is dismissed.")
	w.wait(`!document.body.innerText.includes("is gone.")`)
	w.visit("#/log")
	w.see("instance dismiss")
}

// Whom a direct rule refuses is listed, can be excepted, and has no counter to reset.
func TestRefusedByDirectRule(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, with(t, "rule : [count] [act=comment; ip=+]", "rule : [direct] [ip=192.0.2.0/24] [] [result=2; return=204; name=blocked]\nrule : [count] [act=comment; ip=+]"))
	if status := f.call("/api/comments", "zoe", "192.0.2.7"); status == http.StatusOK {
		t.Fatal("the rule does not refuse")
	}
	w := enter(t, f.one.Admin, "", desk)
	w.see("ip=192.0.2.7")
	w.click("Actions")
	w.wait(`Array.from(document.querySelectorAll(".menu:popover-open button"), (b) => b.innerText).join() === "Except for 2 h,Ban,Ban from everything"`)
	w.click("Except for 2 h")
	w.see("Until its end the rule lets this identity pass.")
	w.confirm()
	w.see("Excepted from rule 204 (blocked).")
	f.until("the exception is in force", func() bool { return f.call("/api/comments", "zoe", "192.0.2.7") == http.StatusOK })
}

// A ban of everyone asks twice: by a rule that counts all requests together, and from everything by
// parameters that tell no client from another.
func TestBanOfEveryoneAsksTwice(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, with(t, "[act=comment; uid=+]", "[act=comment]"))
	f.refuse("ann")
	w := enter(t, f.one.Admin, "", desk)
	w.see("Rules that refuse")
	w.click("Actions")
	w.click("Ban")
	w.write("Note", "all of them")
	w.confirm()
	w.see("the ban refuses everyone who meets the rule")
	w.accessible("a ban that asks twice")
	if list := f.get("exceptions"); strings.Contains(list, "deny") {
		t.Errorf("banned after the first question: %s", list)
	}
	w.click("Cancel")
	w.click("Actions")
	w.click("Ban from everything")
	w.confirm()
	w.see("the ban refuses everyone whose requests have them")
	w.click("Ban everyone")
	w.see("Banned from everything.")
	f.until("the ban is in force", func() bool { return strings.Contains(f.get("exceptions"), "ban") })
	w.visit("#/exceptions")
	w.click("End")
	w.see("The ban has ended.")

	w.click("Add …") // a client is banned at once
	w.choose("What", "banned from everything")
	w.write("Identity", "ip=192.0.2.7")
	w.confirm()
	w.see("ip=192.0.2.7")
	w.wait(`!document.querySelector("dialog[open]")`)
}

// A row with a value that is too long for the list acts on the value itself.
func TestLongValues(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	long := strings.Repeat("long", 50)
	f.refuse(long)
	w := enter(t, f.one.Admin, "", desk)
	w.see("uid=longlong")
	w.wait(`!Array.from(document.querySelectorAll("main td a")).some((a) => a.innerText.includes("longlong"))`) // a question would be about another value
	w.click("Actions")
	w.click("Except for 2 h")
	w.confirm()
	w.see("Excepted from rule 201 (comments).")
	f.until("the exception is in force", func() bool { return f.comment(long) == http.StatusOK })
	w.wait(`Array.from(document.querySelectorAll("main tr")).some((r) => r.innerText.includes("longlong") && r.innerText.includes("passes"))`)
}
