{{- define "streamsvm.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "streamsvm.account" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}{{ else if .Values.serviceAccount.create }}{{ include "streamsvm.name" . }}{{ else }}default{{ end -}}
{{- end }}

{{- /* Labels that select the pods of a role, or with the role "" all. */ -}}
{{- define "streamsvm.selector" -}}
app.kubernetes.io/name: streamsvm
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "streamsvm.labels" -}}
{{ include "streamsvm.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- /* Where a trainer keeps its checkpoints. */ -}}
{{- define "streamsvm.checkpoint" -}}
{{- with .values.storage.topic }}kafka://{{ . }}{{ else }}/state{{ end -}}
{{- end }}

{{- /* The configuration file of a role. */ -}}
{{- define "streamsvm.config" -}}
{{- $own := dict "listen" "0.0.0.0:8080" -}}
{{- if eq .role "train" }}{{ $_ := set $own "checkpoint" (include "streamsvm.checkpoint" .) }}{{ end -}}
{{- range .root.Values.secretFiles }}{{ $_ := set $own .setting (printf "/secrets/%s" .setting) }}{{ end -}}
{{- mergeOverwrite (deepCopy .root.Values.config) (deepCopy .values.config) $own | toYaml -}}
{{- end }}

{{- /* The pods of a role. */ -}}
{{- define "streamsvm.pod" -}}
metadata:
  labels:
    {{- include "streamsvm.labels" . | nindent 4 }}
    {{- with .root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # Pods are replaced when their configuration changes.
    checksum/config: {{ include "streamsvm.config" . | sha256sum }}
    {{- with .root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "streamsvm.account" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- if ne .role "train" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "streamsvm.selector" . | nindent 10 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag }}"
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: [{{ .role }}, --config, /etc/streamsvm/streamsvm.yaml, --log-format, json]
      {{- with .root.Values.env }}
      env: {{ toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: 8080}
      # It answers from the start on, also while it waits for brokers, or for a
      # model; red is a trainer that hangs or has been replaced by another.
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{ toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/streamsvm, readOnly: true}
        {{- if .root.Values.secretFiles }}
        - {name: secrets, mountPath: /secrets, readOnly: true}
        {{- end }}
        {{- if eq .role "train" }}{{ if not .values.storage.topic }}
        - {name: state, mountPath: /state}
        {{- end }}{{ end }}
  volumes:
    - name: config
      configMap: {name: {{ include "streamsvm.name" .root }}-{{ .role }}}
    {{- if .root.Values.secretFiles }}
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- range .root.Values.secretFiles }}
          - secret:
              name: {{ .secret }}
              items: [{key: {{ .key }}, path: {{ .setting }}}]
          {{- end }}
    {{- end }}
{{- end }}
