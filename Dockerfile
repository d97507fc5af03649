# A static binary in an image without a shell, run by a user that is not root.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t streamsvm .
#   docker run --rm streamsvm demo
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
# -trimpath and no build id: the same source gives the same bytes anywhere.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags="-s -w -buildid= -X github.com/streamsvm/streamsvm/internal/version.release=${VERSION}" \
      -o /out/streamsvm ./cmd/streamsvm && mkdir /out/state

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/streamsvm /usr/local/bin/streamsvm
COPY --from=build --chown=nonroot:nonroot /out/state /state
USER nonroot
VOLUME /state
EXPOSE 8080
# The image has no curl: streamsvm asks itself. A container that serves nothing
# on port 8080 should switch the check off.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/streamsvm", "doctor", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/usr/local/bin/streamsvm"]
CMD ["--help"]
