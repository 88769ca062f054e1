package ruletest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The elements of a JUnit report, as CI systems read them.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string       `xml:"name,attr"`
		ClassName string       `xml:"classname,attr"`
		File      string       `xml:"file,attr"`
		Line      int          `xml:"line,attr,omitempty"`
		Time      string       `xml:"time,attr"`
		Failure   *junitReport `xml:"failure"`
		Error     *junitReport `xml:"error"`
	}
	junitReport struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes results as a JUnit report, a suite per file. The error comes from w.
func WriteJUnit(w io.Writer, results []*Result) error {
	var all junitSuites
	for _, r := range results {
		s := r.suite()
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Result) suite() junitSuite {
	s := junitSuite{Name: r.Path, Tests: len(r.Cases), Failures: r.Failed(), Time: "0"}
	if r.Err != nil {
		s.Tests, s.Failures, s.Errors = 1, 0, 1
		s.Cases = []junitCase{{
			Name: "rules", ClassName: r.Path, File: r.Path, Time: "0",
			Error: &junitReport{r.problem(), printableLines(r.Err.Error())},
		}}
		return s
	}
	total := 0.0
	for i := range r.Cases {
		c := &r.Cases[i]
		x := junitCase{Name: c.Name, ClassName: r.Path, File: r.Path, Line: c.Line, Time: fmt.Sprintf("%.3f", c.Took.Seconds())}
		if c.Failure != nil {
			x.Line = c.Failure.Line
			x.Failure = &junitReport{c.Failure.message(), c.Failure.text()}
		}
		total += c.Took.Seconds()
		s.Cases = append(s.Cases, x)
	}
	s.Time = fmt.Sprintf("%.3f", total)
	return s
}

// message describes the failure in one line.
func (f *Failure) message() string {
	if f.Err != nil {
		return f.Err.Error()
	}
	list := make([]string, len(f.Wrong))
	for i, d := range f.Wrong {
		list[i] = fmt.Sprintf("%s: want %s, got %s", d.Field, d.Want, d.Got)
	}
	return strings.Join(list, "; ")
}
