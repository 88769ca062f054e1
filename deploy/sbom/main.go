// Command sbom writes which modules Go programs contain, as a CycloneDX document in JSON on the
// standard output. It reads what the go command has put into the programs:
//
//	go run . VERSION PROGRAM…
//
// SOURCE_DATE_EPOCH in the environment is the time of the document, in seconds since 1970.
// Equal programs have equal documents.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: sbom VERSION PROGRAM…")
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// write writes the document of programs that are one product of that version.
func write(version string, programs []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	parts := make(map[string]cdx.Component)
	product := cdx.Component{Type: cdx.ComponentTypeApplication, Name: "koalagate", Version: version}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		product.PackageURL = purl(info.Main.Path, version)
		standard := debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, module := range append(info.Deps, &standard) {
			part, err := component(module)
			if err != nil {
				return fmt.Errorf("%s: %w", program, err)
			}
			parts[part.BOMRef] = part
		}
	}
	product.BOMRef = product.PackageURL
	components := slices.SortedFunc(maps.Values(parts), func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	references := slices.Sorted(maps.Keys(parts))
	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: time.Unix(seconds, 0).UTC().Format(time.RFC3339), Component: &product}
	document.Components = &components
	document.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &references}}
	return cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(document)
}

// component describes a module, with its hash in go.sum.
func component(module *debug.Module) (cdx.Component, error) {
	if module.Replace != nil {
		module = module.Replace
	}
	part := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
		PackageURL: purl(module.Path, module.Version),
	}
	part.BOMRef = part.PackageURL
	if module.Path == "std" {
		return part, nil
	}
	encoded, found := strings.CutPrefix(module.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil {
		return part, errors.Join(fmt.Errorf("module %s has no hash; want one from go.sum", module.Path), err)
	}
	part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return part, nil
}

// purl returns the package URL of a module.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
