/**
 * V8 flags of a server process. The young generation is limited to two semi-spaces of 8 MiB. Without the limit V8 grew it by
 * up to 64 MB, used 15 MB more during the burst at start-up, and returned none of it. The same flag on Node's command line
 * overrides this one. NODE_OPTIONS does not.
 * Bench line: "memory of a control plane without deployments" in bench/results.md.
 */
export const serverNodeFlags = ["--max-semi-space-size=8"];
