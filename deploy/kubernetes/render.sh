#!/usr/bin/env bash
# Renders the manifests in this folder from the chart, with helm:
#
#   deploy/kubernetes/render.sh FOLDER
set -euo pipefail
folder=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../helm"

# render ARGUMENTS…: prints objects without the marks of Helm.
render() {
  helm template koalagate koalagate --namespace koalagate --kube-version 1.34.0 --values ../kubernetes/values.yaml "$@" |
    sed '/^# Source: /d; /^ *helm.sh\/chart: /d; /^ *app.kubernetes.io\/managed-by: /d'
}
note='# Rendered from deploy/helm/koalagate by deploy/kubernetes/render.sh; change it there.'
{
  echo "$note"
  render --set serviceMonitor.enabled=false
} >"$folder/koalagate.yaml"
{
  echo "$note"
  echo "# For the Prometheus Operator, whose CustomResourceDefinitions must be installed."
  render --show-only templates/servicemonitor.yaml
} >"$folder/servicemonitor.yaml"
