# syntax=docker/dockerfile:1
# One build for all programs, and one image for each:
#
#   docker build --target worker --build-arg VERSION=v0.1.0 --tag oneeffect/worker .
#
# The build runs on the builder's own processor and cross-compiles, so that an
# image for another one takes no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X oneeffect/cmd/internal/process.version=$VERSION" -o /out/ \
    ./cmd/worker ./cmd/orchestrator ./cmd/projector ./cmd/taskctl ./emulator

# No shell, no package manager, and nobody's rights.
FROM gcr.io/distroless/static-debian12:nonroot AS base
WORKDIR /app
USER 65532:65532

FROM base AS taskctl
COPY --from=build /out/taskctl /app/taskctl
ENTRYPOINT ["/app/taskctl"]

# For trying it out: its keys are known to everybody.
FROM base AS emulator
COPY --from=build /out/emulator /app/emulator
ENTRYPOINT ["/app/emulator"]

FROM base AS projector
COPY --from=build /out/projector /app/projector
EXPOSE 8083
ENTRYPOINT ["/app/projector"]

FROM base AS orchestrator
COPY --from=build /out/orchestrator /app/orchestrator
EXPOSE 8080
ENTRYPOINT ["/app/orchestrator"]

# The handlers are part of the image: a version of them is a version of it.
FROM base AS worker
COPY --from=build /out/worker /app/worker
COPY handlers.yaml /app/handlers.yaml
ENTRYPOINT ["/app/worker"]
