module github.com/koalagate/koalagate/deploy/sbom

go 1.26.8

require github.com/CycloneDX/cyclonedx-go v0.12.0
