#!/usr/bin/env bash
# Checks the Helm chart: helm lint, what the manifests must say, and whether
# Kubernetes' own schemas allow them.
#
#   scripts/chart.sh
#
# Exit code 75: Helm or the schemas cannot be had. Helm is built once (some
# minutes), from the Go module proxy; the schemas, and what looks at them, are the
# Python package kubernetes-validate. With KUBECONFIG set, a control plane is asked
# as well, without changing anything (kubectl needed).
#
# Cache: $STREAMSVM_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/streamsvm.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=v3.19.0 VALIDATE=1.37.0 KUBERNETES=1.37

cache=${STREAMSVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/streamsvm}/chart
chart=deploy/helm/streamsvm

missing() { echo "chart.sh: $*" >&2; exit 75; }

helm=$cache/helm-$HELM
if [ ! -x "$helm" ]; then
	mkdir -p "$cache/try"
	(cd / && GOBIN=$cache/try go install "helm.sh/helm/v3/cmd/helm@$HELM") >&2 || missing "Helm cannot be built"
	mv "$cache/try/helm" "$helm"
fi

validate=$cache/validate-$VALIDATE
if [ ! -f "$validate/complete" ]; then
	rm -rf "$validate"
	python3 -m venv "$validate" >&2 || missing "python3 -m venv fails"
	"$validate/bin/python" -m pip install -q --disable-pip-version-check "kubernetes-validate==$VALIDATE" >&2 || missing "the schemas cannot be downloaded"
	: >"$validate/complete"
fi

"$helm" lint --strict --quiet --kube-version $KUBERNETES.0 "$chart"
STREAMSVM_TEST_HELM=$helm go test -count=1 "./$chart"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# What is KEDA's and the Prometheus operator's is left out: it has no schema here.
all=sift.enabled=true,secretFiles[0].setting=tls-ca,secretFiles[0].secret=ca,secretFiles[0].key=ca.crt,imagePullSecrets[0]=pull
all+=,env[0].name=AWS_REGION,env[0].value=eu-west-1,podLabels.team=a,podAnnotations.team=a,nodeSelector.disk=ssd,tolerations[0].key=x,train.storage.className=fast
"$helm" template demo "$chart" --kube-version $KUBERNETES.0 >"$tmp/plain.yaml"
"$helm" template demo "$chart" --kube-version $KUBERNETES.0 --set "$all" >"$tmp/all.yaml"
"$validate/bin/kubernetes-validate" --strict --quiet -k $KUBERNETES "$tmp"/*.yaml
echo "chart.sh: $(cat "$tmp"/*.yaml | grep -c '^kind:') manifests are what Kubernetes $KUBERNETES takes"

if [ -n "${KUBECONFIG:-}" ]; then
	kubectl apply --dry-run=server -f "$tmp/plain.yaml"
fi
