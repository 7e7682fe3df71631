import { oneOf, optional } from "./setting.ts";

/** Destination of agent traces. */
export const agentTracingSettings = {
  tracing: oneOf(
    "PIERHEAD_TRACING",
    ["none", "langsmith", "otlp"] as const,
    "Destination of agent traces: a LangSmith-compatible server, which gets one project per deployment, or an OpenTelemetry collector.",
  ),
  tracingUrl: optional(
    "PIERHEAD_TRACING_URL",
    "none",
    "API URL of that server (`https://host/api/v1`) or OTLP endpoint of that collector. Agents must reach it too.",
  ),
  tracingKey: optional(
    "PIERHEAD_TRACING_KEY",
    "none",
    "API key for the LangSmith-compatible server. Agents get it too.",
  ),
  tracingWorkspace: optional(
    "PIERHEAD_TRACING_WORKSPACE",
    "none",
    "Workspace on that server, if the key is valid for several.",
  ),
  tracingHeaders: optional(
    "PIERHEAD_TRACING_HEADERS",
    "none",
    "Headers for the OpenTelemetry collector: comma-separated `name=value` pairs. Agents get them too.",
  ),
};
