import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import { optional, type Read, whole } from "./setting.ts";
import { version } from "./version.ts";

/** Settings for traces of Pierhead itself, read by server and listener. Agents use `PIERHEAD_TRACING`. */
export const tracesSettings = {
  tracesUrl: optional(
    "PIERHEAD_TRACES_URL",
    "none",
    "OpenTelemetry collector (OTLP over HTTP) for traces of Pierhead itself: `http://127.0.0.1:4318`. For traces of agents, see `PIERHEAD_TRACING`.",
  ),
  tracesHeaders: optional(
    "PIERHEAD_TRACES_HEADERS",
    "none",
    "Headers for that collector, such as an API key: comma-separated `name=value` pairs.",
  ),
  tracesPercent: whole(
    "PIERHEAD_TRACES_PERCENT",
    100,
    0,
    100,
    "Percentage of traces started by Pierhead that are recorded. For a trace started by a caller, the caller decides.",
  ),
};

/**
 * Opens the exporter for Pierhead's own traces.
 * @param program name and instance of the running program.
 * @returns null when no collector is configured. OpenTelemetry is then not loaded.
 * @throws Error naming the variable that is wrong.
 */
export async function openTraces(
  settings: Read<typeof tracesSettings>,
  program: { name: string; instanceId: string; logger: Logger },
): Promise<Traces | null> {
  if (settings.tracesUrl === undefined) return null;
  const { name, instanceId, logger } = program;
  const given = {
    url: addressOf(settings.tracesUrl),
    headers: headersOf(settings.tracesHeaders),
    ratio: settings.tracesPercent / 100,
    service: { name, version, instanceId },
  };
  const { openOtlpTraces } = await import("../telemetry/otlp-traces.ts");
  return openOtlpTraces(given, logger);
}

/** Accepts the collector's base URL (OTLP specification, endpoint URLs) or its full traces URL. */
function addressOf(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Error("PIERHEAD_TRACES_URL must be the http or https address of an OpenTelemetry collector");
  }
  if (url.username !== "" || url.password !== "") {
    throw new Error("PIERHEAD_TRACES_URL must hold no password: give it in PIERHEAD_TRACES_HEADERS");
  }
  const path = url.pathname.replace(/\/+$/, "");
  url.pathname = path.endsWith("/v1/traces") ? path : `${path}/v1/traces`;
  return url.href;
}

function headersOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? "").split(",").filter((pair) => pair.trim() !== "");
  try {
    const entries = pairs.map(
      (pair) =>
        /^([^=]+)=(.*)$/s
          .exec(pair)
          ?.slice(1)
          .map((part) => part.trim()) ?? [""],
    );
    return Object.fromEntries(new Headers(entries as [string, string][]));
  } catch {
    // The value may contain a key, so the message does not repeat it.
    throw new Error("PIERHEAD_TRACES_HEADERS must be `name=value` pairs separated by commas");
  }
}
